"""The `iree-winograd` command."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from iree.winograd import __version__
from iree.winograd.command_line.interruption import INTERRUPTED, silent_interrupts

with silent_interrupts():
    from iree.winograd.command_line.parser import CommandParser
    from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
    from iree.winograd.commands import (
        cache,
        calibrate,
        compile_program,
        completion,
        database,
        doctor,
        import_model,
        run_program,
        transform,
        tune,
    )

_WITH_FLAGS = ("run", "tune")
"""Commands that take flags of `iree-compile` after `--`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `iree-winograd`; returns its exit code."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left of it would be an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # Of the standard output: the disk that it goes to may be full.
        print(f"iree-winograd: error: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


class _CommandsFormatter(argparse.HelpFormatter):
    """Has the names of commands and what they are for on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=18)
        # Their indentation isn't counted otherwise.
        self._action_max_length = 16


def command_parser() -> argparse.ArgumentParser:
    """Of the whole command line, but for what `compile` takes for `iree-compile`."""
    parser: argparse.ArgumentParser = CommandParser(
        prog="iree-winograd",
        description="Fast convolutions on the stock IREE compiler.",
        epilog="iree-winograd COMMAND --help says what a command takes.",
        formatter_class=_CommandsFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (compile_program, run_program, import_model, tune, database, calibrate, doctor, cache):
        command.add_parser(subparsers)
    transform.add_parser(subparsers)
    tool_path = subparsers.add_parser("tool-path", help="print the folder to set IREE_TOOL_PATH to")
    tool_path.set_defaults(run=_print_tool_path)
    completion.add_parser(subparsers, parser)
    return parser


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["compile"]:
        return compile_program.run(arguments[1:])
    parser = command_parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    # argparse takes `--` for the end of options, after which a subcommand has no positional arguments.
    has_flags = arguments[0] in _WITH_FLAGS and "--" in arguments
    end = arguments.index("--") if has_flags else len(arguments)
    options = parser.parse_args(arguments[:end], argparse.Namespace(flags=arguments[end + 1 :]))
    code: int = options.run(options)
    return code


def _print_warning(message: Warning | str, *place: object, **others: object) -> None:
    """Without the line of Python that a warning comes from."""
    print(f"iree-winograd: warning: {message}", file=sys.stderr)


def _print_tool_path(options: argparse.Namespace) -> int:
    print(TOOL_DIRECTORY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
