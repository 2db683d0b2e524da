"""`iree-winograd completion`: has a shell complete commands, options and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "PROGRAM", "MODEL", "SOURCE", "TARGET", "WHAT")
"""What names of values contain that are files."""


def add_parser(subparsers: Subparsers, commands: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the subcommand, which completes `commands`; see the others for what its parsed options have."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that has a shell complete command lines",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Prints a script that has a shell complete command lines. To have it in every shell:\n\n"
        "  bash   iree-winograd completion bash > ~/.local/share/bash-completion/completions/iree-winograd\n"
        "  zsh    iree-winograd completion zsh > FOLDER/_iree-winograd, for a folder of $fpath\n"
        "  fish   iree-winograd completion fish > ~/.config/fish/completions/iree-winograd.fish",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=lambda options: _run(options, commands))
    return parser


def _run(options: argparse.Namespace, commands: argparse.ArgumentParser) -> int:
    try:
        import shtab
    except ImportError:
        print(
            "iree-winograd: error: completion needs shtab (`pip install iree-winograd[completion]`)",
            file=sys.stderr,
        )
        return 1
    for action in _actions(commands):
        names = (action.metavar,) if isinstance(action.metavar, str) else action.metavar or ()
        if action.choices is None and any(each in name for name in names for each in _FILES):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(commands, options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of a parser and those of its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from _actions(subparser)
