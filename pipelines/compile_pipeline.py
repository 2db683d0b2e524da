"""The order of all passes, in one function."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.options import WinogradOptions


def rewrite_module(module: ir.Operation, options: WinogradOptions) -> None:
    """Rewrite the convolutions of `module`, as it is after IREE's `preprocessing` phase, in place."""
