"""From MLIR's diagnostics and remarks, and the texts of IREE's C API, to `Diagnostic`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from iree.winograd.diagnostic import Diagnostic, Severity, SourcePosition
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.remarks import CATEGORY
from iree.winograd.pipelines.selection.layer_filter import location_names

_SEVERITY_OF: dict[object, Severity] = {
    ir.DiagnosticSeverity.ERROR: "error",
    ir.DiagnosticSeverity.WARNING: "warning",
    ir.DiagnosticSeverity.NOTE: "note",
    ir.DiagnosticSeverity.REMARK: "remark",
}

_POSITION = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+): ")
_NOTES = re.compile(r"\n\n(?=[^\n]+?:\d+:\d+: )")


def find_position(location: ir.Location) -> SourcePosition | None:
    """The first place in a file that `location` holds."""
    if isinstance(location, ir.FileLineColLoc):
        return SourcePosition(location.filename, location.start_line, location.start_col)
    if isinstance(location, ir.NameLoc):
        return find_position(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return find_position(location.callee) or find_position(location.caller)
    if isinstance(location, ir.FusedLoc):
        return next(filter(None, map(find_position, location.locations)), None)
    return None


def parse_diagnostics(severity: Severity, text: str) -> Iterator[Diagnostic]:
    """The diagnostic, then its notes, that IREE's C API gives as one `text`."""
    for part in _NOTES.split(text):
        position, message = None, part
        if match := _POSITION.match(part):
            position = SourcePosition(match["file"], int(match["line"]), int(match["column"]))
            message = part[match.end() :]
        yield Diagnostic(severity, message, position)
        severity = "note"


class HeldDiagnostics:
    """Takes diagnostics, and holds them until it is known whether they are to be reported."""

    def __init__(self) -> None:
        self.held: list[Diagnostic] = []
        self._receive: Callable[[Diagnostic], None] = self.held.append

    def __call__(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic."""
        self._receive(diagnostic)

    def release(self, report: Callable[[Diagnostic], None]) -> None:
        """Have `report` told of what is held, and of what is taken from here on."""
        self._receive = report
        for diagnostic in self.held:
            report(diagnostic)


def diagnostic_at(location: ir.Location, severity: Severity, message: str) -> Diagnostic:
    """A diagnostic on what is at `location`, by name where that has one.

    Frontends name layers; the place in the source is often the same for all of them.
    """
    name = next(location_names(location), None)
    if name is None:
        return _with_location(severity, message, location)
    return Diagnostic(severity, f"{name}: {message}", find_position(location))


def capture_diagnostics(context: ir.Context, report: Callable[[Diagnostic], None]) -> None:
    """Send every diagnostic of `context`, each followed by its notes, to `report`."""

    def handle(diagnostic: ir.Diagnostic) -> bool:
        report(_with_location(_SEVERITY_OF[diagnostic.severity], diagnostic.message, diagnostic.location))
        for note in diagnostic.notes:
            handle(note)
        return True

    context.emit_error_diagnostics = True
    context.attach_diagnostic_handler(handle)


def capture_remarks(context: ir.Context, report: Callable[[Diagnostic], None]) -> None:
    """Enable the remarks of this project's passes on `context` and send them to `report`."""

    def handle(remark: ir.Remark) -> None:
        message = f"{dict(remark.args)['Remark']} [{remark.remark_name}]"
        report(diagnostic_at(remark.location, "remark", message))

    context.enable_remarks(callback=handle, all_filter=CATEGORY)


def _with_location(severity: Severity, message: str, location: ir.Location) -> Diagnostic:
    position = find_position(location)
    if position is None and not isinstance(location, ir.UnknownLoc):
        message = f"{location}: {message}"
    return Diagnostic(severity, message, position)
