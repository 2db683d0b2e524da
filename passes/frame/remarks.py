"""Remarks: what a pass did to an operation, or why it left it alone.

They go through MLIR's remark engine, so they cost nothing unless a tool enabled the engine on the context.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import NoMatch

CATEGORY = "winograd"


def remark_applied(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report that pass `pass_name` rewrote `operation`; `message` says to what."""
    operation.location.emit_remark(ir.RemarkKind.PASSED, pass_name, category=CATEGORY, message=message)


def remark_analysis(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report what pass `pass_name` goes by in `operation`."""
    operation.location.emit_remark(ir.RemarkKind.ANALYSIS, pass_name, category=CATEGORY, message=message)


def remark_missed(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report that pass `pass_name` left `operation` as it is; `message` says why."""
    operation.location.emit_remark(ir.RemarkKind.MISSED, pass_name, category=CATEGORY, message=message)


def remark_left(pass_name: str, no_match: NoMatch) -> None:
    """Report that pass `pass_name` left what didn't match as it is, and why."""
    operation = no_match.operation
    remark_missed(operation, pass_name, f"{operation.name} left as it is: {no_match.reason}")
