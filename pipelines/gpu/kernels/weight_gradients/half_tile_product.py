"""Products of images and of gradients of half precision on matrix units, which sum over outputs.

An implicit matrix product: what a tap multiplies is gathered from the image, where it lies, and neither
operand is copied before. Both lie in shared memory with their channels side by side, a row for each output,
and are transposed on the way to registers (`ldmatrix.trans`), as their products sum over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import arith, ir, memref, scf, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, select_index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Positions, input_positions, locate_tile, output_positions
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, MATRIX_SUMS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.device.mma import (
    StageMemory,
    column_fragments,
    commit_copies,
    multiply,
    no_sums,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.device.warpgroup import SharedBytes
from iree.winograd.pipelines.gpu.kernels.matrix_products.single_products import PAIR
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, HALF_TYPES, MATRIX_TERMS
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    STAGE_PADDING,
    STAGE_TILES,
    HalfWeightGradientSchedule,
)

from .tile_product import TileProductKernel

_MATRIX = 8
"""Rows and columns of the matrices that fragments are loaded by."""


@dataclass(frozen=True)
class HalfTileProductKernel(TileProductKernel):
    """The products of an image N x H... x C and of gradients N x OH... x K, summed over outputs."""

    schedule: HalfWeightGradientSchedule
    """That of the packing."""

    def emit(self, work: Work, images: GlobalBuffer, gradients: GlobalBuffer, products: GlobalBuffer) -> None:
        """Emits what a workgroup does for its block of the products of a block of outputs."""
        row, column = (
            work.workgroup[0] * self.schedule.block_rows,
            work.workgroup[1] * self.schedule.block_columns,
        )
        first = work.workgroup[2] * self.schedule.tile_block
        gathered = [
            _GatheredTaps(self.packing, images, work.sizes, row, first),
            _GatheredGradients(self.packing, gradients, work.sizes, column, first),
        ]
        pairs = products.viewed_as(MATRIX_SUMS.type, PAIR)
        origin = products.offset([work.workgroup[2], 0, row, column])
        _Workgroup(self.schedule, gathered).emit(pairs, origin, Index.of(products.stride(2)))


class _Gathered:
    """An operand: of each output as many channels as a block has, of which a thread copies some chunks."""

    def __init__(
        self,
        packing: WeightGradientPacking,
        source: GlobalBuffer,
        sizes: Sizes,
        first: Index,
        channels: int,
    ) -> None:
        self.channels = channels
        self._shape = SizedShape.of(packing.shape, sizes)
        self._source = source
        self._first, self._tiles = first, packing.tiles(sizes)
        self._is_whole = packing.are_whole(sizes)
        thread, chunks = thread_id(), channels // COPIED
        self._chunk, self._row = thread % chunks * COPIED, thread // chunks
        self._rows_at_once = packing.schedule.threads // chunks
        self._address = source.address

    @property
    def pitch(self) -> int:
        """Elements of a stage from output to output."""
        return self.channels + STAGE_PADDING

    def copy(self, stage: Index, shared: SharedBytes, to: Index) -> None:
        """Starts to copy this thread's chunks of a stage to an element; zeros for what doesn't exist."""
        for ahead in range(0, STAGE_TILES, self._rows_at_once):
            row = self._row + ahead
            number = self._first + stage * STAGE_TILES + row
            exists = Condition(True) if self._is_whole else number.less_than(self._tiles)
            offset, is_inside = self._place(number if self._is_whole else number.minimum(self._tiles - 1))
            place = to + row * self.pitch + self._chunk
            source = self._address + offset * HALF_BYTES
            shared.copy_chunk(place * HALF_BYTES, source, exists & is_inside)

    def _place(self, tile: Index) -> tuple[Index, Condition]:
        """Where this thread's chunk of an output begins in the source, and whether it exists."""
        raise NotImplementedError

    def _at(self, tile: Index, positions: list[Positions], channel: Index) -> tuple[Index, Condition]:
        image = locate_tile(self._shape, tile).image
        inside = all_of([each.inside() for each in positions])
        return self._source.offset([image, *(each.first for each in positions), channel]), inside


class _GatheredTaps(_Gathered):
    """What the taps of a block's rows multiply: an element of the image for each output."""

    def __init__(
        self,
        packing: WeightGradientPacking,
        images: GlobalBuffer,
        sizes: Sizes,
        row: Index,
        first: Index,
    ) -> None:
        super().__init__(packing, images, sizes, first, packing.schedule.block_rows)
        own = row + self._chunk
        self._offsets, self._is_tap = packing.offsets_of(own)
        if packing.padded_rows == packing.reduction:
            self._is_tap = Condition(True)
        self._channel = own % packing.padded_channels

    def _place(self, tile: Index) -> tuple[Index, Condition]:
        positions = input_positions(self._shape, locate_tile(self._shape, tile), self._offsets)
        offset, exists = self._at(tile, positions, self._channel)
        return offset, exists & self._is_tap


