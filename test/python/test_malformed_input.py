"""Input that nobody meant: no traceback, no crash where the stock tool has none, no output of a failure."""

from __future__ import annotations

import io
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from iree.compiler import ir
from iree.winograd.command_line.flags import OWN_FLAGS, FlagError, parse_command_line
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.targets import target_flags
from small_programs import CONVOLUTION
from warm_python import iree_winograd
from wide import sampled, wide

TARGET = target_flags("cpu:haswell")
DRIVER = (sys.executable, "-m", "iree.winograd.cli", "compile", *TARGET)


def mutated(content: bytes, generator: random.Random) -> bytes:
    """`content` with one piece of it changed, removed, repeated or moved."""
    start = generator.randrange(len(content))
    end = min(len(content), start + generator.choice([1, 2, 8, 64]))
    piece = content[start:end]
    other = generator.randrange(len(content))
    return {
        "change": content[:start] + generator.randbytes(end - start) + content[end:],
        "remove": content[:start] + content[end:],
        "repeat": content[:end] + piece + content[end:],
        "replace": content[:start] + content[other : other + end - start] + content[end:],
        "cut": content[:start],
    }[generator.choice(["change", "remove", "repeat", "replace", "cut"])]


def run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)


def run_warm(*arguments: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """The driver, where neither a crash nor a signal may end it."""
    return run(iree_winograd("compile", *TARGET, *arguments), folder)


def check(outcome: subprocess.CompletedProcess[bytes], output: Path) -> None:
    """Either there is an output, or an error that says why not."""
    assert b"Traceback" not in outcome.stderr, outcome.stderr.decode(errors="replace")
    assert outcome.returncode in (0, 1), (outcome.returncode, outcome.stderr)
    assert output.exists() == (outcome.returncode == 0)
    assert outcome.returncode == 0 or outcome.stderr
    assert not list(output.parent.glob(".winograd-*"))


def sources() -> dict[str, bytes]:
    with ir.Context() as context:
        file = io.BytesIO()
        ir.Module.parse(CONVOLUTION, context).operation.write_bytecode(file)
    return {"text": CONVOLUTION.encode(), "bytecode": file.getvalue()}


@pytest.mark.parametrize("seed", sampled(range(4), [0]))
@pytest.mark.parametrize("kind", ["text", "bytecode"])
def test_programs(kind: str, seed: int, tmp_path: Path) -> None:
    content = mutated(sources()[kind], random.Random(f"{kind} {seed}"))
    (tmp_path / "program").write_bytes(content)
    ours = run([*DRIVER, "program", "-o", "ours.vmfb"], tmp_path)
    if ours.returncode not in (0, 1):
        stock = run([stock_tool("iree-compile"), *TARGET, "program", "-o", "stock.vmfb"], tmp_path)
        assert ours.returncode == stock.returncode, (content, ours.stderr)
        return
    check(ours, tmp_path / "ours.vmfb")


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        *wide([b"\xff\xfe", b"[]", b"", b"{", b"null", b"7", b'{"kind": "cpu"}', b'{"name": 1e999}']),
    ],
)
def test_machines(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "program").write_text(CONVOLUTION)
    (tmp_path / "machine.json").write_bytes(content)
    outcome = run_warm("--iree-winograd-machine=machine.json", "program", "-o", "out.vmfb", folder=tmp_path)
    check(outcome, tmp_path / "out.vmfb")
    assert outcome.returncode == 1 and b"machine.json" in outcome.stderr


@pytest.mark.parametrize(
    "content",
    [
        *(b"\xff\xfe\xfd", b"@options"),
        *wide([b"'", b"--\0", b"\\", b"-", b"--", b"=", b"--=x"]),
    ],
)
def test_response_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "options").write_bytes(content)
    outcome = run_warm("@options", "-o", "out.vmfb", folder=tmp_path)
    check(outcome, tmp_path / "out.vmfb")


# Values that some flag takes, and that most don't.
VALUES = (
    *("", "0", "-1", "1", "4", "9" * 30, "9" * 5000, "1e-6", "1e400", "nan", "-inf", "1_0", "0x4", "\u0664"),
    *(
        "true",
        "false",
        "maybe",
        "auto",
        "compile",
        "load",
        "none",
        ",",
        "1,,2",
        "4-",
        "4-1",
        "[",
        "*",
        "**/[",
    ),
    *(
        "program",
        ".",
        "/dev/null",
        "missing/x.json",
        "x.json",
        "x.html",
        "\udcff",
        "a" * 5000,
        "@program",
        "--",
    ),
)
STOCK_FLAGS = (
    "compile-to",
    "output-format",
    "verify",
    "iree-opt-level",
    "split-input-file",
    "remarks-filter",
)


