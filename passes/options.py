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

    def __post_init__(self) -> None:
        if self.output_tile is not None and not 1 <= self.output_tile <= MAX_OUTPUT_TILE:
            raise ValueError(f"output_tile must be None or 1 to {MAX_OUTPUT_TILE}, got {self.output_tile}")
        if self.fold_filters not in ("compile", "load"):
            raise ValueError(f"fold_filters must be 'compile' or 'load', got {self.fold_filters!r}")
        for pattern in (*self.allow, *self.deny):
            if not pattern:
                raise ValueError("a layer pattern is empty")
