"""Register blocks of sums become outputs: the epilogue, and where its results go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.transposition import Lines, Span, copy_transposed
from iree.winograd.pipelines.cpu.processor.x86 import AVX512_LANES
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import LaneMask

_SIDE_BY_SIDE = 4
"""Vectors that go through functions at once. A vector's operations wait for each other for longer than the
processor looks ahead."""


@dataclass(frozen=True)
class RegisterBlockStore:
    """Finishes sums of `pixels` neighbours by `vectors` vectors of `width` channels, and writes them.

    An epilogue of arithmetic is written out for each vector. One with functions, such as the exponential of
    a sigmoid, would ask for more registers than there are when all vectors of a block go through it side by
    side: what comes before functions is written out, its results wait in memory of the workgroup, and a loop
    takes some after the other.

    Outputs of a channels-first image wait for the rest of their row, which is then transposed: the lines of
    several channels often share a set of the cache, where few would stay until they are complete.
    """

    output: Buffer
    epilogue: VectorEpilogue
    sums: tuple[int, int, int]
    """Those of a block: pixels x vectors x width."""
    waiting: Buffer | None
    """pixels x vectors x width sums; None for epilogues of arithmetic only, of whole blocks, and for single
    pixels."""
    row: Buffer | None
    """pixels of a row x vectors * width outputs; None for channels-last images."""
    channels: int
    """Outputs that there are of a block: lanes past them are left out."""

    @staticmethod
    def of(
        output: Buffer,
        epilogue: VectorEpilogue,
        sums: tuple[int, int, int],
        element: ir.Type,
        transposed_pixels: int | None = None,
        channels: int | None = None,
        *,
        in_parts: bool = False,
    ) -> RegisterBlockStore:
        """For blocks of `sums`, pixels x vectors x width of a type; emits the memory that they wait in.

        Of channels-first images rows of `transposed_pixels` are transposed at once. Of blocks that have more
        than the `channels` that there are, those past the last are left out. With `in_parts` blocks may have
        fewer pixels.
        """
        # Those of one pixel have nothing to wait for.
        waits = in_parts or (epilogue.calls_functions and sums[0] > 1)
        waiting = scratch(sums, element, "sums") if waits else None
        row = None
        if transposed_pixels is not None:
            row = scratch((transposed_pixels, sums[1] * sums[2]), output.computed, "finished_row")
        block = sums[1] * sums[2]
        return RegisterBlockStore(output, epilogue, sums, waiting, row, min(block, channels or block))

    def emit(
        self,
        sums: list[ir.Value],
        number: Index,
        position: tuple[Index, ...],
        channel: Index,
        pixel: Index,
        count: Index | None = None,
    ) -> None:
        """Emits it for a block of `sums` of image `number` from `position` and `channel` on.

        `pixel` is that of `position` within the row of the workgroup. Of a store `in_parts` only the first
        `count` pixels of a block are finished and written.
        """
        if self.row is None:
            target, origin = self.output, self.output.offset([number, *position, channel])
        else:
            target, origin = self.row, self.row.offset([pixel, 0])
        _, vectors, width = self.sums
        lanes = None
        if self.channels < vectors * width:
            lanes = LaneMask.between(0, self.channels - (vectors - 1) * width, width)

        def loaded(place: tuple[Index, int]) -> list[ir.Value]:
            pixel, vector = place
            finished_position = (*position[:-1], position[-1] + pixel)
            return self.epilogue.load(
                number, finished_position, channel + vector * width, width, mask(vector)
            )

        def mask(vector: int) -> LaneMask | None:
            return lanes if vector == vectors - 1 else None

        def start_of(place: tuple[Index, int]) -> Index:
            pixel, vector = place
            return origin + (pixel * target.stride(-2) + vector * width)

        def store(value: ir.Value, place: tuple[Index, int]) -> None:
            start, written = start_of(place), mask(place[1])
            if written is None or self.row is not None:
                # A row has room for whole vectors, what is left out isn't transposed.
                target.store(value, start)
            else:
                target.store_lanes(value, start, written)

        def store_all(values: list[ir.Value], places: list[tuple[Index, int]]) -> None:
            rest = list(zip(values, places, strict=True))
            while rest:
                value, place = rest.pop(0)
                if not (rest and place[1] + 1 == rest[0][1][1] and self._stores_two(place[1])):
                    store(value, place)
                    continue
                second, _ = rest.pop(0)
                target.store_two(value, second, start_of(place))

        block = [(Index(i // vectors), i % vectors) for i in range(len(sums))]
        if self.waiting is None:
            for first in range(0, len(block), vectors):
                of_pixel = slice(first, first + vectors)
                finished = []
                for value, place in zip(sums[of_pixel], block[of_pixel], strict=True):
                    with named("output"):
                        finished.append(self.epilogue.applied(value, loaded(place)))
                store_all(finished, block[of_pixel])
            return
        if count is None:
            # All pixels exist: what isn't a function needs few registers.
            sums = self.epilogue.begun(sums, list(map(loaded, block)))
        finish = self.epilogue.finished if count is None else self.epilogue.applied_to_all
        for i, value in enumerate(sums):
            self.waiting.store(value, i * width)
        pixels = len(block) // vectors
        at_once = _pixels_at_once(pixels, vectors) if count is None else 1
        with loop(pixels if count is None else count, step=at_once, name="finished_pixel") as pixel:
            for first in range(0, at_once * vectors, _SIDE_BY_SIDE):
                numbers = range(first, min(first + _SIDE_BY_SIDE, at_once * vectors))
                places = [(pixel + i // vectors, i % vectors) for i in numbers]
                values = [self.waiting.load((pixel * vectors + i) * width, width) for i in numbers]
                with named("output"):
                    outputs = finish(values, list(map(loaded, places)))
                store_all(outputs, places)

    def _stores_two(self, vector: int) -> bool:
        """Whether a vector and the next one, of all channels, are narrowed and written as two."""
        _, _, width = self.sums
        whole = (vector + 2) * width <= self.channels
        return whole and width == AVX512_LANES and self.row is None and self.output.number.narrows_two

    def finish_row(
        self,
        number: Index,
        position: tuple[Index, ...],
        channel: Index,
        vector_width: int,
        count: Index,
    ) -> None:
        """Emits what is left to do for the `count` outputs of a row from `position` and `channel` on."""
        if self.row is None:
            return
        source = Lines(self.row, Index(0), self.row.stride(0))
        origin = self.output.offset([number, channel, *position])
        target = Lines(self.output, origin, self.output.stride(1))
        pixels, _ = self.row.known_extents
        whole = partial(copy_transposed, source, target, (pixels, self.channels), vector_width)
        when(count.at_least(pixels), whole, partial(whole, written=Span(Index(0), count)))

    def prefetch(self, number: Index, position: tuple[Index, ...], channel: Index, part: Index) -> None:
        """Fetches a part of what is overwritten by a block of sums, and of what the epilogue reads for it.

        The block begins at `position` and `channel`; parts beyond the last are the last one.
        """
        pixels, vectors, width = self.sums
        vector = part.minimum(pixels * vectors - 1)
        pixel = (*position[:-1], position[-1] + vector // vectors)
        first = channel + vector % vectors * width
        if self.row is None:
            self.output.prefetch(self.output.offset([number, *pixel, first]), to_write=True)
        else:
            # The lines of a block are those of its channels.
            line = channel + part.minimum(self.channels - 1)
            self.output.prefetch(self.output.offset([number, line, *position]), to_write=True)
        self.epilogue.prefetch(number, pixel, first)


def _pixels_at_once(pixels: int, vectors: int) -> int:
    """The most pixels of so many vectors that go through functions at once and divide those of a block."""
    most = max(1, _SIDE_BY_SIDE // vectors)
    return next(each for each in range(most, 0, -1) if pixels % each == 0)
