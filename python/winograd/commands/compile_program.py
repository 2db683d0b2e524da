"""`iree-winograd compile`: `iree-compile` with our flag, for this machine unless it is told otherwise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.errors import InvalidOptionError
from iree.winograd.flags import ENABLE, expand_response_files
from iree.winograd.importers import is_onnx
from iree.winograd.targets import target_flags

if TYPE_CHECKING:
    import argparse

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_TARGET = "--target"
_OUTPUTS = ("-o", "--o")
_TARGET_FLAGS = ("iree-hal-target-", "iree-hal-local-target-")
"""What flags that say what to compile for contain."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand to the help; its arguments are for `run`, since argparse would change some."""
    return subparsers.add_parser("compile", help=f"iree-compile with --{ENABLE}, also of ONNX models")


def run(arguments: Sequence[str]) -> int:
    """Runs the subcommand with flags of `iree-compile`; returns its exit code.

    `--target` is one of ours, as `compile` in Python has it. Without a flag that says what to compile for it
    is the CPU of this machine. An ONNX model becomes a `.vmfb` of its name in the current folder, unless `-o`
    says otherwise.
    """
    from iree.winograd import driver

    rest: list[str] = []
    target = None
    remaining = list(expand_response_files(arguments))
    while remaining:
        argument = remaining.pop(0)
        name, equals, value = argument.partition("=")
        if name != _TARGET:
            rest.append(argument)
        elif equals or remaining:
            target = value if equals else remaining.pop(0)
    if target is None and not any(flag in argument for argument in rest for flag in _TARGET_FLAGS):
        target = "cpu"
    try:
        flags = () if target is None else target_flags(target)
    except InvalidOptionError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    models = [argument for argument in rest if not argument.startswith("-") and is_onnx(argument)]
    has_output = any(argument.partition("=")[0] in _OUTPUTS for argument in rest)
    output = ("-o", f"{Path(models[0]).stem}.vmfb") if models and not has_output else ()
    return driver.main([f"--{ENABLE}", *flags, *rest, *output])
