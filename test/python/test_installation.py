"""The package as users get it: a wheel and an editable install, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import iree.winograd as winograd
import numpy
import pytest
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from small_programs import ADD, CONVOLUTION, ENABLE
from wide import wide

ROOT = Path(__file__).parents[2]
SOURCES = {
    "python/winograd": "iree/winograd",
    "dialect": "iree/winograd/dialect",
    "passes": "iree/winograd/passes",
    "pipelines": "iree/winograd/pipelines",
}
FLAGS = ("--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host")
# Without what pip knows them by, so that it leaves them alone.
BORROWED = ("compiler", "runtime", "_runtime", "numpy", "ml_dtypes")
SEARCHED = "from iree.compiler.tools.binaries import get_tool_path; print(get_tool_path(), flush=True)"
COMPILE_STR = """\
import sys, iree.compiler
program = open("program.mlir").read()
sys.stdout.buffer.write(iree.compiler.compile_str(program, extra_args=sys.argv[1:]))
"""
COMPILE_AND_RUN = """\
import json, math, os, sys
import numpy as np
import iree.winograd as winograd
from iree.winograd.dialect.algebra.numerics import error_bound

os.chdir(sys.argv[1])
program = winograd.compile("convolution.mlir", report="report.json", strict=True)
image = np.random.default_rng(0).uniform(-1, 1, (1, 18, 18, 16)).astype(np.float32)
result = np.asarray(winograd.load(program, "local-sync")(image))
taps = [image[:, i : i + 16, j : j + 16].astype(float) for i in range(3) for j in range(3)]
expected = 0.5 * sum(taps).sum(axis=-1, keepdims=True)
(layer,) = json.load(open("report.json"))["layers"]
chosen = layer["candidates"][layer["chosen"]]
print(chosen["algorithm"])
parts = math.prod(-(-3 // size) for size in chosen["part_size"])
bound = 0.5 * error_bound(chosen["output_tile"], chosen["part_size"], 16, views=parts)
print(np.abs(result - expected).max(), bound)
"""


# Building the wheel and installing it takes longer than each of the tests.
pytestmark = pytest.mark.xdist_group("installation")


class Environment:
    """A virtual environment with the packages that iree-winograd needs, borrowed from around this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        site = Path(self.output("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (folder / "borrowed" / "iree").mkdir(parents=True)
        for package in ("iree", "."):
            for path in (Path(numpy.__file__).parents[1] / package).iterdir():
                if path.name.startswith(BORROWED) and not path.name.endswith(".dist-info"):
                    (folder / "borrowed" / package / path.name).symlink_to(path)
        (site / "borrowed.pth").write_text(str(folder / "borrowed"))

    def pip(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--quiet", *arguments]
        subprocess.run(command, check=True, env=clean_environment())

    def run(self, command: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**clean_environment(), **variables}
        return subprocess.run(command, cwd=self.folder, capture_output=True, env=environment, check=False)

    def output(self, *arguments: str) -> str:
        completed = self.run([self.python, *arguments])
        assert completed.returncode == 0, completed.stderr.decode()
        return completed.stdout.decode()

    def files(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def clean_environment() -> dict[str, str]:
    ours = ("IREE_TOOL_PATH", "IREE_WINOGRAD_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in ours}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT]
    subprocess.run(command, check=True)
    (path,) = folder.glob("iree_winograd-*.whl")
    return path


@pytest.fixture(scope="module", params=wide(["wheel", "editable"]))
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path
) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    before = environment.files()
    source = [str(wheel)] if request.param == "wheel" else ["--editable", str(ROOT)]
    environment.pip("install", "--no-deps", *source)
    (environment.folder / "program.mlir").write_text(ADD)
    request.addfinalizer(lambda: check_uninstall(environment, before))
    return environment


def check_uninstall(environment: Environment, before: set[Path]) -> None:
    environment.pip("uninstall", "--yes", "iree-winograd")
    left = environment.files() - before
    assert all(path.suffix in (".mlir", ".vmfb") for path in left), left
    assert environment.output("-c", SEARCHED) == "[]\n"


@pytest.mark.wide
def test_wheel_holds_every_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {info.filename: stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
    for source, target in SOURCES.items():
        for path in (ROOT / source).rglob("*"):
            name = f"{target}/{path.relative_to(ROOT / source)}"
            if path.is_file() and path.suffix != ".pyc":
                assert name in packed, name
    assert packed["iree/winograd/tools/iree-compile"] & 0o111
    assert "iree_winograd.pth" in packed and "iree_winograd_tools.py" in packed
    assert "iree/__init__.py" not in packed
    assert not any(name.startswith("iree/compiler") or "/scripts/" in name for name in packed)


def test_stock_commands_accept_our_flags(environment: Environment) -> None:
    script = [environment.python, "-m", "iree.compiler.tools.scripts.iree_compile", "program.mlir", *FLAGS]
    stock = environment.run([stock_tool("iree-compile"), "program.mlir", *FLAGS])
    assert stock.returncode == 0, stock.stderr
    for flags in ([], [ENABLE], [ENABLE, "--iree-winograd-output-tile=4"]):
        completed = environment.run([*script, *flags])
        assert (completed.returncode, completed.stdout, completed.stderr) == (0, stock.stdout, b"")
    completed = environment.run([environment.python, "-c", COMPILE_STR, *FLAGS, *flags])
    assert (completed.returncode, completed.stdout[:2]) == (0, b"PK"), completed.stderr
    completed = environment.run([*script, "--iree-winograd-output-tile=9"])
    assert completed.returncode == 1
    assert b"iree-winograd-output-tile option" in completed.stderr


def test_a_tool_path_of_the_users_stays(environment: Environment) -> None:
    command = [environment.python, "-c", SEARCHED]
    assert environment.run(command, IREE_TOOL_PATH="/elsewhere").stdout == b"['/elsewhere']\n"
    assert environment.run(command, IREE_TOOL_PATH="").stdout == b"[]\n"


def test_other_environments_keep_their_own_compiler(environment: Environment, tmp_path: Path) -> None:
    """Also those whose processes ours start."""
    start = (
        f"import subprocess, sys; {SEARCHED}; subprocess.run([sys.argv[1], '-c', sys.argv[2]], check=True)"
    )
    elsewhere = Environment(tmp_path / "elsewhere")
    ours, theirs = environment.output("-c", start, str(elsewhere.python), SEARCHED).splitlines()
    assert ours.endswith("tools']") and theirs == "[]"


@pytest.mark.wide
def test_a_package_that_is_removed_by_half(wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.pip("install", "--no-deps", str(wheel))
    site = Path(environment.output("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    shutil.rmtree(site / "iree" / "winograd")
    for _ in range(2):
        completed = environment.run([environment.python, "-c", SEARCHED])
        assert (completed.stdout, completed.stderr) == (b"[]\n", b"")
        (site / "iree_winograd_tools.py").unlink(missing_ok=True)


def test_the_compiler_is_that_of_the_python_that_calls(tmp_path: Path) -> None:
    """The packages of several Pythons may lie under one prefix, as Debian's do."""
    version = f"python3.{sys.version_info.minor}"
    for name in ("python3.1", version, "python3.99"):
        stock = (
            tmp_path / "lib" / name / "site-packages" / "iree" / "compiler" / "_mlir_libs" / "iree-compile"
        )
        stock.parent.mkdir(parents=True)
        stock.write_text(f"#!/bin/sh\necho {name}\n")
        stock.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(version)
    shutil.copy("/bin/false", tmp_path / "bin" / version)
    variables = {"IREE_WINOGRAD_PYTHON": str(tmp_path / "bin" / "python")}
    completed = subprocess.run(
        [TOOL_DIRECTORY / "iree-compile"], env=variables, capture_output=True, check=True
    )
    assert completed.stdout.decode() == f"{version}\n"


def test_our_own_commands(environment: Environment) -> None:
    commands = environment.folder / "bin"
    folder = environment.run([commands / "iree-winograd", "tool-path"]).stdout.decode().strip()
    assert environment.output("-c", SEARCHED).strip() == str([folder])
    completed = environment.run(
        [commands / "iree-winograd", "compile", "program.mlir", *FLAGS, "-o", "own.vmfb"]
    )
    assert completed.returncode == 0, completed.stderr
    completed = environment.run([commands / "winograd-opt", "program.mlir", "--canonicalize"])
    assert b"arith.addf" in completed.stdout
    # From a shell that has the environment active.
    activated = {"VIRTUAL_ENV": str(environment.folder), "PATH": f"{commands}:{os.environ['PATH']}"}
    for flags in ([], [ENABLE]):
        command = [f"{folder}/iree-compile", "program.mlir", *FLAGS, *flags, "-o", "shell.vmfb"]
        assert environment.run(command, **activated).returncode == 0


def test_a_convolution_compiles_and_runs(environment: Environment, tmp_path: Path) -> None:
    """From Python, as the README has it."""
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    algorithm, errors = environment.output("-c", COMPILE_AND_RUN, str(tmp_path)).splitlines()
    # Whichever is predicted to be faster on this processor.
    assert algorithm.startswith(("F(", "a direct convolution"))
    error, bound = map(float, errors.split())
    assert error <= bound


def test_the_version_is_that_of_the_source(environment: Environment) -> None:
    stated = environment.output("-c", "import importlib.metadata as m; print(m.version('iree-winograd'))")
    command = [environment.folder / "bin" / "iree-winograd", "--version"]
    assert environment.run(command).stdout.decode() == f"iree-winograd {stated}"
    assert stated.strip() == winograd.__version__


def test_torch_finds_the_backend(environment: Environment) -> None:
    listed = (
        "import importlib.metadata, importlib.util\n"
        "(entry,) = importlib.metadata.entry_points(group='torch_dynamo_backends')\n"
        "print(entry.name, entry.attr, importlib.util.find_spec(entry.module).name)"
    )
    expected = "winograd winograd iree.winograd.torch_compile.backend\n"
    assert environment.output("-c", listed) == expected
