"""`iree-winograd compile`: `iree-compile` with our flag, for this machine unless it is told otherwise."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import STANDARD_STREAM
from iree.winograd.command_line.flags import ENABLE, HELP_FLAGS, expand_response_files
from iree.winograd.commands import onnx_options
from iree.winograd.errors import InvalidOptionError
from iree.winograd.importers.import_model import import_onnx, is_onnx
from iree.winograd.targets import target_flags

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_WITH_VALUE = ("--target", "--size")
_WITHOUT_VALUE = ("--dynamic-batch",)
_TARGET_FLAGS = ("iree-hal-target-", "iree-hal-local-target-")
"""What flags that say what to compile for contain."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand to the help; its arguments are for `run`, since argparse would change some."""
    return subparsers.add_parser("compile", help=f"iree-compile with --{ENABLE}, also of ONNX models")


def run(arguments: Sequence[str]) -> int:
    """Runs the subcommand with flags of `iree-compile` and those of `_own_parser`; returns its exit code.

    Without a flag that says what to compile for it is the CPU of this machine. An ONNX model becomes a
    `.vmfb` of its name in the current folder, unless `-o` says otherwise; anything else that is asked for
    goes to the standard output.
    """
    from iree.winograd.command_line import driver

    own, rest = _divide(list(expand_response_files(arguments)))
    options = _own_parser().parse_args(own)
    target = options.target
    if target is None and not any(flag in argument for argument in rest for flag in _TARGET_FLAGS):
        target = "cpu"
    models = [argument for argument in rest if not argument.startswith("-") and is_onnx(argument)]
    of_model = onnx_options.import_arguments(options)
    try:
        flags = () if target is None else target_flags(target)
        if of_model and not models:
            raise InvalidOptionError(onnx_options.ONLY_ONNX)
    except InvalidOptionError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    if HELP_FLAGS & set(rest):
        _own_parser().print_help()
        print(flush=True)
    program = f"{Path(models[0]).stem}.vmfb" if models else STANDARD_STREAM
    return driver.main([f"--{ENABLE}", *flags, *rest], partial(import_onnx, **of_model), program)


def _own_parser() -> argparse.ArgumentParser:
    """Of the options that the stock tool doesn't know."""
    parser = argparse.ArgumentParser(
        prog="iree-winograd compile",
        usage="%(prog)s [OPTIONS] [FLAGS OF iree-compile] PROGRAM",
        description="Compiles MLIR or an ONNX model, by default for the CPU of this machine.",
        add_help=False,
    )
    parser.add_argument("--target", help="cpu, vulkan, cuda or hip, with a chip if need be: cuda:sm_80")
    onnx_options.add_arguments(parser)
    return parser


def _divide(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our own options, each with its value, and the others."""
    own: list[str] = []
    rest: list[str] = []
    remaining = deque(arguments)
    while remaining:
        argument = remaining.popleft()
        name, equals, _ = argument.partition("=")
        if name in _WITH_VALUE and not equals and remaining:
            argument = f"{name}={remaining.popleft()}"
        (own if name in (*_WITH_VALUE, *_WITHOUT_VALUE) else rest).append(argument)
    return own, rest
