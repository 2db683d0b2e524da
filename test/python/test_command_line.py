"""The command line of `iree-winograd` as a whole: help, slips, and completion."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from iree.winograd.cli import command_parser, main
from iree.winograd.commands.completion import SHELLS


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr().err
    assert said == command_parser().format_help()
    assert re.search("^ +calibrate +measure this machine", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("complie", "iree-winograd: error: argument COMMAND: there is no 'complie'; did you mean 'compile'?"),
        ("cache sho", "iree-winograd cache: error: argument ACTION: there is no 'sho'; did you mean 'show'?"),
        ("completion csh", "argument SHELL: there is no 'csh'; choose from bash, zsh, fish"),
        (
            "run x --treads 3",
            "iree-winograd run: error: unknown option '--treads', did you mean '--threads'?",
        ),
        ("run x y", "iree-winograd run: error: 'y' is one argument too many"),
        ("doctor --zzz", "iree-winograd doctor: error: unknown option '--zzz'\n"),
    ],
)
def test_slips_are_named(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(line.split())
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_an_output_that_takes_nothing_is_an_error() -> None:
    command = [sys.executable, "-m", "iree.winograd.cli", "tool-path"]
    with open("/dev/full", "w") as full:
        outcome = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (1, "iree-winograd: error: No space left on device\n")


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of `words`."""
    line = " ".join(map(repr, words))
    program = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        '_shtab_iree_winograd; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    outcome = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stderr == ""
    return outcome.stdout.split()


def test_completion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        (tmp_path / shell).write_text(script)
        assert "tuning-database" in script
    bash = tmp_path / "bash"
    assert completed(bash, "iree-winograd", "com") == ["compile", "completion"]
    assert completed(bash, "iree-winograd", "compile", "--rep") == ["--report"]
    assert completed(bash, "iree-winograd", "database", "") == ["show", "merge", "export"]
