"""The driver against the stock `iree-compile`: without convolutions both must do exactly the same."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from iree.winograd.cli import TOOL_DIRECTORY
from iree.winograd.embedding import stock_tool
from iree.winograd.flags import OWN_FLAGS
from iree.winograd.stock_flags import takes_next_argument
from iree.winograd.targets import target_flags
from small_programs import ADD, CONVOLUTION, ENABLE, STRICT

TARGET = target_flags("cpu")
COMMAND_LINE_PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
TYPE_ERROR = ADD.replace("arith.addf", "arith.addi")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind, timing and addresses aside."""

    code: int
    stdout: bytes
    stderr: str
    files: dict[str, bytes]


def run(tool: Path, arguments: Sequence[str], folder: Path, stdin: bytes = b"") -> Outcome:
    environment = {**os.environ, "IREE_WINOGRAD_PYTHON": sys.executable}
    completed = subprocess.run(
        [tool, *arguments], cwd=folder, input=stdin, capture_output=True, env=environment, check=False
    )
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Outcome(completed.returncode, completed.stdout, completed.stderr.decode(), files)


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
        "add.mlir",
        "-o=add.vmfb add.mlir",
        "add.mlir --compile-to=preprocessing -o add.out.mlir",
        "add.mlir -compile-to stream",
        "add.mlir --compile-to=vm --emit-mlir-bytecode -o add.mlirbc",
        "add.mlir --compile-to=flow --emit-mlir-bytecode --emit-mlir-bytecode-version=6 -o add.mlirbc",
        "add.mlir --compile-mode=precompile -o add.out.mlir",
        "add.mlir --output-format=vm-asm",
        "add.mlir --output-format=vm-c -o add.c",
        "two.mlir --split-input-file --compile-to=flow",
        "add.mlir --dump-compilation-phases-to=phases -o add.vmfb",
        "add.mlir --mlir-print-ir-after=iree-stream-refine-usage,iree-abi-wrap-entry-points -o add.vmfb",
        "add.mlir --verify=false -o /dev/null",
        "add.mlir --iree-llvmcpu-target-cpu= -o add.vmfb",
        "@options",
        "--version",
        "--iree-hal-list-target-backends",
    ],
)
def test_success_is_the_stock_tools(folders: tuple[Path, Path], arguments: str) -> None:
    assert check_same(folders, arguments.split()).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        "type_error.mlir -o out.vmfb",
        "garbage.mlirbc -o out.vmfb",
        "missing.mlir -o out.vmfb",
        "folder -o out.vmfb",
        "add.mlir -o folder",
        "add.mlir -o missing/out.vmfb",
        "add.mlir -o",
        "add.mlir --no-such-flag",
        "add.mlir --iree-opt-level=O9",
        "add.mlir --verify=perhaps",
        "add.mlir --emit-mlir-bytecode-version=new",
        "add.mlir --iree-hal-target-device=no-such-device -o out.vmfb",
        "add.mlir --remarks-filter=. --remarks-output-file=missing/remarks.yaml -o out.vmfb",
        "@missing",
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
        ("add.mlir --compile-from=hal --compile-to=flow", "which isn't from hal to flow"),
        ("add.mlir --compile-from=preprocessing --compile-to=preprocessing", "from preprocessing to"),
        ("add.mlir --compile-to=nowhere", "--compile-to is 'nowhere'"),
        ("add.mlir --compile-mode=hal-executable", "--compile-mode is 'hal-executable'"),
        ("add.mlir --output-format=wrong", "--output-format is 'wrong'"),
        ("add.mlir two.mlir", "it is for one program, not 2"),
        ("", "it is for one program, not 0"),
    ],
)
def test_the_stock_tool_takes_over_with_a_word(folders: tuple[Path, Path], arguments: str, why: str) -> None:
    check_same(folders, arguments.split(), why=why)


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


