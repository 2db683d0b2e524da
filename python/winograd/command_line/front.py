"""What stands in front of the driver: `iree-compile` itself, or a command that says more."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import STANDARD_STREAM
from iree.winograd.command_line.progress import Progress
from iree.winograd.importers.import_model import import_onnx

if TYPE_CHECKING:
    from iree.winograd.command_line.flags import CommandLine
    from iree.winograd.compiling.compilation import Compilation
    from iree.winograd.importers.imported_model import ImportedModel


class Front:
    """`iree-compile`, which says what the stock tool says, and ends as that does."""

    program = STANDARD_STREAM
    """The file that what the runtime loads is written to without `-o`."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = Progress(is_quiet=True) if progress is None else progress

    def read_onnx(self, path: str) -> ImportedModel:
        """An input that is an ONNX model."""
        return import_onnx(path)

    def refusal(self, command_line: CommandLine) -> str | None:
        """What is wrong with flags that the stock tool doesn't accept; None leaves it to that to say so."""
        return None

    def watch_for_interrupts(self) -> None:
        """Have an interrupt end the process while it compiles."""
        # Python would wait for the compiler to return before it ends the process.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def finish(self, compilation: Compilation, output: str) -> None:
        """The program is compiled, and is complete in the file `output`."""
