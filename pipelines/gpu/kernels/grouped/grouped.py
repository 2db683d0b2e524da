"""The kernel of groups of few channels: too few for blocks of a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.gpu.device.memory import QUAD, lane
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import (
    ColumnOperands,
    DirectColumnsKernel,
)
from iree.winograd.pipelines.gpu.kernels.direct.output_columns import Columns
from iree.winograd.pipelines.gpu.schedules.fit import has_groups_of_quads


@dataclass(frozen=True)
class GroupedKernel(DirectColumnsKernel):
    """output[n, o..., k] = epilogue(sum over taps and the quads of channels of k's group).

    Each channel of a quad of the image is multiplied by a quad of outputs' weights.
    """

    def __post_init__(self) -> None:
        if not has_groups_of_quads(self.shape):
            raise ValueError(f"{self.shape} is no direct convolution of groups of whole quads")

    def added(
        self,
        sums: Sequence[ir.Value],
        row: Sequence[IndexLike],
        columns: Columns,
        position: Sequence[Index],
        operands: ColumnOperands,
    ) -> list[ir.Value]:
        shape = self.shape
        first = operands.channel // shape.group_outputs * shape.group_inputs
        taps = range(shape.kernel_size[-1])

        def with_quad(channel: Index, carried: Sequence[ir.Value]) -> list[ir.Value]:
            values = operands.elements(columns, position, first + channel, Condition(True))
            results = list(carried)
            for tap in taps:
                weights = [operands.weights((*row, tap), channel + i) for i in range(QUAD)]
                for column in range(self.schedule.columns):
                    value = values[columns.element_of(column, tap)]
                    for i in range(QUAD):
                        single = vector.broadcast(value.type, lane(value, i))
                        results[column] = vector.fma(single, weights[i], results[column])
            return results

        return loop_carried(shape.group_inputs, QUAD, list(sums), with_quad)
