"""What a user may ask of the whole pass pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_OUTPUT_TILE = 8


@dataclass(frozen=True)
class WinogradOptions:
    """Options of `compile_pipeline`, the same for the command line and the Python API.

    Layers are named by patterns. A number (or a range of them, `4-7`) is that of the convolution, counted
    from 0 in program order; any other pattern is a shell-style glob that has to match one of the names in its
    location (`layer1.*`, `*/conv1`). A convolution is considered when `allow` is empty or one of its patterns
    matches, and no pattern of `deny` does.

    Raises ValueError when a field is out of range.
    """

    output_tile: int | None = None
    """Outputs per tile and dimension, 1 to 8; None lets the cost model choose per layer."""
    fold_filters: Literal["compile", "load"] = "compile"
    """When constant filters are transformed: at compile time (larger file) or when the program is loaded."""
    remarks: bool = False
    """Say of every convolution what it became, or why it was left."""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_relative_error: float | None = None
    """The predicted error of a layer, relative to its output in the 1-norm, that no algorithm may exceed.

    None is 1e-6 for f32 on CPUs and 4e-6 on GPUs, or the predicted error of the direct convolution if that is
    more, and no limit where `output_tile` is given.
    """
    threads: int | None = None
    """Threads that the program is going to run on, on a CPU; any other number works as well, but slower.

    None is one for each core of the machine that compiles it.
    """
    tuning_database: str | None = None
    """The file of the tuning database whose measurements are taken instead of predictions."""
    machine: str | None = None
    """The file of the machine that times are predicted for, as `iree-winograd calibrate --output` writes it.

    None is the machine that was calibrated for the target, or else the shipped default.
    """
    strict: bool = False
    """Make every failure of a pass an error; else what it failed on is left as it is, with a warning."""

    def __post_init__(self) -> None:
        if self.output_tile is not None and not 1 <= self.output_tile <= MAX_OUTPUT_TILE:
            raise ValueError(f"output_tile must be None or 1 to {MAX_OUTPUT_TILE}, got {self.output_tile}")
        if self.fold_filters not in ("compile", "load"):
            raise ValueError(f"fold_filters must be 'compile' or 'load', got {self.fold_filters!r}")
        if self.max_relative_error is not None and not self.max_relative_error > 0:
            raise ValueError(f"max_relative_error must be None or positive, got {self.max_relative_error}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be None or at least 1, got {self.threads}")
        if self.tuning_database == "":
            raise ValueError("the name of the tuning database is empty")
        if self.machine == "":
            raise ValueError("the name of the machine's file is empty")
        for pattern in (*self.allow, *self.deny):
            if not pattern:
                raise ValueError("a layer pattern is empty")