class _GatheredGradients(_Gathered):
    """The gradients of the outputs, of a block's columns."""

    def __init__(
        self,
        packing: WeightGradientPacking,
        gradients: GlobalBuffer,
        sizes: Sizes,
        column: Index,
        first: Index,
    ) -> None:
        super().__init__(packing, gradients, sizes, first, packing.schedule.block_columns)
        self._column = column + self._chunk
        self._exists = Condition(True)
        if packing.padded_filters != packing.group_outputs:
            self._exists = self._column.less_than(packing.group_outputs)
        self._is_in_order = all(each == 1 for each in packing.shape.decomposition.phases)

    def _place(self, tile: Index) -> tuple[Index, Condition]:
        if self._is_in_order:
            # Outputs have their numbers' order.
            return tile * self._source.stride(-2) + self._column, self._exists
        positions = output_positions(self._shape, locate_tile(self._shape, tile))
        offset, exists = self._at(tile, positions, self._column)
        return offset, exists & self._exists


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(self, schedule: HalfWeightGradientSchedule, gathered: list[_Gathered]) -> None:
        self._schedule = schedule
        self._tiles_down, self._tiles_across = schedule.warp_tiles
        self._tiles = self._tiles_down * self._tiles_across
        self._images, self._gradients = gathered
        self._behind = STAGE_TILES * self._images.pitch
        """Elements of a stage before the gradients."""
        self._stages = schedule.tile_block // STAGE_TILES
        self._places = max(2, min(schedule.stages, self._stages))
        half = HALF_TYPES[schedule.multiplied_type].type
        self._shared = StageMemory.allocate(self._places * schedule.stage_elements, "stages", half)
        address = memref.extract_aligned_pointer_as_index(self._shared.memref)
        self._bytes = SharedBytes(Index(address))
        thread = thread_id()
        lane, warp = thread % WARP_THREADS, thread // WARP_THREADS
        across = schedule.block_columns // schedule.warp_columns
        self._warp_row = warp // across * schedule.warp_rows
        self._warp_column = warp % across * schedule.warp_columns
        self._lane_row, self._lane_place = lane // QUAD, lane % QUAD
        self._matrix_row, self._matrix = lane % _MATRIX, lane // _MATRIX

    def emit(self, pairs: ir.Value, origin: Index, stride: Index) -> None:
        """Writes the sums to `pairs` of elements, whose rows are `stride` elements apart."""
        sums = self._sums()
        for i, j in product(range(self._tiles_down), range(self._tiles_across)):
            for half in range(2):
                row = self._warp_row + self._lane_row + (i * MATRIX_ROWS + half * _MATRIX)
                column = self._warp_column + self._lane_place * PAIR + j * _MATRIX
                place = (origin + row * stride + column) // PAIR
                value = vector.extract(sums[i * self._tiles_across + j], [], [half])
                memref.store(value, pairs, [place.value])

    def _sums(self) -> list[ir.Value]:
        """While one stage is multiplied, others are copied."""
        count, size = self._places, self._schedule.stage_elements
        for stage in range(count - 1):
            # There may be fewer stages than places.
            if stage < self._stages:
                self._copy(Index(stage), Index(stage * size))
            group = commit_copies()

        def following(place: Index) -> Index:
            after = place + size
            return select_index(after.less_than(count * size), after, 0)

        initial = [*[no_sums()] * self._tiles, Index(0).value, Index((count - 1) * size).value]
        stages = scf.ForOp(Index(0).value, Index(self._stages).value, Index(1).value, initial)
        with ir.InsertionPoint(stages.body):
            *sums, read, written = stages.inner_iter_args
            wait_for_copies(group, count - 2)
            ahead = Index(stages.induction_variable) + (count - 1)
            when(ahead.less_than(self._stages), lambda: self._copy(ahead, Index(written)))
            commit_copies()
            added = map(arith.addf, sums, self._multiply(Index(read)))
            scf.yield_([*added, following(Index(read)).value, following(Index(written)).value])
        return list(stages.results)[: self._tiles]

    def _copy(self, stage: Index, place: Index) -> None:
        self._images.copy(stage, self._bytes, place)
        self._gradients.copy(stage, self._bytes, place + self._behind)

    def _multiply(self, place: Index) -> list[ir.Value]:
        """The sums of the products of the stage at `place`, which units truncate."""
        sums = [no_sums()] * self._tiles
        for first in range(0, STAGE_TILES, MATRIX_TERMS):
            rows = [self._rows(place, first, i) for i in range(self._tiles_down)]
            columns = [
                each
                for j in range(self._schedule.warp_columns // MATRIX_ROWS)
                for each in column_fragments(self._columns(place, first, j))
            ]
            for i, j in product(range(self._tiles_down), range(self._tiles_across)):
                number = i * self._tiles_across + j
                sums[number] = multiply(rows[i], columns[j], sums[number])
        return sums

    def _rows(self, place: Index, first: int, number: int) -> ir.Value:
        """A fragment of 16 rows at 16 outputs: matrices of eight are row by row, then output by output."""
        output = self._matrix_row + self._matrix // 2 * _MATRIX + first
        row = self._warp_row + self._matrix % 2 * _MATRIX + number * MATRIX_ROWS
        return self._shared.fragment(place + output * self._images.pitch + row, transposed=True)

    def _columns(self, place: Index, first: int, number: int) -> ir.Value:
        """A fragment of 16 columns at 16 outputs: matrices are output by output, then column by column."""
        output = self._matrix_row + self._matrix % 2 * _MATRIX + first
        column = self._warp_column + self._matrix // 2 * _MATRIX + number * MATRIX_ROWS
        at = place + self._behind + output * self._gradients.pitch + column
        return self._shared.fragment(at, transposed=True)