def test_dumps_of_all_passes(folders: tuple[Path, Path]) -> None:
    arguments = [*TARGET, "add.mlir", "--mlir-print-ir-after-all", "--compile-to=flow", "-o", "add.flow.mlir"]
    stock = run(stock_tool("iree-compile"), arguments, folders[0])
    ours = run(TOOL_DIRECTORY / "iree-compile", [ENABLE, STRICT, *arguments], folders[1])
    assert ours.files == stock.files
    headings = iter(re.findall("^// -----// IR Dump After .*", ours.stderr, re.MULTILINE))
    # IREE begins each half of the compilation with a few passes that change nothing the second time.
    for heading in re.findall("^// -----// IR Dump After .*", stock.stderr, re.MULTILINE):
        assert heading in headings


def test_dumps_of_our_passes(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    passes = "winograd-convert-conv,iree-abi-wrap-entry-points"
    flags = [ENABLE, STRICT, *TARGET, f"--mlir-print-ir-after={passes}", "-o", "convolution.vmfb"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, "convolution.mlir"], tmp_path)
    assert outcome.code == 0, outcome.stderr
    wrapped, converted = re.split("^// -----// IR Dump After .*", outcome.stderr, flags=re.MULTILINE)[1:]
    assert "linalg.conv_2d" in wrapped
    assert "winograd.input_transform" in converted


def test_remarks_name_line_and_layer(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = [ENABLE, STRICT, *TARGET, "--iree-winograd-remarks", "convolution.mlir", "-o", "convolution.vmfb"]
    became = run(TOOL_DIRECTORY / "iree-compile", [*flags, "--iree-winograd-output-tile=4"], tmp_path)
    assert became.code == 0
    assert became.stderr.startswith("convolution.mlir:6:13: remark: ")
    assert "F(4x4, 3x3)" in became.stderr
    left = run(TOOL_DIRECTORY / "iree-compile", [*flags, "--iree-winograd-deny-layers=0"], tmp_path)
    assert left.code == 0
    assert left.stderr.startswith("convolution.mlir:6:13: remark: ")
    assert "F(4x4, 3x3)" not in left.stderr
    flags = [*TARGET, "convolution.mlir", "-o", "convolution.vmfb"]
    stock = run(stock_tool("iree-compile"), flags, tmp_path)
    assert left.files["convolution.vmfb"] == stock.files["convolution.vmfb"]
    assert became.files["convolution.vmfb"] != stock.files["convolution.vmfb"]


def test_remarks_go_where_those_of_iree_go(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = [ENABLE, STRICT, *TARGET, "--remarks-filter=winograd", "--remarks-output-file=remarks.yaml"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, "convolution.mlir", "-o", "out.vmfb"], tmp_path)
    assert outcome.code == 0
    assert b"winograd-convert-conv" in outcome.files["remarks.yaml"]


def test_error_budget(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = [ENABLE, STRICT, *TARGET, "--iree-winograd-remarks", "convolution.mlir", "-o", "convolution.vmfb"]
    for limit, remark in (("1e-6", "F("), ("2e-8", "which exceeds 2.0e-08")):
        limit_flag = f"--iree-winograd-max-relative-error={limit}"
        outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, limit_flag], tmp_path)
        assert outcome.code == 0
        assert remark in outcome.stderr


def test_report(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "--iree-winograd-threads=3",
        "convolution.mlir",
        "-o",
        "convolution.vmfb",
    ]
    plain = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    arguments += ["--iree-winograd-report=first.json", "--iree-winograd-report=report.json"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, b"", "")
    assert set(outcome.files) == {"convolution.mlir", "convolution.vmfb", "report.json"}
    assert outcome.files["convolution.vmfb"] == plain.files["convolution.vmfb"]
    report = json.loads(outcome.files["report.json"])
    assert len(report["convolutions"]) == 1
    assert "threads 3" in report["target"]
    page = run(TOOL_DIRECTORY / "iree-compile", [*arguments, "--iree-winograd-report=a.html"], tmp_path)
    assert page.files["a.html"].startswith(b"<!DOCTYPE html>")


