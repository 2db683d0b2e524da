"""The GPU kernel of the maxima of windows of an image, read in place: of half precision, or of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.gpu.device.maximum import maximum
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer

from .windows import WindowKernel


@dataclass(frozen=True)
class MaxPoolingKernel(WindowKernel):
    """The largest of each channel, or a NaN. In place of an element outside of the image is the nearest one
    inside, which the window has, too."""

    by_instructions: bool = False
    """Of NVIDIA's GPUs, which numbers of half precision need."""
    kind: ClassVar[str] = "window_max"

    def _neutral(self, image: GlobalBuffer) -> ir.Value:
        return splat(-inf, self.together, image.element)

    def _loaded(self, image: GlobalBuffer, offset: Index, inside: Condition) -> ir.Value:
        return image.load(offset) if image.element == image.computed else image.load_stored(offset)

    def _combined(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return maximum(one, other) if self.by_instructions else arith.maximumf(one, other)

    def _store(self, reduced: ir.Value, output: GlobalBuffer, place: Sequence[Index], channel: Index) -> None:
        offset = output.offset([*place, channel])
        if output.element != output.computed:
            output.store_stored(reduced, offset)
            return
        output.store_first(reduced, offset, Index(self.windows.channels) - channel, Condition(True))
