"""What a kernel that normalizes groups of channels computes of the elements that its threads hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.problems.tensor_operations import NormalizedOperands

from .elementwise import ElementwiseKernel


@dataclass(frozen=True)
class NormalizedElementwise:
    """An elementwise operation, some of whose operands are an image and what normalizes its groups."""

    kernel: ElementwiseKernel
    roles: NormalizedOperands

    def computed(
        self,
        value: ir.Value,
        factors: ir.Value,
        addends: ir.Value,
        others: Sequence[GlobalBuffer],
        place: Index,
    ) -> ir.Value:
        """Of neighbours of the image at `place`; others are its further operands, in their order."""
        known = dict(zip(self.roles.all, (value, factors, addends), strict=True))
        left = iter(others)
        elements = [
            known[number] if number in known else self.kernel.loaded(operand, next(left), place)
            for number, operand in enumerate(self.kernel.operands)
        ]
        return self.kernel.computed(elements)
