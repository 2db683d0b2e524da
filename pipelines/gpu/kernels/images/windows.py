"""What GPU kernels that pool windows of images in place have in common: which thread has which of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import ClassVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import product as product_of
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid
from iree.winograd.pipelines.problems.windows import Windows, known_sizes

_THREADS, _OPEN_THREADS = 256, 64
"""Of a workgroup, and of one for images of unknown sizes, of which a small one has few windows: on more
multiprocessors they load more at once."""
_NEIGHBOURS = 8
"""Quads or octets of a pixel that neighbouring threads take, in f32 and in half precision a cache line. Other
threads take windows beside theirs."""
_MOST_COLUMNS = 6
"""Quads or octets that a thread has in registers."""
_MOST_LOADS = 32
"""Of a thread, written out without a loop."""
_MANY_THREADS = 1 << 16
"""As many as keep the memory of large GPUs busy."""


@dataclass(frozen=True)
class WindowKernel(ABC):
    """Windows of N x H... x C, each reduced to a pixel.

    A thread reduces neighbouring windows along the last dimension: columns that they have in common are
    loaded, and reduced along the other dimensions, once. Of images of unknown sizes it reduces one.
    """

    windows: Windows
    images: int
    """As many as there are, or one where that is known only at run time."""
    together: int
    """Channels that a thread loads and stores at once: a quad, or an octet of half precision."""
    kind: ClassVar[str]
    """What it computes, in its name."""

    @property
    def name(self) -> str:
        return self.windows.kernel_name(self.kind)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of windows, channels."""
        return self._grid.workgroups(sizes.batch * product_of(self._blocks(sizes)))

    def emit(self, work: Work, image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x C to N x OH... x C."""
        sizes = work.sizes
        blocks = self._blocks(sizes)
        number, part, exists = self._grid.place(work.workgroup, sizes.batch * product_of(blocks))
        if self.windows.are_open and sizes.batch.known == 1:
            # Of one image nothing is divided by its rows.
            batch, (*position, block) = Index(0), unflatten(number, blocks)
        else:
            batch, *position, block = unflatten(number, [sizes.batch, *blocks])
        first, channel = block * self.along, part * self.together
        if self.along > 1:
            # The last block has the last windows, whoever else has them, too.
            first = first.minimum(self._outputs(sizes)[-1] - self.along)

        def compute() -> None:
            places = _Places(self.windows, self.along, self._extents(sizes), self._outputs(sizes))
            reduced_windows = self._reduced(image, batch, (*position, first), channel, places)
            for window, reduced in enumerate(reduced_windows):
                self._store(reduced, output, [batch, *position, first + window], channel)

        when(exists, compute)

    @abstractmethod
    def _neutral(self, image: GlobalBuffer) -> ir.Value:
        """What windows are reduced from."""

    @abstractmethod
    def _loaded(self, image: GlobalBuffer, offset: Index, inside: Condition) -> ir.Value:
        """Channels of an element of a window; where that is not inside of the image the nearest one's are."""

    @abstractmethod
    def _combined(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Two such, reduced."""

    @abstractmethod
    def _store(self, reduced: ir.Value, output: GlobalBuffer, place: Sequence[Index], channel: Index) -> None:
        """Writes what a window is reduced to."""

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return _OPEN_THREADS if self.windows.are_open else _THREADS

    @property
    def along(self) -> int:
        """Windows of a thread, of those with fewest loads for each."""
        if self.windows.are_open:
            return 1
        *outer, last = known_sizes(self.windows.outputs)
        parts = self.images * prod(outer) * ceil_div(self.windows.channels, self.together)
        blocks = {windows: ceil_div(last, windows) for windows in range(1, min(last, _MOST_COLUMNS) + 1)}
        fitting = [
            windows
            for windows, count in blocks.items()
            if len(self._columns(windows)) <= _MOST_COLUMNS and parts * count >= _MANY_THREADS
        ]
        return min(fitting, key=lambda each: blocks[each] * len(self._columns(each)), default=1)

    def _columns(self, windows: int) -> list[int]:
        """The elements along the last dimension that so many neighbouring windows have."""
        size, stride = self.windows.size[-1], self.windows.strides[-1]
        return sorted({window * stride + element for window in range(windows) for element in range(size)})

    def _reduced(
        self,
        image: GlobalBuffer,
        batch: Index,
        windows: tuple[Index, ...],
        channel: Index,
        found_at: _Places,
    ) -> list[ir.Value]:
        """Those of `along` windows, the first of which is given."""
        *rows, size = self.windows.size
        columns = self._columns(self.along)
        last = len(rows)
        in_row = [found_at.place(last, windows[last], Index(column)) for column in columns]

        # Of a long row, which a thread has alone, only what it is reduced to is kept.
        kept = columns if len(columns) <= _MOST_COLUMNS else [0]

        def load(element: Sequence[Index]) -> list[ir.Value]:
            places = [found_at.place(d, windows[d], each) for d, each in enumerate(element)]
            loaded = []
            for column in in_row:
                positions, inside = zip(*places, column, strict=True)
                offset = image.pixel_offset([batch, *positions], channel)
                loaded.append(self._loaded(image, offset, all_of(inside)))
            return loaded

        def combined(so_far: Sequence[ir.Value], loaded: Sequence[ir.Value]) -> list[ir.Value]:
            if len(kept) < len(columns):
                return [reduce(self._combined, loaded, *so_far)]
            return [self._combined(before, value) for before, value in zip(so_far, loaded, strict=True)]

        if prod(rows) * len(columns) <= _MOST_LOADS:
            first, *others = (load([*map(Index, element)]) for element in product(*map(range, rows)))
            found = reduce(
                combined, others, first if len(kept) == len(columns) else [reduce(self._combined, first)]
            )
        else:
            neutral = [self._neutral(image)] * len(kept)
            found = loop_carried(
                prod(rows), 1, neutral, lambda i, so_far: combined(so_far, load(unflatten(i, rows))), "row"
            )
        if len(kept) < len(columns):
            return found
        of_column = dict(zip(columns, found, strict=True))
        stride = self.windows.strides[-1]
        return [
            reduce(self._combined, (of_column[window * stride + element] for element in range(size)))
            for window in range(self.along)
        ]

    def _extents(self, sizes: Sizes) -> tuple[Index, ...]:
        """Of the image."""
        known = self.windows.extents
        return tuple(map(Index, known_sizes(known))) if None not in known else sizes.spatial("input")

    def _outputs(self, sizes: Sizes) -> tuple[Index, ...]:
        known = self.windows.outputs
        return tuple(map(Index, known_sizes(known))) if None not in known else sizes.spatial("output")

    def _blocks(self, sizes: Sizes) -> tuple[Index, ...]:
        """Those of an image along each dimension."""
        *outer, last = self._outputs(sizes)
        return *outer, ceildiv(last, self.along)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(ceil_div(self.windows.channels, self.together), self.threads, _NEIGHBOURS)


@dataclass(frozen=True)
class _Places:
    """Where the elements of windows are in an image of these sizes, known or not."""

    windows: Windows
    along: int
    extents: tuple[Index, ...]
    outputs: tuple[Index, ...]

    def place(self, dimension: int, window: Index, element: Index) -> tuple[Index, Condition]:
        """Where the image has an element, from a window's first one on, and whether it does."""
        extent, low = self.extents[dimension], self.windows.low[dimension]
        position = window * self.windows.strides[dimension] + element - low
        first, last = (0, self.windows.size[dimension] - 1) if element.known is None else (element.known,) * 2
        begins, ends = first < low, self._ends_behind(dimension, last)
        if begins and ends:
            return position.moved_into(extent), position.within(extent)
        if begins:
            return position.maximum(0), position.at_least(0)
        if ends:
            return position.minimum(extent - 1), position.less_than(extent)
        return position, Condition(True)

    def _ends_behind(self, dimension: int, last: int) -> bool:
        """Whether the last element of a thread's windows may be behind the image."""
        extent, outputs = self.extents[dimension].known, self.outputs[dimension].known
        if extent is None or outputs is None:
            return self.windows.ends_behind(dimension, last)
        most = outputs - (self.along if dimension == len(self.extents) - 1 else 1)
        return most * self.windows.strides[dimension] + last - self.windows.low[dimension] >= extent
