"""What CPU kernels on windows of an image share: a row of windows, and where the image has their elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as product_of
from typing import ClassVar

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.windows import Windows


@dataclass(frozen=True)
class WindowElement:
    """The channels of a pixel of a window, or of the nearest one that the image has."""

    image: Buffer
    offset: Index
    """Of the first channel."""
    exists: Condition
    """Whether the image has the pixel itself."""


@dataclass(frozen=True)
class WindowKernel(ABC):
    """A pixel for each window of an image, which is read in place; a workgroup takes a row of windows."""

    windows: Windows
    target: CpuTarget
    kind: ClassVar[str]
    """What it computes, in its name."""

    @property
    def name(self) -> str:
        return self.windows.kernel_name(self.kind)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of windows of all images."""
        return sizes.batch * product(sizes.spatial("output")[:-1]), Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x C to N x OH... x C."""
        windows = self.windows
        width = vector_width_for(windows.channels, self._lanes(image))
        (*outer, columns), extents = work.sizes.spatial("output"), work.sizes.spatial("input")
        number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        with named("row"):
            rows = [_places(windows, each, extents[d], d) for d, each in enumerate(row)]
        with loop(columns, name="column") as column:
            last = _places(windows, column, extents[-1], len(outer))
            with named("element"):
                elements = [_element(image, number, places) for places in product_of(*rows, last)]
            target = output.offset([number, *row, column, 0])

            def reduce(
                channel: Index, elements: list[WindowElement] = elements, target: Index = target
            ) -> None:
                output.store(self._reduced(elements, channel, width), target + channel)

            for_each_vector(windows.channels, width, reduce, "channel")

    def _lanes(self, image: Buffer) -> int:
        """Of a vector of channels."""
        return self.target.vector_width

    @abstractmethod
    def _reduced(self, elements: Sequence[WindowElement], channel: Index, width: int) -> ir.Value:
        """Emits what becomes of `width` channels of a window's elements, from one channel on."""


@dataclass(frozen=True)
class _Place:
    """Where the image has an element of a window along a dimension."""

    index: Index
    """Or that of the nearest one."""
    exists: Condition


def _places(windows: Windows, window: Index, extent: Index, dimension: int) -> list[_Place]:
    """Those of all elements of a window along a dimension of an image, of so many elements there."""
    first = window * windows.strides[dimension]
    return [_place(windows, first, extent, dimension, each) for each in range(windows.size[dimension])]


def _place(windows: Windows, first: Index, extent: Index, dimension: int, element: int) -> _Place:
    index, exists = first + (element - windows.low[dimension]), Condition(True)
    if windows.begins_before(dimension, element):
        exists &= index.at_least(0)
        index = index.maximum(0)
    if windows.ends_behind(dimension, element):
        exists &= index.less_than(extent)
        index = index.minimum(extent - 1)
    return _Place(index, exists)


def _element(image: Buffer, number: Index, places: Sequence[_Place]) -> WindowElement:
    offset = image.offset([number, *(each.index for each in places), 0])
    return WindowElement(image, offset, all_of([each.exists for each in places]))
