"""The exceptions of this package: every failure that a user can cause is a `WinogradError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.winograd.diagnostic import Diagnostic


class WinogradError(Exception):
    """A failure with the compiler's diagnostics, if it gave any, in the order in which it gave them."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class ModelImportError(WinogradError):
    """A model of another framework can't be turned into an MLIR program."""


class CompilationError(WinogradError):
    """A program can't be compiled."""


class InvalidOptionError(WinogradError, ValueError):
    """An option, a flag or a target that isn't known, or can't have this value."""


class TuningError(WinogradError):
    """Nothing can be measured."""


class LoadError(WinogradError):
    """A compiled program can't be loaded, or the device to run it on isn't there."""


class CallError(WinogradError):
    """A loaded program can't be called with these arguments, or failed while it ran."""
