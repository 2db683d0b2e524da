"""The depthwise kernel whose threads compute blocks of outputs: what these share of an image is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.instruction_order import computed_here
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad, thread_id
from iree.winograd.pipelines.gpu.device.predicated_load import load_where
from iree.winograd.pipelines.gpu.schedules.columns import (
    DepthwiseBlockSchedule,
    element_of,
    elements_read,
    has_few_taps,
)
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise

from .direct import DirectKernel
from .direct_columns import ColumnOperands
from .output_blocks import OutputBlock, OutputBlocks


@dataclass(frozen=True)
class DepthwiseBlockKernel(DirectKernel):
    """output[n, h, w, c] = epilogue(sum over taps of image[n, i, j, c] * filters[tap, c]).

    All of it is straight code, without a branch before the outputs are stored: assemblers request what is
    multiplied as early as there are registers for it.
    """

    schedule: DepthwiseBlockSchedule
    takes_ptx: bool = False
    """Whether the code may have instructions of NVIDIA's GPUs: loads where a condition holds."""
    float_register: str | None = None
    """As `GpuTarget` has it."""

    def __post_init__(self) -> None:
        if not is_depthwise(self.shape) or len(self.shape.kernel_size) != 2:
            raise ValueError(f"{self.shape} is no direct depthwise convolution of two dimensions")

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """All quads of all blocks, one after the other: no thread of a workgroup but the last is idle."""
        return (ceildiv(self._blocks(sizes).count(sizes.batch) * self._quads, self.schedule.threads),)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        blocks = self._blocks(work.sizes)
        count = blocks.count(work.sizes.batch)
        thread = work.workgroup[0] * self.schedule.threads + thread_id()
        number = thread // self._quads
        # Those behind the last block compute it, too, and don't store it.
        block = blocks.locate(number.minimum(count - 1))
        operands = ColumnOperands(self.shape, self.layout, image, filters, thread % self._quads * QUAD)
        sums = self._sums(block, operands, output.computed)
        if self.float_register is not None:
            sums = [computed_here(row, self.float_register) for row in sums]
        when(number.less_than(count), lambda: self._store(sums, block, operands.channel, output, epilogue))

    def _sums(self, block: OutputBlock, operands: ColumnOperands, computed: ir.Type) -> list[list[ir.Value]]:
        """Of all rows and columns of the block."""
        rows, columns = self.schedule.rows, self.schedule.columns
        decomposition = self.shape.decomposition
        sums = [[constant_quad(0.0, computed)] * columns for _ in range(rows)]
        elements: dict[int, Mapping[int, ir.Value]] = {}
        weights: dict[tuple[int, int], ir.Value] = {}
        for row, tap_row in self._order:
            element = element_of(decomposition, row, tap_row, 0)
            if element not in elements:
                elements[element] = self._elements(block, element, operands)
            for tap in product([tap_row], range(self.shape.kernel_size[1])):
                if tap not in weights:
                    weights[tap] = operands.weights(tap, 0)
                for column in range(columns):
                    value = elements[element][element_of(decomposition, column, tap[1])]
                    sums[row][column] = vector.fma(value, weights[tap], sums[row][column])
        return sums

    @property
    def _order(self) -> Sequence[tuple[int, int]]:
        """Rows of outputs with rows of taps, in which they are multiplied: each row of the image once, where
        there are registers for all taps meanwhile, else each row of taps."""
        decomposition = self.shape.decomposition
        taps = range(decomposition.kernel_size[0])
        pairs = [(row, tap) for tap, row in product(taps, range(self.schedule.rows))]
        if not has_few_taps(decomposition):
            return pairs
        return sorted(pairs, key=lambda pair: (element_of(decomposition, pair[0], pair[1], 0), pair[1]))

    def _elements(self, block: OutputBlock, row: int, operands: ColumnOperands) -> Mapping[int, ir.Value]:
        """What the block reads of one of its rows, zeros where the image has no such pixel."""
        image, (rows, columns) = operands.image, block.positions
        row_place, row_exists = rows.clamped(Index(row))
        values = {}
        for column in elements_read(self.shape.decomposition, self.schedule.columns):
            place, column_exists = columns.clamped(Index(column))
            exists = row_exists & column_exists
            if self.takes_ptx and image.by_quads:
                first = image.offset([block.image, rows.first, columns.first, operands.channel])
                offset = first + image.distance([0, row, column, 0])
                values[column] = load_where(image, offset, exists)
            else:
                offset = image.offset([block.image, row_place, place, operands.channel])
                values[column] = image.load(offset, QUAD, exists)
        return values

    def _store(
        self,
        sums: Sequence[Sequence[ir.Value]],
        block: OutputBlock,
        channel: Index,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Finishes and writes a quad of channels of those of the block's outputs that exist."""
        for row, column in product(range(self.schedule.rows), range(self.schedule.columns)):
            position = block.output(row, column)

            def store(sum_: ir.Value = sums[row][column], position: tuple[Index, ...] = position) -> None:
                finished = epilogue.emit(sum_, block.image, position, channel)
                offset = output.offset([block.image, *position, channel])
                remaining = Index(self.shape.output_channels) - channel
                output.store_first(finished, offset, remaining, Condition(True))

            when(block.exists(row, column), store)

    @property
    def _quads(self) -> int:
        """Of the channels."""
        return ceil_div(self.shape.output_channels, QUAD)

    def _blocks(self, sizes: Sizes) -> OutputBlocks:
        """All outputs."""
        return OutputBlocks(SizedShape.of(self.shape, sizes), self.schedule.rows, self.schedule.columns)
