"""How a thread finishes its sums of the first of two pointwise layers: as rows that the second multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import PAIR, QUAD, GlobalBuffer, lane, quad_of, thread_id
from iree.winograd.pipelines.gpu.device.warpgroup import (
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    settled_pairs,
)
from iree.winograd.pipelines.gpu.packing.pointwise_pair import PointwisePairPacking

from .matrix_sums import MatrixSums
from .products import Block
from .splitting import integer_type, parts_of, scales_for

ROWS = 2
"""Of a thread."""
_STEP_SUMS = WARPGROUP_ROWS * REDUCTION // WARPGROUP_THREADS
"""A thread's, of 16 columns: a quad of each of its rows, in pairs by turns."""


@dataclass(frozen=True)
class Between:
    """What is between the layers, of a thread's rows: with `epilogue`, and split by the scales of a `bound`.

    As in `split_results.py` that is of the largest number of a pixel, which the scale of the operand tells.
    """

    packing: PointwisePairPacking
    epilogue: VectorEpilogue
    filters: GlobalBuffer
    """The first layer's."""
    bound: GlobalBuffer | None
    operand_scales: Sequence[ir.Value | None]
    """Of rows, as quads of equal elements; None where numbers aren't split."""

    @cached_property
    def _scales_and_inverses(self) -> list[tuple[ir.Value, ir.Value]]:
        if self.bound is None:
            return []
        factor, addend = (self.bound.load_scalar(Index(i)) for i in range(2))
        found = []
        for each in self.operand_scales:
            assert each is not None, "pixels are split"
            largest = arith.addf(arith.mulf(lane(each, 0), factor), addend)
            found.append(scales_for(arith.bitcast(integer_type(), largest), growth=0))
        return found

    def scales(self, width: int) -> list[ir.Value | None]:
        """Those of rows, as vectors of so many equal elements."""
        if self.bound is None:
            return [None] * len(self.operand_scales)
        return [broadcast(scale, width) for scale, _ in self._scales_and_inverses]

    def begin(self, block: Block, chunk: Index) -> Finishing:
        """Begins to load what a chunk's sums are finished with."""
        first = chunk * self.packing.schedule.chunk
        sums = MatrixSums(
            self.packing.widening, Block(block.row_block, first, Index(0), Index(0)), self.filters
        )
        nowhere = (Index(0),) * len(self.packing.shape.widening.output_size)
        own = thread_id() % WARP_THREADS % QUAD * QUAD
        loaded, scales = [], []
        for column in range(0, self.packing.schedule.chunk, MATRIX_ROWS):
            scales.append(sums.column_scale(own + column))
            loaded.append(self.epilogue.load(Index(0), nowhere, first + own + column, QUAD))
        return Finishing(self, sums, scales, loaded)

    def reduced(self, finished: ir.Value, row: int) -> ir.Value:
        """A quad of a row within the range of what is multiplied."""
        if self.bound is None:
            return finished
        return arith.mulf(finished, broadcast(self._scales_and_inverses[row][1], QUAD))


@dataclass(frozen=True)
class Finishing:
    """That of the sums of a chunk: by scales of columns, and what the epilogue reads, of each 16 of them."""

    between: Between
    sums: MatrixSums
    scales: Sequence[ir.Value | None]
    loaded: Sequence[Sequence[ir.Value]]

    def finished(self, sums: Sequence[Sequence[ir.Value]]) -> list[list[ir.Value]]:
        """The numbers between the layers, by parts in pairs as threads hold the rows of products."""
        between, schedule = self.between, self.between.packing.widening.schedule
        pairs: list[list[ir.Value]] = [[] for _ in range(schedule.parts)]
        for step, (scale, loaded) in enumerate(zip(self.scales, self.loaded, strict=True)):
            words = []
            for row in range(ROWS):
                large, *small = (_quad_of_step(each, step, row) for each in sums)
                joined = self.sums.joined(large, small[0] if small else None)
                quad = self.sums.restored(joined, between.operand_scales[row], scale)
                finished = between.reduced(between.epilogue.applied(quad, loaded), row)
                words.append([_words(part) for part in parts_of(finished, schedule)])
            for part, of_part in enumerate(pairs):
                of_part += [of_row[part][i] for i in range(PAIR) for of_row in words]
        return [settled_pairs(each) for each in pairs]


def _quad_of_step(sums: Sequence[ir.Value], step: int, row: int) -> ir.Value:
    """A thread's sums of 16 columns, in one of its rows."""
    of_step = sums[step * _STEP_SUMS : (step + 1) * _STEP_SUMS]
    return quad_of([of_step[i] for i in range(_STEP_SUMS) if i // PAIR % ROWS == row])


def _words(halves: ir.Value) -> list[ir.Value]:
    """A quad of half precision as pairs of a register each."""
    words = vector.bitcast(ir.VectorType.get([PAIR], ir.IntegerType.get_signless(32)), halves)
    return [lane(words, i) for i in range(PAIR)]
