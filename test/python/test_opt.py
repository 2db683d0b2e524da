"""What `winograd-opt` does with bad input, and the expectations that `--verify-diagnostics` checks."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.winograd.command_line import opt
from iree.winograd.command_line.expected_diagnostics import check_diagnostics
from iree.winograd.diagnostic import Diagnostic, SourcePosition
from small_programs import CONVOLUTION

ERROR = "// expected-error@below {{use of undeclared SSA value name}}\nutil.return %undeclared : i32\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.mlir"
    path.write_text("util.func @f(%a: i32) -> i32 {\n  util.return %a : i32\n}\n")
    return path


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--pass-pipeline=canonicalize"], "expected pass pipeline to be wrapped with 'builtin.module(...)'"),
        (["--pass-pipeline=builtin.module(canonicalize"], "expected pass pipeline to be wrapped"),
        (["--pass-pipeline=builtin.module(cse,,cse)"], "empty element in pass pipeline"),
        (["--pass-pipeline=builtin.module(util.func(cse)"], "missing ')' in pass pipeline"),
        (["--pass-pipeline=builtin.module(cse})"], "unexpected '}' in pass pipeline"),
        (
            ["--pass-pipeline=builtin.module(winograd-missing)"],
            "'winograd-missing' does not refer to a registered",
        ),
        (["--no-such-pass"], "'no-such-pass' does not refer to a registered pass"),
        (
            ["-o", "/no/such/folder/out.mlir"],
            "cannot open output file '/no/such/folder/out.mlir': No such file",
        ),
    ],
)
def test_bad_arguments(
    source: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    assert opt.main([str(source), *flags]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("file_comes_first", [False, True])
@pytest.mark.parametrize("options", ["", "=output-tile=4", "=output-tile=4 threads=2"])
def test_options_of_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, file_comes_first: bool
) -> None:
    path = tmp_path / "convolution.mlir"
    path.write_text(CONVOLUTION)
    passes = [f"--winograd-select-algorithm{options}", "--canonicalize=max-iterations=3 top-down=false"]
    assert opt.main([str(path), *passes] if file_comes_first else [*passes, str(path)]) == 0
    output = capsys.readouterr().out
    assert "winograd.algorithm = {output_tile = " in output
    assert "output_tile = array<i64: 4, 4>" in output or not options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cse", "a=1 b=2", "in.mlir"], "more than one file: 'a=1 b=2', 'in.mlir'"),
        (["-cse=a=1 b=2", "in.mlir"], "unexpected argument '-cse=a=1 b=2'"),
    ],
)
def test_what_is_neither_a_pass_nor_the_file(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        opt.main(arguments)
    assert exit_.value.code == 2
    errors = capsys.readouterr().err
    assert f"{message}; a pass is written --NAME or --NAME='option=value ...'\n" in errors


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfd"])
def test_unreadable_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None) -> None:
    path = tmp_path / "input.mlir"
    if content is not None:
        path.write_bytes(content)
    assert opt.main([str(path)]) == 1
    assert f"cannot open input file '{path}'" in capsys.readouterr().err


def test_diagnostics_show_file_line_and_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "input.mlir"
    path.write_text("\n  util.return %undeclared : i32\n")
    assert opt.main([str(path)]) == 1
    heading, line, caret = capsys.readouterr().err.splitlines()
    assert heading == f"{path}:2:15: error: use of undeclared SSA value name"
    assert line == "  util.return %undeclared : i32"
    assert caret == " " * 14 + "^"


def test_verify_diagnostics_accepts_and_rejects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "input.mlir"
    path.write_text(ERROR)
    assert opt.main([str(path), "--verify-diagnostics"]) == 0
    path.write_text(ERROR.replace("undeclared SSA", "declared SSA"))
    assert opt.main([str(path), "--verify-diagnostics"]) == 1
    errors = capsys.readouterr().err
    assert f"{path}:2:13: error: unexpected error: use of undeclared SSA value name" in errors
    assert f'{path}:2:1: error: expected error "use of declared SSA value name" was not produced' in errors


def emitted(line: int, message: str = "message", severity: str = "error") -> Diagnostic:
    return Diagnostic(severity, message, SourcePosition("f.mlir", line, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "diagnostic"),
    [
        ("a // expected-error {{message}}", emitted(1)),
        ("// expected-error@+2 {{mess}}\n\na", emitted(3)),
        ("a\n// expected-error @-1 {{message}}", emitted(1)),
        ("a\n// expected-remark@above {{message}}", emitted(1, severity="remark")),
        ("// expected-error@below {{message}}\n// expected-note@below {{x}}\na", emitted(3)),
        ("// expected-warning-re {{mes{{s+}}a.?ge}}", emitted(1, "messssa.?ge", "warning")),
        ("// expected-error@unknown {{message}}", Diagnostic("error", "message")),
    ],
)
def test_expectations_match(source: str, diagnostic: Diagnostic) -> None:
    emitted_all = [diagnostic, emitted(3, "x", "note")] if "expected-note" in source else [diagnostic]
    assert check_diagnostics(source, "f.mlir", emitted_all) == []


@pytest.mark.parametrize(
    ("source", "diagnostic"),
    [
        ("a // expected-error {{message}}", emitted(2)),
        ("a // expected-error {{message}}", emitted(1, severity="remark")),
        ("a // expected-error {{other}}", emitted(1)),
        ("a // expected-error {{m.*e}}", emitted(1)),
        ("// expected-error@unknown {{message}}", emitted(1)),
    ],
)
def test_expectations_do_not_match(source: str, diagnostic: Diagnostic) -> None:
    assert len(check_diagnostics(source, "f.mlir", [diagnostic])) == 2
