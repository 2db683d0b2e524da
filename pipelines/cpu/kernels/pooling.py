"""The CPU kernel that pools windows of an image in place, without a padded copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.tiles.touched_pixels import ImageRow, TouchedPixels
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.windows import known_sizes

from .windows import WindowElement, WindowKernel


@dataclass(frozen=True)
class PoolingKernel(WindowKernel):
    """The maxima of windows.

    In place of an element outside of the image the nearest one inside is read, which the window has, too.
    """

    kind = "max_pool"

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of a workgroup, of an image of two dimensions of known size."""
        windows = self.windows
        extents, outputs = (known_sizes(each) for each in (windows.extents, windows.outputs))
        image, row = divmod(number, outputs[0])
        first = windows.first(0, row)
        bounds = (ImageRow(image, each) for each in (first, first + windows.size[0] - 1))
        begin, last = (bound.pixel(extents) for bound in bounds)
        written = range(number * outputs[1], (number + 1) * outputs[1])
        return TouchedPixels(range(begin, last + extents[1]), written)

    def _reduced(self, elements: Sequence[WindowElement], channel: Index, width: int) -> ir.Value:
        largest, *others = (each.image.load(each.offset + channel, width) for each in elements)
        with named("maximum"):
            for each in others:
                largest = arith.maximumf(largest, each)
        return largest