def test_report_that_cannot_be_written(tmp_path: Path) -> None:
    """Said before anything is compiled, even read: the program doesn't parse."""
    (tmp_path / "add.mlir").write_text("no MLIR")
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "add.mlir",
        "-o",
        "out.vmfb",
        "--iree-winograd-report=missing/report.html",
    ]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    message = "error: cannot open report file 'missing/report.html': No such file or directory\n"
    assert (outcome.code, outcome.stdout, outcome.stderr) == (1, b"", message)
    assert list(outcome.files) == ["add.mlir"]


def test_failed_compilations_leave_no_report(tmp_path: Path) -> None:
    (tmp_path / "type_error.mlir").write_text(TYPE_ERROR)
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "type_error.mlir",
        "-o",
        "out.vmfb",
        "--iree-winograd-report=report.html",
    ]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert outcome.code == 1
    assert list(outcome.files) == ["type_error.mlir"]


def test_standard_streams(folders: tuple[Path, Path]) -> None:
    assert check_same(folders, ["-", "-o", "-"], ADD.encode()).stdout
    assert check_same(folders, ["-"], TYPE_ERROR.encode()).code == 1


def test_phases_compose(folders: tuple[Path, Path]) -> None:
    for phase in ("input", "preprocessing", "flow"):
        before = "which isn't from start to input" if phase == "input" else ""
        check_same(folders, ["add.mlir", f"--compile-to={phase}", "-o", f"{phase}.mlir"], why=before)
        after = "which isn't from flow to end" if phase == "flow" else ""
        arguments = [f"{phase}.mlir", f"--compile-from={phase}", "-o", f"{phase}.vmfb"]
        outcome = check_same(folders, arguments, why=after)
        assert outcome.code == 0


@pytest.mark.parametrize("arguments", [["add.mlir", "--no-such-flag"], ["add.mlir"], ["--version"]])
def test_without_our_flags(folders: tuple[Path, Path], arguments: list[str]) -> None:
    stock = run(stock_tool("iree-compile"), [*TARGET, *arguments], folders[0])
    ours = run(TOOL_DIRECTORY / "iree-compile", [*TARGET, *arguments], folders[1])
    disabled = run(TOOL_DIRECTORY / "iree-compile", [*TARGET, f"{ENABLE}=false", *arguments], folders[1])
    pattern = re.compile(r"\S*/iree-compile\b")
    for outcome in (ours, disabled):
        assert (outcome.code, outcome.stdout) == (stock.code, stock.stdout)
        assert pattern.sub("", outcome.stderr) == pattern.sub("", stock.stderr)


def test_our_flags_in_a_response_file(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    (tmp_path / "nested").write_text(f'{ENABLE} "--iree-winograd-output-tile=9"')
    (tmp_path / "options").write_text("@nested convolution.mlir")
    outcome = run(TOOL_DIRECTORY / "iree-compile", ["@options"], tmp_path)
    assert outcome.code == 1
    assert "iree-winograd-output-tile" in outcome.stderr


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("output-tile=9", "for the --iree-winograd-output-tile option: must be auto or 1 to 8, got '9'"),
        ("output-tile=0", "for the --iree-winograd-output-tile option: must be auto or 1 to 8, got '0'"),
        (
            "fold-filters=never",
            "for the --iree-winograd-fold-filters option: must be compile or load, got 'never'",
        ),
        ("remarks=maybe", "must be true or false, got 'maybe'"),
        ("deny-layers=1,,2", "for the --iree-winograd-deny-layers option: must be patterns, got '1,,2'"),
        ("deny-layers", "for the --iree-winograd-deny-layers option: requires a value!"),
        ("threads=0", "for the --iree-winograd-threads option: must be auto or a positive integer, got '0'"),
        (
            "threads=-1",
            "for the --iree-winograd-threads option: must be auto or a positive integer, got '-1'",
        ),
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
            "report=report.txt",
            "for the --iree-winograd-report option: must be a .json or .html file, got 'report.txt'",
        ),
        (
            "report=report.json --split-input-file",
            "report option: it is on one program, but --split-input-file makes several",
        ),
        ("no-such-flag", "Unknown command line argument '--iree-winograd-no-such-flag'"),
    ],
)
def test_bad_values_of_our_flags(tmp_path: Path, flag: str, message: str) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    arguments = [*TARGET, ENABLE, "add.mlir", "-o", "out.vmfb", *f"--iree-winograd-{flag}".split()]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert outcome.code == 1
    assert outcome.stderr.startswith("iree-compile: ")
    assert message in outcome.stderr
    assert list(outcome.files) == ["add.mlir"]


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ("--iree-hal-local-target-device-backends=vmvx", '"vmvx" (vmvx-bytecode-fb)'),
        (
            "--iree-llvmcpu-target-triple=aarch64-linux-gnu --iree-llvmcpu-target-cpu=generic",
            '"llvm-cpu" (embedded-elf-arm_64)',
        ),
        ("--iree-hal-target-device=metal", '"metal-spirv" (metal-msl-fb)'),
    ],
)
def test_targets_without_kernels(tmp_path: Path, flags: str, target: str) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    arguments = [ENABLE, STRICT, *TARGET, *flags.split(), "--iree-winograd-remarks", "convolution.mlir"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*arguments, "-o", "out.vmfb"], tmp_path)
    message = f"convolution.mlir:0:0: error: iree-winograd has no kernels for target {target}\n"
    assert (outcome.code, outcome.stderr) == (1, message)
    assert list(outcome.files) == ["convolution.mlir"]


