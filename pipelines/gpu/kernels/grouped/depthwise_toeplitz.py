"""The depthwise kernel on matrix units: pixels by Toeplitz matrices of taps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device import mma
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    barrier,
    lane,
    numbers_of_thread,
    quad_of,
    quad_or_zero,
)
from iree.winograd.pipelines.gpu.kernels.direct.direct import DirectKernel
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import ColumnOperands
from iree.winograd.pipelines.gpu.schedules.toeplitz import (
    READ_COLUMNS,
    STEP_ROWS,
    DepthwiseToeplitzSchedule,
    ToeplitzTiling,
)

from .image_ring import ImageRingWorkgroup, ring_workgroups, words

_HALF = MATRIX_ROWS // 2
"""Blocks of a thread's first row of a fragment of pixels, and of its second one."""


@dataclass(frozen=True)
class DepthwiseToeplitzKernel(DirectKernel):
    """output[n, h, w, c] = epilogue(sum over taps of image[n, i, j, c] * filters[tap, c]).

    A thread loads quads of channels of pixels from shared memory, and has pairs of pixels of one channel of
    these, which are fragments of a matrix of 16 blocks by 16 positions. Taps lie in registers, as the
    Toeplitz matrices of rows of them: 16 positions by eight outputs.
    """

    schedule: DepthwiseToeplitzSchedule

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        return ring_workgroups(ToeplitzTiling(self.shape, self.schedule), sizes)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        _Workgroup(self, work, image, filters, output, epilogue).emit()


@dataclass(frozen=True)
class _Block:
    """Of outputs of the strip that a workgroup is at."""

    image: Index
    """Among those of the workgroup."""
    column: Index
    """Its first one."""


