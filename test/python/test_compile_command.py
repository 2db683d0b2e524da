"""`iree-winograd compile`: its options, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from iree.winograd import __version__
from iree.winograd.atomic_file import atomic_file, remove_unfinished
from iree.winograd.cli import main
from iree.winograd.command_line.flags import ENABLE, OWN_FLAGS, OWN_PREFIX
from iree.winograd.command_line.suggestion import most_similar
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.commands.compile_program import divided, options_parser
from small_programs import ADD, CONVOLUTION
from warm_python import driver_environment, iree_winograd
from wide import wide

COMMAND = (sys.executable, "-m", "iree.winograd.cli", "compile")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = iree_winograd("compile", *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)


def test_what_became_of_a_program(tmp_path: Path) -> None:
    """Our flags have short names here; parts of the work are lines where no terminal is."""
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    arguments = ("--threads", "3", "--report=net.json", "--progress", "net.mlir", "-o", "net.vmfb")
    outcome = run(tmp_path, *arguments)
    assert (outcome.returncode, outcome.stdout) == (0, "")
    *parts, said = outcome.stderr.splitlines()
    report = json.loads((tmp_path / "net.json").read_text())
    assert "threads 3" in report["target"]
    size = (tmp_path / "net.vmfb").stat().st_size / 1024
    assert said.startswith(f"net.vmfb: {size:.3g} KiB, 1 of 1 layers rewritten, predicted to take ")
    assert parts[0] == "[0:00] reading the program"
    assert [part.partition("] ")[2] for part in parts][1] == "rewriting layers"


def test_what_is_left_is_said_by_reason(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    outcome = run(tmp_path, "net.mlir", "-o", "net.vmfb", "--deny-layers=0")
    _, left = outcome.stderr.splitlines()
    assert left == "net.vmfb: 1 left to IREE: the layer patterns exclude it"
    assert run(tmp_path, "net.mlir", "-o", "net.vmfb", "--quiet").stderr == ""


@pytest.mark.parametrize("model", ["net.mlir", *wide(["net.onnx"])])
def test_unknown_flags_are_named(model: str, tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(ADD)
    (tmp_path / "net.onnx").write_bytes(b"")
    outcome = run(tmp_path, model, "--treads=2", "--iree-llvmcpu-target-cp=znver4", "-o", "net.vmfb")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[:2] == [
        "iree-winograd compile: unknown flag '--treads=2'; did you mean '--threads'?",
        "unknown flag '--iree-llvmcpu-target-cp=znver4'; did you mean '--iree-llvmcpu-target-cpu'?",
    ]


@pytest.mark.wide
def test_unknown_flags_for_a_model_are_named_by_the_tool_as_well(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    command = [TOOL_DIRECTORY / "iree-compile", f"--{ENABLE}", "net.onnx", "--no-such-flag"]
    outcome = subprocess.run(
        command, cwd=tmp_path, env=driver_environment(), capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1
    assert "Unknown command line argument '--no-such-flag'" in outcome.stderr


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--treads=2", "iree-winograd-threads"),
        ("--target-cpu", "iree-llvmcpu-target-cpu"),
        ("--zzz", None),
    ],
)
def test_what_a_flag_may_have_meant(flag: str, meant: str | None) -> None:
    names = [*OWN_FLAGS, "iree-llvmcpu-target-cpu", "iree-opt-level"]
    if flag.startswith("--treads"):
        flag = "--iree-winograd-treads"
    assert most_similar(flag, names) == meant


def test_versions(tmp_path: Path) -> None:
    tool = [TOOL_DIRECTORY / "iree-compile", f"--{ENABLE}", "--version"]
    winograd_opt = [sys.executable, "-m", "iree.winograd.command_line.opt", "--version"]
    for command in ([*COMMAND, "--version"], tool):
        outcome = subprocess.run(
            command, env=driver_environment(), capture_output=True, text=True, check=True
        )
        assert f"iree-winograd {__version__}\n" in outcome.stdout
        assert "IREE compiler version" in outcome.stdout
    outcome = subprocess.run(winograd_opt, capture_output=True, text=True, check=True)
    assert outcome.stdout == f"winograd-opt {__version__}\n"


def test_the_help_is_on_what_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "--help"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 70
    assert all(f"--{flag.removeprefix(OWN_PREFIX)} " in said for flag in OWN_FLAGS if flag != ENABLE)
    assert "--help-iree" in said
    assert main(["compile"]) == 2
    assert capsys.readouterr().err == options_parser().format_help()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.mlir"], "cannot open 'missing.mlir': No such file or directory"),
        (["."], "'.' is a folder"),
        (["net.vmfb"], "'net.vmfb' is compiled already: `iree-winograd run net.vmfb` calls it"),
        (["net.pt"], "'net.pt' is of torch, neither MLIR nor ONNX: export the model to one of these"),
        (["net.pt2"], "'net.pt2' is what torch exported: compile it in Python, as winograd.compile("),
        (
            ["--thread", "3", "net.mlir"],
            "unknown flag '--thread'; did you mean '--threads'?\nsee iree-winograd",
        ),
        (["net.vmfb", "net.pt"], "a program to compile is needed, one at a time, not net.vmfb, net.pt"),
        (["--quiet"], "a program to compile is needed, none is given"),
        (["net.mlir", "--threads"], "for the --iree-winograd-threads option: requires a value!"),
    ],
)
def test_what_can_not_be_compiled(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("net.vmfb", "net.pt", "net.pt2"):
        Path(name).write_bytes(b"")
    assert main(["compile", *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"iree-winograd compile: {message}")


def test_a_folder_of_temporary_files_that_is_not_there(tmp_path: Path) -> None:
    """LLVM would end the process by a signal."""
    (tmp_path / "net.mlir").write_text(ADD)
    command = [*iree_winograd(), "compile", "net.mlir"]
    environment = {**os.environ, "TMPDIR": "missing"}
    outcome = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 1
    assert "error: TMPDIR names 'missing', in which no temporary" in outcome.stderr
    assert not (tmp_path / "net.vmfb").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, *wide([signal.SIGTERM])])
def test_an_interrupt_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """What the output is, and where it lies, stays as it was."""
    # A convolution takes long enough to compile for the interrupt to come first.
    (tmp_path / "net.mlir").write_text(CONVOLUTION)
    (tmp_path / "net.vmfb").write_text("as it was")
    command = [*COMMAND, "net.mlir", "-o", "net.vmfb", "--progress"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "[0:00] reading the program\n"
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == 128 + number
    assert "interrupted" in said and "Traceback" not in said
    assert (tmp_path / "net.vmfb").read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.mlir", "net.vmfb"]


def test_unfinished_files_with_names_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    with atomic_file(str(tmp_path / "out")) as path:
        Path(path).write_text("half of it")
        (unfinished,) = tmp_path.iterdir()
        remove_unfinished()
        assert not unfinished.exists()
        unfinished.touch()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.wide
def test_programs_are_nothing_for_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(ADD)
    leader, follower = os.openpty()
    with subprocess.Popen(
        [*COMMAND, "net.mlir"], cwd=tmp_path, stdout=follower, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "say where it goes by -o FILE" in process.stderr.read()
    os.close(leader)
    os.close(follower)
    assert process.returncode == 1


@pytest.mark.wide
def test_progress_on_a_terminal_is_a_line_that_goes(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(ADD)
    leader, follower = os.openpty()
    command = [*COMMAND, "net.mlir", "-o", "net.vmfb"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=follower)
    os.close(follower)
    said = b""
    # Reading fails when nobody can write any more.
    with suppress(OSError):
        while part := os.read(leader, 4096):
            said += part
    os.close(leader)
    assert process.wait() == 0
    *line, last = said.decode().split("\r")
    assert any("reading the program" in part for part in line)
    assert line[-2].strip() == ""
    assert line[-1].startswith("net.vmfb: ") and last == "\n"


def test_sizes_are_expected_in_order_or_by_names() -> None:
    by_name = ["--size-hint", "height=48", "--size-hint=width=64"]
    assert divided(by_name) == (["--size-hint=height=48", "--size-hint=width=64"], [])
    in_order = f"--{OWN_PREFIX}size-hint=48,64"
    assert divided(["--size-hint", "48,64"]) == divided([in_order]) == ([], [in_order])
