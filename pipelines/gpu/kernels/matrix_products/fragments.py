"""What warps multiply at once, by the kind of matrix units: fragments of stages, and sums of 16 x 16."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from iree.winograd.dialect.bindings import arith, ir, memref, vector
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.gpu.device import amd_matrix, cooperative_matrix, mma
from iree.winograd.pipelines.gpu.device.matrix_unit import (
    COOPERATIVE,
    COPIED,
    MATRIX_FACTORS,
    MATRIX_ROWS,
    MATRIX_SUMS,
    MFMA,
    MMA,
    WMMA,
    WMMA_RDNA4,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD, barrier, quad_type
from iree.winograd.pipelines.gpu.schedules.split import MfmaSchedule, WarpSchedule

from .stage_copies import CopiesBeside, CopiesThroughRegisters, StageCopies

Sums = list[ir.Value]
"""What a thread holds of 16 x 16 sums."""


class Fragments(ABC):
    """A warp's fragments of the stages that `copies` brings, and its sums.

    Rows and columns of a block that a thread has are those of its sums as `quads` gives them.
    """

    reduction = MATRIX_ROWS
    """Positions along the reduction dimension of a fragment."""

    def __init__(self, schedule: WarpSchedule, copies: StageCopies, thread: Index) -> None:
        self._schedule, self._copies = schedule, copies
        threads = schedule.unit.threads
        across = schedule.block_columns // schedule.warp_columns
        self._lane, self._warp = thread % threads, thread // threads
        self._warp_row = self._warp // across * schedule.warp_rows
        self._warp_column = self._warp % across * schedule.warp_columns

    @abstractmethod
    def rows(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        """Of 16 rows of the left operand, in the stage at `place`, the fragment of a step and a part."""

    @abstractmethod
    def columns(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        """The same of the right operand."""

    @abstractmethod
    def no_sums(self) -> Sums:
        """Zeros."""

    @abstractmethod
    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        """Adds the product of fragments to sums."""

    def add(self, left: Sums, right: Sums) -> Sums:
        """Adds sums, rounded to nearest."""
        return [arith.addf(one, other) for one, other in zip(left, right, strict=True)]

    @abstractmethod
    def thread_rows(self, tile: int) -> list[Index]:
        """The thread's rows in the block, of a row of 16 x 16 sums."""

    @property
    @abstractmethod
    def thread_columns(self) -> list[Index]:
        """The first columns in the block of the thread's quads of a row."""

    @abstractmethod
    def quads(self, across: Sequence[Sums]) -> list[list[ir.Value]]:
        """Of a row of 16 x 16 sums the thread's, by its rows and columns."""

    @property
    def _column_tiles(self) -> range:
        return range(self._schedule.warp_columns // MATRIX_ROWS)


class MmaFragments(Fragments):
    """Those of NVIDIA's matrix units, which threads load as matrices of 8 x 8 numbers."""

    def __init__(self, schedule: WarpSchedule, copies: StageCopies, thread: Index) -> None:
        super().__init__(schedule, copies, thread)
        square = MATRIX_ROWS // 2
        row, matrix = self._lane % square, self._lane // square
        left_row = self._warp_row + matrix % 2 * square + row
        right_row = self._warp_column + matrix // 2 * square + row
        self._memory = mma.StageMemory(copies.memory)
        self._left_places = self._places(left_row, matrix // 2)
        behind = schedule.block_rows * copies.row_size
        self._right_places = [
            [place + behind for place in places] for places in self._places(right_row, matrix % 2)
        ]

    def _places(self, row: Index, chunk: Index) -> list[list[Index]]:
        """Where a thread's row of matrices lies in a stage: by part and step."""
        unit, schedule = self._schedule.unit, self._schedule
        steps = range(schedule.block_reduction // MATRIX_ROWS)
        high = [
            row * unit.stage_row + ((chunk + 2 * step) ^ (row % unit.row_chunks)) * COPIED for step in steps
        ]
        return [[place ^ (part * unit.stage_row // 2) for place in high] for part in range(schedule.parts)]

    def rows(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        at = self._left_places[part][step] + place
        return [self._memory.fragment(at + tile * (MATRIX_ROWS * self._copies.row_size))]

    def columns(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        at = self._right_places[part][step] + place
        return mma.column_fragments(self._memory.fragment(at + tile * (MATRIX_ROWS * self._copies.row_size)))

    def no_sums(self) -> Sums:
        return [mma.no_sums()] * 2

    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        (row,) = rows
        return [mma.multiply(row, half, sum_) for half, sum_ in zip(columns, sums, strict=True)]

    def thread_rows(self, tile: int) -> list[Index]:
        first = self._warp_row + self._lane // QUAD + tile * MATRIX_ROWS
        return [first, first + MATRIX_ROWS // 2]

    @property
    def thread_columns(self) -> list[Index]:
        first = self._warp_column + self._lane % QUAD * QUAD
        return [first + tile * MATRIX_ROWS for tile in self._column_tiles]

    def quads(self, across: Sequence[Sums]) -> list[list[ir.Value]]:
        return [list(row) for row in zip(*map(mma.sum_quads, across), strict=True)]


class CooperativeFragments(Fragments):
    """Cooperative matrices, whose sums threads learn of through shared memory."""

    def rows(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        at = self._place(place, self._warp_row + tile * MATRIX_ROWS, step, part)
        return [cooperative_matrix.load_rows(self._copies.memory, at, self._copies.row_size)]

    def columns(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        row = self._warp_column + (self._schedule.block_rows + tile * MATRIX_ROWS)
        at = self._place(place, row, step, part)
        return [cooperative_matrix.load_columns(self._copies.memory, at, self._copies.row_size)]

    def _place(self, place: Index, row: Index, step: int, part: int) -> Index:
        chunk = part * self._schedule.unit.row_chunks // 2 + step * (MATRIX_ROWS // COPIED)
        return place + row * self._copies.row_size + chunk

    def no_sums(self) -> Sums:
        return [cooperative_matrix.no_sums()]

    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        (row,), (column,), (sum_,) = rows, columns, sums
        return [cooperative_matrix.multiply(row, column, sum_)]

    def add(self, left: Sums, right: Sums) -> Sums:
        return [cooperative_matrix.add(one, other) for one, other in zip(left, right, strict=True)]

    def thread_rows(self, tile: int) -> list[Index]:
        first = self._warp_row + self._lane // self._row_quads + tile * MATRIX_ROWS
        return [first + row for row in range(0, MATRIX_ROWS, self._together)]

    @property
    def thread_columns(self) -> list[Index]:
        return [self._warp_column + self._lane % self._row_quads * QUAD]

    def quads(self, across: Sequence[Sums]) -> list[list[ir.Value]]:
        # A quad more from row to row: stores of neighbouring rows go to other banks.
        row_size = self._row_quads + 1
        first = self._warp * (MATRIX_ROWS * row_size)
        barrier()
        for tile, (sums,) in enumerate(across):
            at = first + tile * (MATRIX_ROWS // QUAD)
            cooperative_matrix.store_sums(sums, self._copies.memory, at, row_size)
        barrier()
        own = first + self._lane // self._row_quads * row_size + self._lane % self._row_quads
        return [
            [
                arith.bitcast(
                    quad_type(MATRIX_SUMS.type),
                    memref.load(self._copies.memory, [(own + row * row_size).value]),
                )
            ]
            for row in range(0, MATRIX_ROWS, self._together)
        ]

    @property
    def _row_quads(self) -> int:
        """Of a row of the warp's sums."""
        return self._schedule.warp_columns // QUAD

    @property
    def _together(self) -> int:
        """Rows that a warp reads at once."""
        return self._schedule.unit.threads // self._row_quads


class AmdFragments(Fragments, ABC):
    """Those of AMD's matrix units: the rows of operands that a thread holds are loaded by quads.

    The right operand counts as the rows of a product, the left one as its columns: a thread's sums are then
    neighbours in a row.
    """

    thread_chunks: int
    """Of a row, neighbouring 16 bytes that a thread holds of a fragment."""

    def rows(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        return self._chunks(place, self._warp_row + tile * MATRIX_ROWS, step, part)

    def columns(self, place: Index, tile: int, step: int, part: int) -> list[ir.Value]:
        row = self._warp_column + (self._schedule.block_rows + tile * MATRIX_ROWS)
        return self._chunks(place, row, step, part)

    def _chunks(self, place: Index, row: Index, step: int, part: int) -> list[ir.Value]:
        """The thread's chunks of 16 rows."""
        first = part * (self._schedule.unit.row_chunks // 2) + step * (self.reduction // COPIED)
        row = row + self._lane % MATRIX_ROWS
        start = place + row * self._copies.row_size
        halves = vector_type(COPIED, MATRIX_FACTORS.type)
        places = (start + self.placed(first + chunk) for chunk in range(self.thread_chunks))
        return [vector.bitcast(halves, memref.load(self._copies.memory, [at.value])) for at in places]

    def placed(self, chunk: int) -> Index:
        """Where the thread's chunk behind `chunk` others lies in a row."""
        unit = self._schedule.unit
        if not unit.swizzles:
            return self._first_chunk + chunk
        # Rows of blocks and warps begin at multiples of 16, chunks of fragments at multiples of what the
        # first one is below.
        return (self._first_chunk ^ (self._lane % unit.row_chunks)) ^ chunk

    @property
    @abstractmethod
    def _first_chunk(self) -> Index:
        """The first of the thread's chunks of a fragment."""

    def thread_rows(self, tile: int) -> list[Index]:
        return [self._warp_row + self._lane % MATRIX_ROWS + tile * MATRIX_ROWS]

    def quads(self, across: Sequence[Sums]) -> list[list[ir.Value]]:
        quads = quad_type(MATRIX_SUMS.type)
        return [
            [
                vector.extract_strided_slice(quads, sums, [first], [QUAD], [1])
                for (sums,) in across
                for first in range(0, ir.VectorType(sums.type).shape[0], QUAD)
            ]
        ]


class MfmaFragments(AmdFragments):
    """Those of CDNA. Of 32 positions of a row a thread holds eight neighbours.

    They are for one product on CDNA 4, elsewhere four each for two.
    """

    reduction = 2 * MATRIX_ROWS
    thread_chunks = 1

    @property
    def _first_chunk(self) -> Index:
        return self._lane // MATRIX_ROWS

    def no_sums(self) -> Sums:
        return [amd_matrix.no_sums(amd_matrix.MFMA_SUMS)]

    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        (row,), (column,), (total,) = rows, columns, sums
        assert isinstance(self._schedule, MfmaSchedule)
        held = self._schedule.terms // amd_matrix.MFMA_GROUPS
        for first in range(0, COPIED, held):
            left, right = (_neighbours(each, first, held) for each in (column, row))
            total = amd_matrix.multiply_mfma(left, right, total)
        return [total]

    @property
    def thread_columns(self) -> list[Index]:
        first = self._warp_column + self._lane // MATRIX_ROWS * QUAD
        return [first + tile * MATRIX_ROWS for tile in self._column_tiles]


class WmmaFragments(AmdFragments):
    """Those of RDNA 3. A thread holds all 16 positions of a row."""

    thread_chunks = amd_matrix.WMMA_TERMS // COPIED

    @property
    def _first_chunk(self) -> Index:
        return Index(0)

    def no_sums(self) -> Sums:
        return [amd_matrix.no_sums(amd_matrix.WMMA_SUMS)]

    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        (total,) = sums
        return [amd_matrix.multiply_wmma(_joined(columns), _joined(rows), total)]

    @property
    def thread_columns(self) -> list[Index]:
        first = self._warp_column + self._lane // MATRIX_ROWS * amd_matrix.WMMA_SUMS
        return [
            first + (tile * MATRIX_ROWS + quad)
            for tile in self._column_tiles
            for quad in range(0, amd_matrix.WMMA_SUMS, QUAD)
        ]


class WmmaRdna4Fragments(WmmaFragments):
    """Those of RDNA 4. Of the 16 positions of a row one half of a warp holds eight, the other half eight."""

    thread_chunks = amd_matrix.WMMA_RDNA4_TERMS // COPIED

    @property
    def _first_chunk(self) -> Index:
        return self._lane // MATRIX_ROWS

    def multiply(self, rows: list[ir.Value], columns: list[ir.Value], sums: Sums) -> Sums:
        (row,), (column,), (total,) = rows, columns, sums
        return [amd_matrix.multiply_wmma(column, row, total)]


def _neighbours(chunk: ir.Value, first: int, count: int) -> ir.Value:
    return vector.extract_strided_slice(vector_type(count, MATRIX_FACTORS.type), chunk, [first], [count], [1])


def _joined(chunks: list[ir.Value]) -> ir.Value:
    """Two chunks, one behind the other."""
    type_ = vector_type(len(chunks) * COPIED, MATRIX_FACTORS.type)
    return vector.shuffle(*chunks, list(range(type_.shape[0])), results=[type_])


ENGINES: Mapping[str, tuple[type[StageCopies], type[Fragments]]] = {
    MMA.name: (CopiesBeside, MmaFragments),
    COOPERATIVE.name: (CopiesThroughRegisters, CooperativeFragments),
    MFMA.name: (CopiesThroughRegisters, MfmaFragments),
    WMMA.name: (CopiesThroughRegisters, WmmaFragments),
    WMMA_RDNA4.name: (CopiesThroughRegisters, WmmaRdna4Fragments),
}
"""By the names of matrix units."""
