"""MLIR diagnostics as values, printed the way IREE's own tools print them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "remark"]


@dataclass(frozen=True)
class SourcePosition:
    """A place in a source file; `line` and `column` count from 1."""

    filename: str
    line: int
    column: int


@dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler; `position` is None when it has no place in a file."""

    severity: Severity
    message: str
    position: SourcePosition | None = None

    def format(self, source: str | None = None) -> str:
        """`file:line:column: severity: message`, then the line of `source` and a caret if it is given."""
        if self.position is None:
            return f"<unknown>:0: {self.severity}: {self.message}"
        position = self.position
        heading = f"{position.filename}:{position.line}:{position.column}: {self.severity}: {self.message}"
        lines = source.splitlines() if source is not None else []
        if not 1 <= position.line <= len(lines):
            return heading
        return f"{heading}\n{lines[position.line - 1]}\n{' ' * (position.column - 1)}^"
