"""macOS and Windows, as far as a test on Linux can be on them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from contextlib import suppress
from glob import glob
from pathlib import Path
from types import ModuleType

import iree_winograd_tools
import pytest
from iree.winograd.atomic_file import atomic_file, unnamed_file
from iree.winograd.command_line import driver
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.pipelines.machines import user_folders
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.running.memory import peak_bytes
from iree.winograd.tuning.schedulers.local import _TemporaryFile

ROOT = Path(__file__).parents[2]
LAYERS = ("dialect", "passes", "pipelines")
SYSTEMS = ["win32", "darwin"]

IMPORT_ALL = """
import importlib, os, pkgutil, signal, sys
import iree.winograd, torch
import iree.winograd.torch_compile.graph_compiler

def modules():
    return [each.name for each in pkgutil.walk_packages(iree.winograd.__path__, "iree.winograd.")]

optional = ("distributed", "optuna", "shtab", "openvino", "onnxruntime", "PIL", "google")
for name in modules():
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name and error.name.partition(".")[0] in optional, error
# MLIR takes a dialect once.
first = {name for name in sys.modules if name.startswith("iree.winograd.") and ".dialect" not in name}
for name in first:
    del sys.modules[name]

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "readline"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty", "readline"):
    sys.modules.pop(name, None)
for name in ("fork", "forkpty", "register_at_fork", "sched_getaffinity", "sched_setscheduler", "sched_param",
             "sched_getscheduler", "SCHED_OTHER", "SCHED_BATCH", "memfd_create", "O_TMPFILE", "fchmod",
             "set_blocking", "getuid", "killpg", "setsid", "getloadavg", "uname", "sysconf"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGPIPE", "SIGUSR1"):
    delattr(signal, name)
import multiprocessing.connection
multiprocessing.connection.PipeConnection = multiprocessing.connection.Connection
sys.platform = "win32"
for name in sorted(first):
    importlib.import_module(name)
print(len(first))
"""


@pytest.mark.wide
def test_all_modules_can_be_imported_without_what_windows_lacks() -> None:
    outcome = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 250


@pytest.mark.wide
@pytest.mark.parametrize("system", SYSTEMS)
def test_nothing_is_used_that_a_system_lacks(system: str, tmp_path: Path) -> None:
    """By the types of Python's own library there, in modules that import what differs."""
    packages = tmp_path / "iree" / "winograd"
    packages.mkdir(parents=True)
    for source in (*(ROOT / "python" / "winograd").iterdir(), *(ROOT / name for name in LAYERS)):
        (packages / source.name).symlink_to(source)
    differing = re.compile(
        r"^\s*(import|from) (os|signal|subprocess|multiprocessing|ctypes|socket|sys)\b", re.MULTILINE
    )
    files = [
        path.relative_to(tmp_path)
        for path in map(Path, glob(f"{packages}/**/*.py", recursive=True))
        if differing.search(path.read_text(encoding="utf-8"))
    ]
    command = [sys.executable, "-m", "mypy", "--platform", system, "--follow-imports=skip", "--config-file="]
    command += [
        "--ignore-missing-imports",
        "--namespace-packages",
        "--explicit-package-bases",
        *map(str, files),
    ]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "iree/winograd" in outcome.stdout or "Success" in outcome.stdout, outcome.stderr
    # What else it says comes of imports that it skips.
    lacking = [line for line in outcome.stdout.splitlines() if "Module has no attribute" in line]
    assert not lacking, "\n".join(lacking)


def test_a_user_has_folders_where_each_system_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/somebody"))
    for variable in (user_folders.DATA_FOLDER_VARIABLE, user_folders.CACHE_FOLDER_VARIABLE, "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    expected = {
        "linux": (".local/share/iree-winograd", ".cache/iree-winograd"),
        "darwin": ("Library/Application Support/iree-winograd", "Library/Caches/iree-winograd"),
        "win32": ("AppData/Local/iree-winograd/data", "AppData/Local/iree-winograd/cache"),
    }
    for system, (data, cache) in expected.items():
        monkeypatch.setattr(sys, "platform", system)
        assert user_folders.data_folder() == Path("/home/somebody", data)
        assert user_folders.cache_folder() == Path("/home/somebody", cache)
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert user_folders.data_folder() == Path("/local/iree-winograd/data")
    monkeypatch.setenv(user_folders.DATA_FOLDER_VARIABLE, str(tmp_path))
    assert user_folders.data_folder() == tmp_path / "iree-winograd"


@pytest.mark.parametrize("system", SYSTEMS)
def test_files_are_written_without_descriptors_as_paths(
    system: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    output = tmp_path / "output"
    output.write_text("before")
    output.chmod(0o640)
    with atomic_file(str(output)) as path:
        assert Path(path).parent == tmp_path
        # A file that is open could not be renamed.
        assert not any(os.path.samestat(os.stat(path), status) for status in open_files())
        Path(path).write_text("after")
    assert output.read_text() == "after" and output.stat().st_mode & 0o777 == 0o640
    with unnamed_file() as path:
        Path(path).write_text("in between")
        assert Path(path).read_text() == "in between"
    file = _TemporaryFile()
    file.path.write_bytes(b"program")
    assert file.size == 7
    file.clear()
    assert file.size == 0
    file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["output"] and not file.path.exists()
    assert not Path(path).exists()


def open_files() -> list[os.stat_result]:
    statuses = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            statuses.append(os.fstat(int(number)))
    return statuses


def test_a_damaged_database_is_set_aside_without_locks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(sys, "platform", "win32")
    path = tmp_path / "tuning.db"
    TuningDatabase(path, report=pytest.fail).close()
    path.write_bytes(path.read_bytes()[:100] + bytes(1000))
    reports: list[str] = []
    TuningDatabase(path, report=reports.append).close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["tuning.db", "tuning.db.damaged-1"]
    assert len(reports) == 1


def test_windows_has_programs_by_other_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("IREE_TOOL_PATH", raising=False)
    monkeypatch.setattr(sysconfig, "get_path", lambda name, scheme: str(tmp_path / scheme / name))
    assert stock_tool("iree-compile").name == "iree-compile.exe"
    search = ModuleType("search")
    vars(search).update(find_tool=lambda name: f"stock {name}", get_tool_path=pytest.fail)
    iree_winograd_tools._add_tools(search)
    assert search.find_tool("iree-compile") == "stock iree-compile"
    ours = tmp_path / "nt_user" / "scripts" / "winograd-iree-compile.exe"
    ours.parent.mkdir(parents=True)
    ours.touch()
    assert search.find_tool("iree-compile") == str(ours)
    assert search.find_tool("iree-opt") == "stock iree-opt"
    monkeypatch.setenv("IREE_TOOL_PATH", "/elsewhere")
    assert search.find_tool("iree-compile") == "stock iree-compile"


def test_windows_waits_for_the_stock_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(subprocess, "call", lambda command: 3 if command[1:] == ["--flag"] else pytest.fail())
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(os, "execv", lambda binary, arguments: None)
    driver.become_stock_tool(["--flag"])
    assert ended == [3]


def test_windows_tells_no_peak_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iree.winograd.running.memory._STATUS", Path("/nothing"))
    monkeypatch.setattr(sys, "platform", "win32")
    assert peak_bytes() is None
