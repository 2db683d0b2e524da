"""Remarks: what a pass did to an operation, or why it left it alone.

They go through MLIR's remark engine, so they cost nothing unless a tool enabled the engine on the context.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import NoMatch

CATEGORY = "winograd"


def remark_applied(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report that pass `pass_name` rewrote `operation`; `message` says to what."""
    _emit(ir.RemarkKind.PASSED, operation, pass_name, message)


def remark_analysis(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report what pass `pass_name` goes by in `operation`."""
    _emit(ir.RemarkKind.ANALYSIS, operation, pass_name, message)


def remark_missed(operation: ir.Operation, pass_name: str, message: str) -> None:
    """Report that pass `pass_name` left `operation` as it is; `message` says why."""
    _emit(ir.RemarkKind.MISSED, operation, pass_name, message)


def remark_left(pass_name: str, no_match: NoMatch) -> None:
    """Report that pass `pass_name` left what didn't match as it is, and why."""
    operation = no_match.operation
    remark_missed(operation, pass_name, f"{operation.name} left as it is: {no_match.reason}")


def printable(text: str) -> str:
    """`text` as MLIR takes it: what isn't UTF-8, in names of files, as escapes."""
    return text.encode(errors="backslashreplace").decode()


def _emit(kind: ir.RemarkKind, operation: ir.Operation, pass_name: str, message: str) -> None:
    operation.location.emit_remark(kind, pass_name, category=CATEGORY, message=printable(message))