def random_flags(generator: random.Random) -> list[str]:
    """Some flags of ours and of the stock tool, misspelt ones too, with values that may not fit."""
    flags = []
    for _ in range(generator.randint(1, 5)):
        name = generator.choice([*OWN_FLAGS, *OWN_FLAGS, *STOCK_FLAGS])
        name = generator.choice([name, name, name, f"{name}x", name[:-1]])
        flag = generator.choice(["-", "--"]) + name
        value = generator.choice(VALUES)
        flags += generator.choice([[flag], [f"{flag}={value}"], [f"{flag}={value}"], [flag, value]])
    return flags


def readable_flags(generator: random.Random) -> list[str]:
    """Some of ours, all with values that they take, as far as that shows."""
    while True:
        flags = random_flags(generator)
        with suppress(FlagError):
            if not parse_command_line(flags).stock:
                return flags


@pytest.mark.parametrize("seed", range(4))
def test_flags(seed: int) -> None:
    """They are read, or there is an error that says in one line what is wrong."""
    generator = random.Random(seed)
    for _ in range(100):
        flags = random_flags(generator)
        try:
            read = parse_command_line(flags)
        except FlagError as error:
            assert re.match(r"for the --?\S+ option: .", str(error)) and "\n" not in str(error), flags
            continue
        assert isinstance(read.options, WinogradOptions)


@pytest.mark.parametrize("seed", sampled(range(4), [0]))
def test_flags_of_a_compilation(seed: int, tmp_path: Path) -> None:
    (tmp_path / "program").write_text(CONVOLUTION)
    flags = readable_flags(random.Random(seed))
    outcome = run_warm(*flags, "program", "-o", "out.vmfb", folder=tmp_path)
    assert b"Traceback" not in outcome.stderr, (flags, outcome.stderr.decode(errors="replace"))
    assert outcome.returncode in (0, 1), (flags, outcome.stderr)
    assert outcome.returncode == 0 or outcome.stderr
    assert (tmp_path / "out.vmfb").exists() <= (outcome.returncode == 0), flags


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    """They are names like others: nothing is lost for them."""
    (tmp_path / "program").write_text(CONVOLUTION)
    with TuningDatabase(tmp_path / "\udcff.db", report=print):
        pass
    flags = ["--iree-winograd-strict", "--iree-winograd-remarks", "--iree-winograd-report=\udcff.html"]
    flags += ["--iree-winograd-deny-layers=\udcff", "--iree-winograd-tuning-database=\udcff.db"]
    outcome = run_warm(*flags, "program", "-o", "\udcff.vmfb", folder=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert b"[winograd-convert-conv]" in outcome.stderr
    assert (tmp_path / "\udcff.vmfb").exists() and (tmp_path / "\udcff.html").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, *wide([signal.SIGTERM, signal.SIGKILL])])
def test_signals(number: signal.Signals, tmp_path: Path) -> None:
    """They end a compilation at once, wherever it is, and nothing is left of it."""
    (tmp_path / "program").write_text(CONVOLUTION)
    generator = random.Random(number)
    for _ in range(3):
        command = [*DRIVER, "program", "-o", "out.vmfb", "--iree-winograd-report=report.json"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
            time.sleep(generator.uniform(0.5, 1.5))
            process.send_signal(number)
            process.communicate(timeout=120)
        assert process.returncode in (0, -number, 1, 128 + number)
        left = {path.name for path in tmp_path.iterdir()} - {"program"}
        assert left in (set(), {"out.vmfb", "report.json"}, {"out.vmfb"}), left
        for name in left:
            (tmp_path / name).unlink()


def test_an_interrupt_while_commands_are_loaded() -> None:
    program = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "iree.winograd.commands":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
import iree.winograd.cli
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize(
    "command",
    [(TOOL_DIRECTORY / "iree-compile", "--iree-enable-winograd", *TARGET), DRIVER],
    ids=["tool", "command"],
)
def test_an_interrupt_while_the_compiler_is_loaded(command: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "program").write_text(CONVOLUTION)
    command = [*command, "program", "-o", "out.vmfb"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        maps = Path("/proc", str(process.pid), "maps")
        while "libIREECompiler" not in maps.read_text():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == -signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["program"]


def test_a_closed_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iree.winograd.cli", "transform", "-m", "4", "-r", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    (tmp_path / "program").write_text(CONVOLUTION)
    limited = ["sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", *DRIVER]
    outcome = run([*limited, "program", "-o", "out.vmfb"], tmp_path)
    assert b"Traceback" not in outcome.stderr
    assert outcome.returncode != 0 and outcome.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"program"}
