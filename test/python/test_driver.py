"""The driver against the stock `iree-compile`: without convolutions both must do exactly the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from driver_run import TARGET, TYPE_ERROR, Outcome, run
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from small_programs import ADD, ENABLE, STRICT
from wide import wide, wide_combinations


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of the same contents, for the stock tool and for ours."""
    for name in ("stock", "ours"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "add.mlir").write_text(ADD)
        (folder / "two.mlir").write_text(ADD + "\n// -----\n\n" + ADD.replace("@add", "@add_again"))
        (folder / "type_error.mlir").write_text(TYPE_ERROR)
        (folder / "garbage.mlirbc").write_bytes(b"ML\xefR" + bytes(range(256)))
        (folder / "folder").mkdir()
        (folder / "options").write_text("--compile-to=flow 'add.mlir'\n-o flow\\ of\\ add.mlir @more_options")
        (folder / "more_options").write_text("--iree-opt-level=O2")
    return tmp_path / "stock", tmp_path / "ours"


NO_EFFECT = f"<unknown>:0: warning: {ENABLE} has no effect: "


def check_same(
    folders: tuple[Path, Path], arguments: Sequence[str], stdin: bytes = b"", *, why: str = ""
) -> Outcome:
    """Run both tools and compare all that can be seen; returns what the stock one did.

    Where `why` is given, ours has to say first that it leaves all to the stock tool, and that this is why.
    """
    stock = run(stock_tool("iree-compile"), [*TARGET, *arguments], folders[0], stdin)
    ours = run(TOOL_DIRECTORY / "iree-compile", [ENABLE, STRICT, *TARGET, *arguments], folders[1], stdin)
    if why:
        said, _, rest = ours.stderr.partition("\n")
        assert said.startswith(NO_EFFECT) and why in said
        ours = replace(ours, stderr=rest)
    assert ours == stock
    return stock


@pytest.mark.parametrize(
    "arguments",
    [
        "add.mlir -o add.vmfb",
        "@options",
        *wide(
            [
                "-o=add.out.mlir add.mlir --compile-to=preprocessing",
                "add.mlir -compile-to stream",
                "add.mlir --compile-to=flow --emit-mlir-bytecode --emit-mlir-bytecode-version=6 -o a.mlirbc",
                "two.mlir --split-input-file --compile-to=flow",
                "add.mlir --mlir-print-ir-after=iree-stream-refine-usage,iree-abi-wrap-entry-points",
                "add.mlir --output-format=vm-c -o add.c",
                "add.mlir --dump-compilation-phases-to=phases -o add.vmfb",
                "--iree-hal-list-target-backends",
            ]
        ),
    ],
)
def test_success_is_the_stock_tools(folders: tuple[Path, Path], arguments: str) -> None:
    assert check_same(folders, arguments.split()).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        "type_error.mlir -o out.vmfb",
        "missing.mlir -o out.vmfb",
        *wide(
            [
                "garbage.mlirbc -o out.vmfb",
                "add.mlir -o missing/out.vmfb",
                "add.mlir --no-such-flag",
                "add.mlir --iree-hal-target-device=no-such-device -o out.vmfb",
                "folder -o out.vmfb",
                "add.mlir -o",
                "add.mlir --remarks-filter=. --remarks-output-file=missing/remarks.yaml -o out.vmfb",
                "@missing",
            ]
        ),
    ],
)
def test_failure_is_the_stock_tools(folders: tuple[Path, Path], arguments: str) -> None:
    outcome = check_same(folders, arguments.split())
    assert outcome.code == 1
    assert "error" in outcome.stderr or outcome.stderr.startswith("iree-compile: ")
    assert not any(name.startswith("out.") for name in outcome.files)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("add.mlir --compile-to=input -o add.out.mlir", "which isn't from start to input"),
        *wide_combinations(
            [
                ("add.mlir --compile-from=hal --compile-to=flow", "which isn't from hal to flow"),
                ("add.mlir --compile-mode=hal-executable", "--compile-mode is 'hal-executable'"),
                ("add.mlir --output-format=wrong", "--output-format is 'wrong'"),
                ("add.mlir two.mlir", "it is for one program, not 2"),
                ("", "it is for one program, not 0"),
            ]
        ),
    ],
)
def test_the_stock_tool_takes_over_with_a_word(folders: tuple[Path, Path], arguments: str, why: str) -> None:
    check_same(folders, arguments.split(), why=why)


