"""The `iree-winograd` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from iree.winograd import __version__
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.commands import (
    cache,
    calibrate,
    compile_program,
    database,
    doctor,
    import_model,
    run_program,
    transform,
    tune,
)
from iree.winograd.commands.tune import INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `iree-winograd`; returns its exit code."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough. What is left of it would be an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["compile"]:
        return compile_program.run(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="iree-winograd", description="Fast convolutions on the stock IREE compiler."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    compile_program.add_parser(subparsers)
    tool_path = subparsers.add_parser("tool-path", help="print the folder to set IREE_TOOL_PATH to")
    tool_path.set_defaults(run=_print_tool_path)
    for command in (import_model, run_program, transform, calibrate, database, tune, cache, doctor):
        command.add_parser(subparsers)
    # argparse takes `--` for the end of options, after which a subcommand has no positional arguments.
    end = arguments.index("--") if "tune" in arguments[:1] and "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end], argparse.Namespace(flags=arguments[end + 1 :]))
    code: int = options.run(options)
    return code


def _print_tool_path(options: argparse.Namespace) -> int:
    print(TOOL_DIRECTORY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
