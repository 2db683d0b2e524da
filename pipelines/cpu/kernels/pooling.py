"""The CPU kernel that pools windows of an image in place, without a padded copy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as product_of

from iree.winograd.dialect.bindings import arith
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.tiles.touched_pixels import ImageRow, TouchedPixels
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.windows import Windows, known_sizes


@dataclass(frozen=True)
class PoolingKernel:
    """The maxima of windows; a workgroup takes a row of them, along the last dimension.

    In place of an element outside of the image the nearest one inside is read, which the window has, too.
    """

    windows: Windows
    target: CpuTarget

    @property
    def name(self) -> str:
        outputs = "x".join("any" if each is None else str(each) for each in self.windows.outputs)
        size = "x".join(map(str, self.windows.size))
        return f"winograd_max_pool_{size}_{outputs}x{self.windows.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of windows of all images."""
        return sizes.batch * product(sizes.spatial("output")[:-1]), Index(1)

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

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x C to N x OH... x C."""
        windows = self.windows
        width = vector_width_for(windows.channels, self.target.vector_width)
        (*outer, columns), extents = work.sizes.spatial("output"), work.sizes.spatial("input")
        number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        with named("row"):
            rows = [self._positions(each, extents[d], d) for d, each in enumerate(row)]
        with loop(columns, name="column") as column:
            last = self._positions(column, extents[-1], len(outer))
            with named("element"):
                elements = [image.offset([number, *place, 0]) for place in product_of(*rows, last)]
            target = output.offset([number, *row, column, 0])

            def pool(channel: Index, elements: list[Index] = elements, target: Index = target) -> None:
                first, *others = (image.load(element + channel, width) for element in elements)
                with named("maximum"):
                    for each in others:
                        first = arith.maximumf(first, each)
                output.store(first, target + channel)

            for_each_vector(windows.channels, width, pool, "channel")

    def _positions(self, window: Index, extent: Index, dimension: int) -> list[Index]:
        """Of the elements of a window along a dimension."""
        return [place.index for place in window_places(self.windows, window, extent, dimension)]


@dataclass(frozen=True)
class WindowPlace:
    """Where the image has an element of a window along a dimension."""

    index: Index
    """Or that of the nearest one."""
    exists: Condition


def window_places(windows: Windows, window: Index, extent: Index, dimension: int) -> list[WindowPlace]:
    """Those of all elements of a window along a dimension of an image, of so many elements there."""
    return [
        _place(windows, window * windows.strides[dimension], extent, dimension, element)
        for element in range(windows.size[dimension])
    ]


def _place(windows: Windows, first: Index, extent: Index, dimension: int, element: int) -> WindowPlace:
    index, exists = first + (element - windows.low[dimension]), Condition(True)
    if windows.begins_before(dimension, element):
        exists &= index.at_least(0)
        index = index.maximum(0)
    if windows.ends_behind(dimension, element):
        exists &= index.less_than(extent)
        index = index.minimum(extent - 1)
    return WindowPlace(index, exists)
