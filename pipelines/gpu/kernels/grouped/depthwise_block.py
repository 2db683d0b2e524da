"""The depthwise kernel whose threads compute blocks of outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.gpu.kernels.direct.direct_block import DirectBlockKernel
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import ColumnOperands
from iree.winograd.pipelines.gpu.kernels.direct.output_blocks import OutputBlock
from iree.winograd.pipelines.gpu.schedules.columns import DepthwiseBlockSchedule, element_of, has_few_taps
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise


@dataclass(frozen=True)
class DepthwiseBlockKernel(DirectBlockKernel):
    """output[n, h, w, c] = epilogue(sum over taps of image[n, i, j, c] * filters[tap, c])."""

    schedule: DepthwiseBlockSchedule

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_depthwise(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution")

    def sums(self, block: OutputBlock, operands: ColumnOperands, computed: ir.Type) -> list[list[ir.Value]]:
        rows, columns = self.schedule.rows, self.schedule.columns
        decomposition = self.shape.decomposition
        sums = [[splat(0.0, self.schedule.channels, computed)] * columns for _ in range(rows)]
        elements: dict[int, Mapping[int, ir.Value]] = {}
        weights: dict[tuple[int, int], ir.Value] = {}
        for row, tap_row in self._order:
            element = element_of(decomposition, row, tap_row, 0)
            if element not in elements:
                elements[element] = self.elements(block, element, operands.image, operands.channel)
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
