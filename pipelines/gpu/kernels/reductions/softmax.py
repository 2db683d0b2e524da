"""The GPU kernel of softmax: exponentials of rows, divided by their sums."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, math
from iree.winograd.pipelines.emission.functions import LOG2_E
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.exponential import power_of_two
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, lane, quad_of

from .rows import SharedRows, row_memory

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class SoftmaxKernel:
    """Softmax of rows, each read once.

    The largest element of a row is subtracted first, so that no exponential is infinite. A row of nothing but
    minus infinity becomes zeros where it is `safe`, NaN otherwise.
    """

    rows: int
    """Of an element of the batch."""
    shared: SharedRows
    safe: bool
    by_instruction: bool
    """Whether exponentials are those of the target's instruction, of fewer digits than f32 has.

    Arguments are rounded before, so that a result r loses 2^-24 ln(1/r) of itself: of half precision, which
    has no numbers below 2^-24, or of bf16, whose last place is 2^-8, it is nothing.
    """

    @property
    def name(self) -> str:
        return f"winograd_{'safe_' * self.safe}softmax_{self.rows}x{self.shared.length}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return self.shared.workgroups(sizes.batch * self.rows)

    def emit(self, work: Work, source: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x ... x length to the same."""
        row = self.shared.place(work, work.sizes.batch * self.rows)
        for_maximum, for_sum = row_memory(2, source.computed)
        values = row.load(source, row.number * self.shared.length)
        lowest = LOWEST if self.safe else -inf
        maximum = row.reduced(values, lowest, arith.maximumf, for_maximum)
        if self.safe:
            maximum = arith.maximumf(maximum, constant_like(maximum, lowest))
        exponentials = [
            exponential(arith.subf(value, maximum), by_instruction=self.by_instruction) for value in values
        ]
        total = row.reduced(exponentials, 0.0, arith.addf, for_sum)
        inverse = inverse_of_sum(total, safe=self.safe)
        row.store([arith.mulf(each, inverse) for each in exponentials], output)


def exponential(difference: ir.Value, *, by_instruction: bool) -> ir.Value:
    """That of a scalar or vector, as `SoftmaxKernel` has it."""
    if not by_instruction:
        return math.exp(difference)
    exponent = arith.mulf(difference, constant_like(difference, LOG2_E))
    if not isinstance(exponent.type, ir.VectorType):
        return power_of_two(exponent)
    return quad_of([power_of_two(lane(exponent, i)) for i in range(exponent.type.shape[0])])


def inverse_of_sum(total: ir.Value, *, safe: bool) -> ir.Value:
    """1 by a sum of exponentials; where it is `safe` 1 for zero, the sum of none that isn't."""
    one = constant_like(total, 1.0)
    if not safe:
        return arith.divf(one, total)
    zero = constant_like(total, 0.0)
    return arith.divf(one, arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, total, zero), one, total))
