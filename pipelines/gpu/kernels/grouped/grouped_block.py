"""The kernel of groups of few channels whose threads compute blocks of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.gpu.device.memory import QUAD, constant_quad, lane
from iree.winograd.pipelines.gpu.kernels.direct.direct_block import DirectBlockKernel
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import ColumnOperands
from iree.winograd.pipelines.gpu.kernels.direct.output_blocks import OutputBlock
from iree.winograd.pipelines.gpu.schedules.columns import GroupedBlockSchedule, element_of, elements_read
from iree.winograd.pipelines.gpu.schedules.fit import has_groups_of_quads


@dataclass(frozen=True)
class GroupedBlockKernel(DirectBlockKernel):
    """output[n, h, w, k] = epilogue(sum over taps and the quads of channels of k's group).

    Of each quad of channels a thread holds all that its block reads, and multiplies it by all taps.
    """

    schedule: GroupedBlockSchedule

    def __post_init__(self) -> None:
        super().__post_init__()
        if not has_groups_of_quads(self.shape):
            raise ValueError(f"{self.shape} is no direct convolution of groups of whole quads")

    def sums(self, block: OutputBlock, operands: ColumnOperands, computed: ir.Type) -> list[list[ir.Value]]:
        rows, columns, shape = self.schedule.rows, self.schedule.columns, self.shape
        decomposition = shape.decomposition
        first = operands.channel // shape.group_outputs * shape.group_inputs
        sums = [[constant_quad(0.0, computed)] * columns for _ in range(rows)]
        for channel in range(0, shape.group_inputs, QUAD):
            elements = {
                element: self.elements(block, element, operands.image, first + channel)
                for element in elements_read(decomposition, rows, 0)
            }
            for tap in product(*map(range, shape.kernel_size)):
                weights = [operands.weights(tap, channel + i) for i in range(QUAD)]
                for row, column in product(range(rows), range(columns)):
                    of_row = elements[element_of(decomposition, row, tap[0], 0)]
                    value = of_row[element_of(decomposition, column, tap[1])]
                    for i in range(QUAD):
                        single = vector.broadcast(value.type, lane(value, i))
                        sums[row][column] = vector.fma(single, weights[i], sums[row][column])
        return sums
