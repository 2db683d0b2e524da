"""`iree-winograd import`: an ONNX model as an MLIR program."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from iree.winograd.command_line.interruption import silent_interrupts
from iree.winograd.commands import onnx_options
from iree.winograd.commands.files import input_problem
from iree.winograd.errors import InvalidOptionError, WinogradError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "import",
        help="turn an ONNX model into an MLIR program",
        description="Turns an ONNX model, with the external data beside it, into an MLIR program on linalg "
        "and tensors, which iree-compile reads. Names of inputs and outputs are kept for iree-winograd run.",
    )
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument(
        "-o",
        dest="output",
        required=True,
        metavar="FILE",
        help="the program: text if it is a .mlir, else bytecode, which is smaller",
    )
    onnx_options.add_arguments(parser)
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    # Other subcommands need no compiler.
    with silent_interrupts():
        from iree.winograd.importers.import_model import import_onnx

    try:
        if problem := input_problem(options.model):
            raise InvalidOptionError(problem)
        model = import_onnx(options.model, **onnx_options.import_arguments(options))
        model.save(options.output)
    except WinogradError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"iree-winograd: error: cannot write '{options.output}': {error.strerror}", file=sys.stderr)
        return 1
    for side, tensors in (("input", model.inputs), ("output", model.outputs)):
        for tensor in tensors:
            print(f"{side} {tensor.name}: {tensor}", file=sys.stderr)
    return 0
