"""Results of warpgroups that are left as the next product's left operand: split, with a scale of each pixel.

The kernel that splits operands reads a pixel to find its scale. A workgroup has only some columns of one, but
knows how large they can be: sums are at most the largest number of the pixel that is multiplied, which its
scale tells, times the largest sum of magnitudes of a filter (`problems/split_result.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, lane, quad_of
from iree.winograd.pipelines.gpu.device.predicated_store import store_where
from iree.winograd.pipelines.gpu.packing.split import MAX_EXPONENT, SPLIT, SplitPacking, SplitRows
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES
from iree.winograd.pipelines.problems.output_bound import OutputBound
from iree.winograd.pipelines.problems.split_result import SplitResult

from .products import Block, BlockedProductKernel, BlockOutputs, Results, finished_in_line
from .splitting import integer_type, parts_of, scales_for


@dataclass(frozen=True)
class SplitResultKernel(BlockedProductKernel):
    """A convolution of output tile 1, whose finished outputs are split for the next product."""

    block_rows: int
    """Of the next product's left operand."""

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        bound: GlobalBuffer,
        packed: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits it: from the packed `image`, which has scales, to `packed` rows of finished outputs.

        Two numbers of `bound` say how large these may be: `bound_of` gives them.
        """
        packing = self.product.packing
        assert isinstance(packing, SplitPacking), "a product of split operands has one"
        if packing.neighbouring_columns > QUAD:
            epilogue = by_channels(epilogue, packing.neighbouring_columns)
        tiles, layout = packing.tiles(work.sizes), SplitRows.of(self.block_rows, packing)
        sized, epilogue = finished_in_line(packing, work.sizes, packed, epilogue, of_known_sizes=True)

        def storing(block: Block) -> Results:
            return SplitOutputs(packing, packed, epilogue, block, tiles, sized, layout, bound)

        self.product.emit(self._blocks(work), work.sizes, image, filters, storing)


def bound_of(result: SplitResult | OutputBound) -> npt.NDArray[np.float32]:
    """What the scale of a pixel is multiplied by, and what is added, for a bound of its finished outputs."""
    return np.array([2.0**MAX_EXPONENT * result.factor, result.addend], np.float32)


@dataclass(frozen=True)
class SplitOutputs(BlockOutputs):
    """Those of a block, of pixels in rows of the next product's operand."""

    layout: SplitRows
    bound: GlobalBuffer

    @property
    def row_bytes(self) -> None:
        return None

    @property
    def stored_bytes(self) -> None:
        return None

    def finished(self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        del row, column
        return self.epilogue.applied(value, loaded)

    def split_row(self, row: Index, scale: ir.Value | None, column: Index) -> SplitRow:
        """A row of the block, whose operand has the quad `scale`, for a thread that begins at a column.

        The thread that has the first column of a pixel stores its scale.
        """
        assert scale is not None, "its left operand is split"
        layout, (factor, addend) = self.layout, (self.bound.load_scalar(Index(i)) for i in range(2))
        largest = arith.addf(arith.mulf(lane(scale, 0), factor), addend)
        own_scale, inverse = scales_for(arith.bitcast(integer_type(), largest), growth=0)
        exists, number = self._exists(row), self._number(row)
        block, own = number // layout.block_rows, number % layout.block_rows
        address, first = self.output.address, self.block.first_column
        has_first = exists & (first + column).less_than(1)
        store_where(quad_of([own_scale]), address + layout.scale(block, own) * SPLIT.bytes, has_first)
        begins_stage = self.packing.schedule.block_columns % layout.stage == 0
        ahead = Index(0) if begins_stage else first % layout.stage
        line = address + layout.line(block, first // layout.stage, own) * HALF_BYTES
        return SplitRow(self, exists, own, line, ahead, column, inverse)

    def exists_beside(self, column: Index) -> Condition:
        """Whether a column of the block is an output."""
        outputs = self.packing.group_outputs
        if outputs == self.packing.padded_filters:
            return Condition(True)
        return (self.block.first_column + column).less_than(outputs)


@dataclass(frozen=True)
class SplitRow:
    """A row of a block where it belongs in an operand, as a thread stores to it."""

    outputs: SplitOutputs
    exists: Condition
    row: Index
    """Of a block of the operand."""
    line: Index
    """The address of the row in the stage of the block's first column."""
    ahead: Index
    """Columns of the block of sums that this stage has before its first one."""
    column: Index
    """The thread's first one of the block, one of the first step."""
    inverse: ir.Value
    """By what numbers are multiplied before they are split."""
    _addresses: dict[int, tuple[Index, Index]] = field(default_factory=dict)

    def store(self, distance: int, finished: ir.Value) -> None:
        """Writes the neighbours that are so many columns, whole steps, behind the thread's first one."""
        layout, width = self.outputs.layout, ir.VectorType(finished.type).shape[0]
        parts = parts_of(arith.mulf(finished, broadcast(self.inverse, width)), layout.schedule)
        exists = self.exists & self.outputs.exists_beside(self.column + distance)
        place = self.ahead + distance
        further = place // layout.stage * layout.block_rows * STAGE_ROW_BYTES
        for part, address in zip(parts, self._of_parts(place % layout.stage), strict=True):
            store_where(part, address + further, exists)

    def _of_parts(self, begin: Index) -> tuple[Index, Index]:
        """The addresses of high and low parts in the first stage, of the step that begins at a position."""

        def found() -> tuple[Index, Index]:
            layout = self.outputs.layout
            high = layout.place_in_line(self.row, begin + self.column)
            low = high ^ layout.low_part
            return self.line + high * HALF_BYTES, self.line + low * HALF_BYTES

        if begin.known is None:
            return found()
        # Once for all that is stored there, of whichever stages: places take several instructions.
        if begin.known not in self._addresses:
            self._addresses[begin.known] = found()
        return self._addresses[begin.known]