class _Workgroup(ImageRingWorkgroup):
    def __init__(
        self,
        kernel: DepthwiseToeplitzKernel,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        self._tiling = ToeplitzTiling(kernel.shape, kernel.schedule)
        super().__init__(self._tiling, work, image, filters, output, epilogue)
        self._operands = ColumnOperands(kernel.shape, kernel.layout, image, filters, self._channel)

    def _prepare(self) -> None:
        if self._tiling.gathers_taps:
            barrier()
            self._taps = self._fragments_of_taps()
        self._blocks = [self._block(half) for half in range(2)]

    def _begin(self) -> list[ir.Value]:
        if self._tiling.kept_steps == 0:
            return []
        self._wait()
        return [each for step in range(self._tiling.kept_steps) for each in self._pixels(Index(0), step)]

    def _compute(self, strip: Index, kept: Sequence[ir.Value]) -> Sequence[ir.Value]:
        tiling = self._tiling
        pixels = [list(kept[first : first + QUAD]) for first in range(0, len(kept), QUAD)]
        pixels += [self._pixels(strip, step) for step in range(tiling.kept_steps, tiling.block_steps)]
        for below, of_channels in enumerate(self._sums(pixels)):
            for half, block in enumerate(self._blocks):
                for number in range(2):
                    quad = quad_of([vector.extract(each, [], [half, number]) for each in of_channels])
                    output = self._lane % QUAD * 2 + number
                    row = output // tiling.block_columns + below * tiling.product_rows
                    column = block.column + output % tiling.block_columns
                    finished = self._finished(quad, strip, block.image, row, column)
                    self._leave(finished, strip, block.image, row, column, self._unit * QUAD)
        return [each for of_step in pixels[len(pixels) - tiling.kept_steps :] for each in of_step]

    def _request_taps(self) -> Callable[[], None]:
        if self._tiling.gathers_taps:
            return self._gather_taps()
        self._taps = self._fragments_of_taps()
        return lambda: None

    def _gather_taps(self) -> Callable[[], None]:
        """Brings the workgroup's taps to shared memory, zeros beside them.

        What a warp reads of them for its fragments is a line for each tap, of which it uses 16 bytes.
        """
        units, tiling = self._schedule.units, self._tiling
        columns = tiling.tap_extents[1]
        count = prod(tiling.tap_extents) * units
        gathered = []
        for number, exists in numbers_of_thread(self._thread, self._schedule.threads, count):
            place, unit = number // units, number % units
            tap = self._tap(place // columns, place % columns, unit)
            gathered.append((exists, (place * tiling.slots + unit) * tiling.slot_bytes, tap))

        def leave() -> None:
            for exists, to, tap in gathered:
                when(exists, partial(self._results.store, tap, to))

        return leave

    def _tap(self, row: Index, column: Index, unit: Index) -> ir.Value:
        """A quad of taps, zeros beside the first and behind the last one."""
        tiling = self._tiling
        places = row - (tiling.product_rows - 1), column - (tiling.block_columns - 1)
        exists, within = Condition(True), []
        for place, size in zip(places, self._shape.kernel_size, strict=True):
            exists = exists & place.within(size)
            within.append(place.moved_into(size))
        channel = self._first_channel + unit * QUAD
        weights = quad_or_zero(exists, replace(self._operands, channel=channel).weights(within, 0))
        return self._schedule.factors.narrowed(weights)

    def _fragments_of_taps(self) -> list[list[ir.Value]]:
        """By step and channel."""
        return [self._tap_fragments(step) for step in range(self._tiling.steps)]

    def _tap_fragments(self, step: int) -> list[ir.Value]:
        """Fragments of the Toeplitz matrices of taps, of each channel.

        Of an output of the product, its column, a thread has four positions as `_pixels` loads them: four
        columns apart, so that eight threads read eight neighbours.
        """
        tiling, factors = self._tiling, self._schedule.factors.type
        output, thread = self._lane // QUAD, self._lane % QUAD
        row = Index(tiling.product_rows - 1) - output // tiling.block_columns + step * STEP_ROWS
        column = thread + (tiling.block_columns - 1) - output % tiling.block_columns
        quads = []
        for number in range(QUAD):
            below, beside = divmod(number * QUAD, READ_COLUMNS)
            if not tiling.gathers_taps:
                quads.append(self._tap(row + below, column + beside, self._unit))
                continue
            place = (row + below) * tiling.tap_extents[1] + (column + beside)
            offset = (place * tiling.slots + self._unit) * tiling.slot_bytes
            loaded = self._results.load(words(tiling.slot_bytes), offset)
            quads.append(vector.bitcast(vector_type(QUAD, factors), loaded))
        type_ = ir.VectorType.get([2, 2], factors)
        return [
            vector.from_elements(type_, [lane(quad, channel) for quad in quads]) for channel in range(QUAD)
        ]

    def _block(self, half: int) -> _Block:
        """That of a thread's first or second row of a fragment; of those behind the last one that."""
        tiling = self._tiling
        number = self._warp // self._schedule.units * MATRIX_ROWS + self._lane // QUAD + half * _HALF
        if tiling.blocks % MATRIX_ROWS:
            number = number.minimum(tiling.blocks - 1)
        across = tiling.blocks_across
        return _Block(number // across, number % across * tiling.block_columns)

    def _sums(self, pixels: Sequence[Sequence[ir.Value]]) -> list[list[ir.Value]]:
        """By product of the blocks, and channel, of pixels by step and channel."""
        tiling = self._tiling
        sums = [[mma.no_sums() for _ in range(QUAD)] for _ in range(tiling.products_below)]
        for step, of_channels in enumerate(pixels):
            for channel, fragment in enumerate(of_channels):
                for below in range(tiling.products_below):
                    within = step - below * tiling.steps_below
                    if 0 <= within < tiling.steps:
                        taps = self._taps[within][channel]
                        sums[below][channel] = mma.multiply(fragment, taps, sums[below][channel])
        return sums

    def _pixels(self, strip: Index, step: int) -> list[ir.Value]:
        """Fragments of what the blocks read by a step, of each channel."""
        tiling, factors = self._tiling, self._schedule.factors.type
        quads = []
        for block in self._blocks:
            column = block.image * tiling.image_columns + block.column + self._lane % QUAD
            place = (column * tiling.slots + self._unit) * tiling.slot_bytes
            # The first one of two rows is even, the ring's last one odd.
            row = self._ring_row(strip * tiling.strip_step + step * STEP_ROWS) * tiling.row_bytes + place
            of_block = []
            for number in range(QUAD):
                row_number, distance = divmod(number * QUAD, READ_COLUMNS)
                offset = row + (row_number * tiling.row_bytes + distance * tiling.slots * tiling.slot_bytes)
                loaded = self._ring.load(words(tiling.slot_bytes), offset)
                of_block.append(vector.bitcast(vector_type(QUAD, factors), loaded))
            quads.append(of_block)
        return [
            mma.row_fragment(*(_pixels_of(of_block, channel) for of_block in quads))
            for channel in range(QUAD)
        ]


def _pixels_of(quads: Sequence[ir.Value], channel: int) -> ir.Value:
    """A channel of four pixels."""
    return quad_of([lane(quad, channel) for quad in quads])
