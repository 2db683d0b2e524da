"""The depthwise kernel: one filter per channel, so there is nothing to multiply as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise

from .direct_columns import ColumnOperands, DirectColumnsKernel
from .output_columns import Columns


@dataclass(frozen=True)
class DepthwiseKernel(DirectColumnsKernel):
    """output[n, o..., c] = epilogue(sum over taps of image[n, i..., c] * filters[tap, c])."""

    def __post_init__(self) -> None:
        if not is_depthwise(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution")

    def added(
        self,
        sums: Sequence[ir.Value],
        row: Sequence[IndexLike],
        columns: Columns,
        position: Sequence[Index],
        operands: ColumnOperands,
    ) -> list[ir.Value]:
        values = operands.elements(columns, position, operands.channel)
        taps = range(self.shape.kernel_size[-1])
        weights = [operands.weights((*row, tap), 0) for tap in taps]
        results = list(sums)
        for tap in taps:
            for column in range(self.schedule.columns):
                value = values[columns.element_of(column, tap)]
                results[column] = vector.fma(value, weights[tap], results[column])
        return results