def test_without_a_target(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    stock = run(stock_tool("iree-compile"), ["convolution.mlir"], tmp_path)
    assert stock.code == 1
    assert run(TOOL_DIRECTORY / "iree-compile", [ENABLE, "convolution.mlir"], tmp_path) == stock


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--iree-hal-local-target-device-backends=no-such",
            "Default target backend not registered: no-such",
        ),
        (
            "--iree-llvmcpu-target-triple=abacus",
            "createTargetMachine(abacus-unknown-unknown-eabi-elf) failed; machine may not be enabled in LLVM",
        ),
        (
            "--iree-llvmcpu-target-cpu=abacus",
            "'abacus' is not a recognized processor for this target",
        ),
    ],
)
def test_targets_that_crash_the_stock_tool(tmp_path: Path, flag: str, message: str) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    arguments = [ENABLE, STRICT, *TARGET, flag, "add.mlir", "-o", "out.vmfb"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert (outcome.code, outcome.stderr) == (1, f"<unknown>:0: error: {message}\n")
    assert list(outcome.files) == ["add.mlir"]


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
        (name, " or ".join(flag.listed_values), flag.help) for name, flag in OWN_FLAGS.items()
    ]
    assert re.findall("^  --([a-z-]+)\\S*.* - (.*)$", added, re.MULTILINE) == [
        (name, meaning) for name, _, meaning in documented
    ]


def test_output_replaces_a_file_only_when_complete(folders: tuple[Path, Path]) -> None:
    _, folder = folders
    output = folder / "out.vmfb"
    output.write_bytes(b"before")
    output.chmod(0o640)
    tool = TOOL_DIRECTORY / "iree-compile"
    run(tool, [ENABLE, STRICT, *TARGET, "type_error.mlir", "-o", "out.vmfb"], folder)
    assert output.read_bytes() == b"before"
    (folder / "link.vmfb").symlink_to(output)
    assert run(tool, [ENABLE, STRICT, *TARGET, "add.mlir", "-o", "link.vmfb"], folder).code == 0
    assert (folder / "link.vmfb").is_symlink()
    assert output.read_bytes() != b"before"
    assert stat.S_IMODE(output.stat().st_mode) == 0o640
    assert not list(folder.glob(".winograd-*"))


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


def test_iree_winograd_compile_is_the_driver_enabled(folders: tuple[Path, Path]) -> None:
    stock = run(stock_tool("iree-compile"), [*TARGET, "add.mlir"], folders[0])
    command = [sys.executable, "-m", "iree.winograd.cli", "compile", *TARGET, "add.mlir"]
    completed = subprocess.run(command, cwd=folders[1], capture_output=True, check=False)
    assert (completed.returncode, completed.stdout) == (0, stock.stdout)
