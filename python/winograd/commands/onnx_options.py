"""Options of commands that say what an ONNX model leaves open."""

from __future__ import annotations

import argparse
from typing import Any

ONLY_ONNX = "--size, --size-hint and --dynamic-batch are for ONNX models"
"""What is wrong where they are given with anything else."""


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """Adds `--size`, `--size-hint` and `--dynamic-batch`."""
    parser.add_argument(
        "--size",
        dest="sizes",
        action="append",
        default=[],
        type=_size,
        metavar="NAME=SIZE",
        help="fix a dimension that an ONNX model leaves open, by its name; may be given again",
    )
    parser.add_argument(
        "--size-hint",
        dest="size_hints",
        action="append",
        default=[],
        type=_size,
        metavar="NAME=SIZE",
        help="expect this size of a dimension that stays open, by its name; may be given again",
    )
    parser.add_argument(
        "--dynamic-batch",
        action="store_true",
        help="leave the first dimension of all inputs of an ONNX model open",
    )


def import_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """What they say as arguments of `import_onnx`; empty where they weren't given."""
    given = {
        "sizes": dict(options.sizes),
        "size_hint": dict(options.size_hints),
        "dynamic_batch": options.dynamic_batch,
    }
    return {name: value for name, value in given.items() if value}


def _size(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not like height=224")
    return name, int(size)
