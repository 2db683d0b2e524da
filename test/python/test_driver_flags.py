"""Our flags: what they do, what they take, what the help says of them, and that values of others are none."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from driver_run import TARGET, run
from iree.winograd.command_line.flags import OWN_FLAGS, FlagError, parse_command_line
from iree.winograd.command_line.stock_flags import takes_next_argument
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.targets import target_flags
from small_programs import ADD, CONVOLUTION, ENABLE, STRICT

COMMAND_LINE_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def test_our_flags_in_a_response_file(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    (tmp_path / "nested").write_text(f'{ENABLE} "--iree-winograd-output-tile=9"')
    (tmp_path / "options").write_text("@nested convolution.mlir")
    outcome = run(TOOL_DIRECTORY / "iree-compile", ["@options"], tmp_path)
    assert outcome.code == 1
    assert "iree-winograd-output-tile" in outcome.stderr


BAD_VALUES = [
    ("output-tile=9", "for the --iree-winograd-output-tile option: must be auto or 1 to 8, got '9'"),
    ("output-tile=0", "for the --iree-winograd-output-tile option: must be auto or 1 to 8, got '0'"),
    (
        "fold-filters=never",
        "for the --iree-winograd-fold-filters option: must be auto, compile or load, got 'never'",
    ),
    ("remarks=maybe", "must be true or false, got 'maybe'"),
    ("deny-layers=1,,2", "for the --iree-winograd-deny-layers option: must be patterns, got '1,,2'"),
    ("deny-layers", "for the --iree-winograd-deny-layers option: requires a value!"),
    ("threads=0", "for the --iree-winograd-threads option: must be auto or a positive integer, got '0'"),
    ("threads=-1", "for the --iree-winograd-threads option: must be auto or a positive integer, got '-1'"),
    ("threads=many", "must be auto or a positive integer, got 'many'"),
    ("threads", "for the --iree-winograd-threads option: requires a value!"),
    (
        "max-relative-error=0",
        "for the --iree-winograd-max-relative-error option: must be auto or a positive number, got '0'",
    ),
    ("max-relative-error=-1e-6", "must be auto or a positive number, got '-1e-6'"),
    ("max-relative-error=nan", "a positive number, got 'nan'"),
    ("max-relative-error=small", "a positive number, got 'small'"),
    (
        "report=report.md",
        "for the --iree-winograd-report option: must be an .html or .txt or .json file, got 'report.md'",
    ),
    (
        "report=report.json --split-input-file",
        "report option: it is on one program, but --split-input-file makes several",
    ),
]


@pytest.mark.parametrize(("flag", "message"), BAD_VALUES)
def test_bad_values_of_our_flags(flag: str, message: str) -> None:
    arguments = [*TARGET, ENABLE, "add.mlir", "-o", "out.vmfb", *f"--iree-winograd-{flag}".split()]
    with pytest.raises(FlagError, match=re.escape(message)):
        parse_command_line(arguments)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        BAD_VALUES[0],
        BAD_VALUES[-1],
        ("no-such-flag", "Unknown command line argument '--iree-winograd-no-such-flag'"),
    ],
)
def test_bad_flags_end_the_tool(tmp_path: Path, flag: str, message: str) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    arguments = [*TARGET, ENABLE, "add.mlir", "-o", "out.vmfb", *f"--iree-winograd-{flag}".split()]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert outcome.code == 1
    assert outcome.stderr.startswith("iree-compile: ")
    assert message in outcome.stderr
    assert list(outcome.files) == ["add.mlir"]


def test_help_has_a_section_of_ours(tmp_path: Path) -> None:
    stock = run(stock_tool("iree-compile"), ["--help"], tmp_path)
    ours = run(TOOL_DIRECTORY / "iree-compile", ["--help"], tmp_path)
    assert ours.code == 0
    assert ours.stdout.startswith(stock.stdout)
    added = ours.stdout[len(stock.stdout) :].decode()
    assert added.startswith("\niree-winograd options:\n")
    # On our page a text may link to more.
    page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", COMMAND_LINE_PAGE.read_text())
    documented = re.findall(r"^\| `--(\S*winograd\S*)` \| (.*) \| (.*) \|$", page, re.MULTILINE)
    assert documented == [
        (name, " or ".join(", ".join(flag.listed_values).rsplit(", ", 1)), flag.help)
        for name, flag in OWN_FLAGS.items()
    ]
    assert re.findall("^  --([a-z-]+)\\S*.* - (.*)$", added, re.MULTILINE) == [
        (name, meaning) for name, _, meaning in documented
    ]


@pytest.mark.parametrize(
    "command",
    [[TOOL_DIRECTORY / "iree-compile"], [sys.executable, "-m", "iree.winograd.cli", "compile"]],
    ids=["iree-compile", "iree-winograd compile"],
)
def test_help_that_is_not_read_to_its_end(command: list[Path | str]) -> None:
    line = shlex.join([*map(str, command), "--help"])
    environment = {**os.environ, "IREE_WINOGRAD_PYTHON": sys.executable}
    outcome = subprocess.run(
        ["sh", "-c", f"{line} | head -1"], capture_output=True, text=True, env=environment, check=True
    )
    assert outcome.stdout.count("\n") == 1
    assert outcome.stderr == ""


def test_values_of_stock_flags_that_stand_apart(tmp_path: Path) -> None:
    """They are no inputs, and may look like our flags; a boolean flag takes nothing."""
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = "--iree-hal-target-device local --iree-hal-local-target-device-backends llvm-cpu"
    flags += " --iree-llvmcpu-target-cpu=haswell --iree-llvmcpu-debug-symbols convolution.mlir -o out.vmfb"
    remarks = [ENABLE, "--iree-winograd-remarks"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*remarks, *flags.split()], tmp_path)
    assert outcome.code == 0
    assert "[winograd-convert-conv]" in outcome.stderr
    swallowed = [*flags.split(), "--iree-llvmcpu-target-cpu-features", *remarks]
    outcome = run(TOOL_DIRECTORY / "iree-compile", swallowed, tmp_path)
    assert outcome.code == 0
    assert "[winograd-convert-conv]" not in outcome.stderr


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--iree-hal-target-device", True),
        ("-iree-opt-level", True),
        ("--iree-llvmcpu-target-cpu", True),
        ("--aarch64-search-limit", True),
        ("--iree-llvmcpu-debug-symbols", False),
        ("--mlir-print-ir-after-all", False),
        ("--enable-machine-outliner", False),
        ("--no-such-flag", False),
    ],
)
def test_which_flags_take_the_next_argument(flag: str, expected: bool) -> None:
    assert takes_next_argument(flag) == expected


def test_error_budget(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    # Which algorithm is the fastest differs between processors, and by what was measured of this one.
    target = target_flags("cpu:haswell")
    flags = [ENABLE, STRICT, *target, "--iree-winograd-remarks", "convolution.mlir", "-o", "convolution.vmfb"]
    of_six = ["--iree-winograd-output-tile=6", "--iree-winograd-max-relative-error=2e-8"]
    for limits, remark in ((["--iree-winograd-max-relative-error=1e-6"], "F("), (of_six, "which exceeds ")):
        outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, *limits], tmp_path)
        assert outcome.code == 0
        assert remark in outcome.stderr


@pytest.mark.wide
def test_filters_transformed_at_load_time_make_a_smaller_file(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    transformed = 36 * 16 * 16 * 4
    load = "--iree-winograd-fold-filters=load"
    for flags, is_stored in (([], True), ([load], False), ([load, "--iree-opt-const-eval=true"], True)):
        arguments = [ENABLE, STRICT, *TARGET, "--iree-winograd-output-tile=4", *flags, "convolution.mlir"]
        outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
        assert outcome.code == 0
        assert (len(outcome.stdout) > transformed) == is_stored


def test_filters_transformed_at_load_time_are_not_transformed_again_in_calls(tmp_path: Path) -> None:
    wide = CONVOLUTION.replace("x16xf32", "x256xf32").replace("3x3x16x", "3x3x256x")
    (tmp_path / "convolution.mlir").write_text(wide)
    arguments = [
        ENABLE,
        *TARGET,
        "--iree-winograd-fold-filters=load",
        # Some processors would rather transform so large a filter in each call than read it transformed.
        "--iree-winograd-filter-memory-price=0",
        "--compile-to=flow",
        "convolution.mlir",
    ]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert outcome.code == 0, outcome.stderr
    program = outcome.stdout.decode()
    initializer, function = (
        program.index(name) for name in ("util.initializer", "util.func public @convolution")
    )
    launches = [match.start() for match in re.finditer("flow.dispatch @winograd_filter", program)]
    assert launches
    assert all(initializer < launch < function for launch in launches)
