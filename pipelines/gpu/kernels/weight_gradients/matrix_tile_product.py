"""Products of tiles of images and of gradients on matrix units, which sum over tiles.

    x y = high high' + (high low' + low high'),  three products of TF32 with sums in fp32

A high part is the number rounded to TF32, which has 11 bits and all exponents of fp32, the low part what is
left: neither needs a scale, so that tiles stay as transforms wrote them, and are split in registers. The
small products have sums of their own, and those of a stage's large ones are added in fp32, since matrix
units truncate when they add (Ootomo and Yokota, IJHPCA 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import arith, ir, memref, scf, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index, IndexLike, select_index
from iree.winograd.pipelines.gpu.device.matrix_unit import (
    MATRIX_COLUMNS,
    MATRIX_ROWS,
    MATRIX_SUMS,
    WARP_THREADS,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD, thread_id
from iree.winograd.pipelines.gpu.device.mma import (
    StageMemory,
    commit_copies,
    multiply_single,
    no_sums,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.single_products import PAIR, parts_of_fragment
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    STAGE_PADDING,
    STAGE_TILES,
    MatrixWeightGradientSchedule,
)

from .tile_product import PackedTileProductKernel, Panel

_REDUCTION = 8
"""Of one product on matrix units."""


@dataclass(frozen=True)
class MatrixTileProductKernel(PackedTileProductKernel):
    """The products on matrix units."""

    schedule: MatrixWeightGradientSchedule
    """That of the packing."""

    def _multiply(self, images: Panel, gradients: Panel, products: Panel) -> None:
        _Workgroup(self.schedule, images, gradients, products).emit()


@dataclass(frozen=True)
class _Source:
    """An operand: its memory, where a block begins, how far tiles are apart, and its part of a stage."""

    memref: ir.Value
    origin: Index
    stride: IndexLike
    channels: int
    behind: int
    """Elements of a stage before it."""

    @property
    def pitch(self) -> int:
        """Elements of a stage from tile to tile."""
        return self.channels + STAGE_PADDING


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self, schedule: MatrixWeightGradientSchedule, images: Panel, gradients: Panel, products: Panel
    ) -> None:
        self._schedule = schedule
        self._tiles_down, self._tiles_across = schedule.warp_tiles
        self._tiles = self._tiles_down * self._tiles_across
        single = MATRIX_SUMS.type
        self._images, self._gradients = (
            _Source(panel.buffer.viewed_as(single), panel.origin, panel.stride, size, behind)
            for panel, size, behind in (
                (images, schedule.block_rows, 0),
                (gradients, schedule.block_columns, STAGE_TILES * (schedule.block_rows + STAGE_PADDING)),
            )
        )
        self._products = products.buffer.viewed_as(single, PAIR)
        self._result, self._result_stride = products.origin, products.stride
        self._stages = schedule.tile_block // STAGE_TILES
        self._places = max(2, min(schedule.stages, self._stages))
        count = self._places * schedule.stage_elements
        self._shared = StageMemory.allocate(count, "stages", single)
        self._thread = thread_id()
        lane, warp = self._thread % WARP_THREADS, self._thread // WARP_THREADS
        across = schedule.block_columns // schedule.warp_columns
        self._warp_row = warp // across * schedule.warp_rows
        self._warp_column = warp % across * schedule.warp_columns
        self._lane_row, self._lane_place = lane // QUAD, lane % QUAD

    def emit(self) -> None:
        high, low = self._sums()
        for i, j in product(range(self._tiles_down), range(self._tiles_across)):
            number = i * self._tiles_across + j
            sums = arith.addf(high[number], low[number])
            for half in range(2):
                row = self._warp_row + self._lane_row + (i * MATRIX_ROWS + half * (MATRIX_ROWS // 2))
                column = self._warp_column + self._lane_place * PAIR + j * MATRIX_COLUMNS
                place = (self._result + row * self._result_stride + column) // PAIR
                memref.store(vector.extract(sums, [], [half]), self._products, [place.value])

    # The main loop

    def _sums(self) -> tuple[list[ir.Value], list[ir.Value]]:
        """While one stage is multiplied, others are copied; gives sums of high parts, and the small ones."""
        count, size = self._places, self._schedule.stage_elements
        for stage in range(count - 1):
            self._copy(Index(stage), Index(stage * size))
            group = commit_copies()

        def following(place: Index) -> Index:
            after = place + size
            return select_index(after.less_than(count * size), after, 0)

        sums = [no_sums()] * (2 * self._tiles)
        initial = [*sums, Index(0).value, Index((count - 1) * size).value]
        stages = scf.ForOp(Index(0).value, Index(self._stages).value, Index(1).value, initial)
        with ir.InsertionPoint(stages.body):
            *current, read, written = stages.inner_iter_args
            wait_for_copies(group, count - 2)
            ahead = Index(stages.induction_variable) + (count - 1)
            when(ahead.less_than(self._stages), lambda: self._copy(ahead, Index(written)))
            commit_copies()
            current = self._multiply(Index(read), current)
            scf.yield_([*current, following(Index(read)).value, following(Index(written)).value])
        results = list(stages.results)
        return results[: self._tiles], results[self._tiles : 2 * self._tiles]

    def _copy(self, stage: Index, place: Index) -> None:
        """Starts to copy this thread's share of a stage of both operands."""
        for source in (self._images, self._gradients):
            quads = source.channels // QUAD
            for first in range(0, STAGE_TILES * quads, self._schedule.threads):
                number = self._thread + first
                tile, channel = number // quads, number % quads * QUAD
                self._shared.copy(
                    place + tile * source.pitch + channel + source.behind,
                    source.memref,
                    source.origin + (stage * STAGE_TILES + tile) * source.stride + channel,
                )

    def _multiply(self, place: Index, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of the stage at `place` to the sums: of high parts, then the small ones."""
        large, small = [no_sums()] * self._tiles, list(sums[self._tiles :])
        for first in range(0, STAGE_TILES, _REDUCTION):
            rows = [parts_of_fragment(self._rows(place, first, i), 2) for i in range(self._tiles_down)]
            columns = [
                parts_of_fragment(self._columns(place, first, j), 2) for j in range(self._tiles_across)
            ]
            for i, j in product(range(self._tiles_down), range(self._tiles_across)):
                (high_row, low_row), (high_column, low_column) = rows[i], columns[j]
                number = i * self._tiles_across + j
                large[number] = multiply_single(high_row, high_column, large[number])
                small[number] = multiply_single(high_row, low_column, small[number])
                small[number] = multiply_single(low_row, high_column, small[number])
        added = [arith.addf(sum_, block) for sum_, block in zip(sums[: self._tiles], large, strict=True)]
        return [*added, *small]

    def _rows(self, place: Index, first: int, number: int) -> list[ir.Value]:
        """This thread's elements of 16 rows: two of these at one tile, then at one four tiles behind."""
        row = self._warp_row + self._lane_row + number * MATRIX_ROWS
        return [
            self._load(self._images, place, first + tile, row + half)
            for tile in (0, _REDUCTION // 2)
            for half in (0, MATRIX_ROWS // 2)
        ]

    def _columns(self, place: Index, first: int, number: int) -> list[ir.Value]:
        """This thread's elements of eight columns: one at two tiles."""
        column = self._warp_column + self._lane_row + number * MATRIX_COLUMNS
        return [self._load(self._gradients, place, first + tile, column) for tile in (0, _REDUCTION // 2)]

    def _load(self, source: _Source, place: Index, tile: int, channel: Index) -> ir.Value:
        own = self._lane_place * source.pitch + channel
        return self._shared.load(place + own + (tile * source.pitch + source.behind))
