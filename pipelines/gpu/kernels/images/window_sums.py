"""The GPU kernel that sums windows of an image in place, as average pooling does, without a padded copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.pixel_function import PixelFunction
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer

from .windows import WindowKernel


@dataclass(frozen=True)
class WindowSumsKernel(WindowKernel):
    """`finish` of the sums of windows, in f32; zeros are around the image."""

    finish: PixelFunction
    kind: ClassVar[str] = "window_sum"

    def _neutral(self, image: GlobalBuffer) -> ir.Value:
        return splat(0.0, self.together, image.computed)

    def _loaded(self, image: GlobalBuffer, offset: Index, inside: Condition) -> ir.Value:
        return image.load(offset, self.together, inside)

    def _combined(self, one: ir.Value, other: ir.Value) -> ir.Value:
        return arith.addf(one, other)

    def _store(self, reduced: ir.Value, output: GlobalBuffer, place: Sequence[Index], channel: Index) -> None:
        finished = self.finish.emit(reduced, place)
        remaining = Index(self.windows.channels) - channel
        output.store_first(finished, output.offset([*place, channel]), remaining, Condition(True))