@pytest.mark.wide
def test_dumps_of_all_passes(folders: tuple[Path, Path]) -> None:
    arguments = [*TARGET, "add.mlir", "--mlir-print-ir-after-all", "--compile-to=flow", "-o", "add.flow.mlir"]
    stock = run(stock_tool("iree-compile"), arguments, folders[0])
    ours = run(TOOL_DIRECTORY / "iree-compile", [ENABLE, STRICT, *arguments], folders[1])
    assert ours.files == stock.files
    headings = iter(re.findall("^// -----// IR Dump After .*", ours.stderr, re.MULTILINE))
    # IREE begins each half of the compilation with a few passes that change nothing the second time.
    for heading in re.findall("^// -----// IR Dump After .*", stock.stderr, re.MULTILINE):
        assert heading in headings


def test_standard_streams(folders: tuple[Path, Path]) -> None:
    assert check_same(folders, ["-", "-o", "-"], ADD.encode()).stdout
    assert check_same(folders, ["-"], TYPE_ERROR.encode()).code == 1


@pytest.mark.wide
def test_phases_compose(folders: tuple[Path, Path]) -> None:
    for phase in ("input", "flow"):
        before = "which isn't from start to input" if phase == "input" else ""
        check_same(folders, ["add.mlir", f"--compile-to={phase}", "-o", f"{phase}.mlir"], why=before)
        after = "which isn't from flow to end" if phase == "flow" else ""
        arguments = [f"{phase}.mlir", f"--compile-from={phase}", "-o", f"{phase}.vmfb"]
        outcome = check_same(folders, arguments, why=after)
        assert outcome.code == 0


@pytest.mark.parametrize("arguments", [["add.mlir"], *wide([["add.mlir", "--no-such-flag"], ["--version"]])])
def test_without_our_flags(folders: tuple[Path, Path], arguments: list[str]) -> None:
    stock = run(stock_tool("iree-compile"), [*TARGET, *arguments], folders[0])
    ours = run(TOOL_DIRECTORY / "iree-compile", [*TARGET, *arguments], folders[1])
    disabled = run(TOOL_DIRECTORY / "iree-compile", [*TARGET, f"{ENABLE}=false", *arguments], folders[1])
    pattern = re.compile(r"\S*/iree-compile\b")
    for outcome in (ours, disabled):
        assert (outcome.code, outcome.stdout) == (stock.code, stock.stdout)
        assert pattern.sub("", outcome.stderr) == pattern.sub("", stock.stderr)


def test_a_checkout_in_a_folder_named_like_a_program(tmp_path: Path) -> None:
    """The script looks for a Python above itself; here it would find `bin/env`."""
    tools = tmp_path / "home" / "env" / "checkout" / "python" / "winograd" / "tools"
    shutil.copytree(TOOL_DIRECTORY, tools)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to("/bin/false")
    environment = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    environment.pop("IREE_WINOGRAD_PYTHON", None)
    tool = tools / "iree-compile"
    completed = subprocess.run([tool, "--version"], capture_output=True, env=environment, check=False)
    assert (completed.returncode, completed.stdout[:4]) == (0, b"IREE")


@pytest.mark.wide
def test_iree_winograd_compile_is_the_driver_enabled(folders: tuple[Path, Path]) -> None:
    stock = run(stock_tool("iree-compile"), [*TARGET, "add.mlir"], folders[0])
    command = [sys.executable, "-m", "iree.winograd.cli", "compile", *TARGET, "add.mlir"]
    completed = subprocess.run(command, cwd=folders[1], capture_output=True, check=False)
    assert (completed.returncode, completed.stdout) == (0, stock.stdout)
