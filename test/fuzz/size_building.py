"""Sizes known only at run time as MLIR: what importers compute of the sizes of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.tensors import index_constant
from open_size import Name, OpenSize, is_open
from tensors import InvalidProgramError, Tensor

Number = int | ir.Value
"""A size as it is, or an `index`."""


class SizeBuilder:
    """Builds sizes where operations need them.

    `of_arguments` alone they are sums and quotients of indices. Else they begin at the nearest tensor with a
    size that differs from them by a constant, and are computed in i64, as torch-mlir does.
    """

    def __init__(
        self, arguments: Sequence[ir.Value], types: Mapping[ir.Value, Tensor], of_arguments: bool
    ) -> None:
        self.arguments = arguments
        self.types = types
        self.of_arguments = of_arguments

    def sizes(self, of: Tensor, values: Sequence[ir.Value]) -> list[Number]:
        """Those of a tensor, of the sizes of `values` or of the arguments."""
        return [self.size(size, values) if isinstance(size, OpenSize) else size for size in of.shape]

    def size(self, size: OpenSize, values: Sequence[ir.Value]) -> ir.Value:
        sources = self.arguments if self.of_arguments else [*self.arguments, *values]
        found = self._computed(size, sources)
        return found if self.of_arguments else arith.index_cast(ir.IndexType.get(), found)

    def _computed(self, size: OpenSize, sources: Sequence[ir.Value]) -> ir.Value:
        for source in reversed(sources):
            for d, other in enumerate(self.types[source].shape):
                difference = size - other if is_open(other) else size
                if not is_open(difference):
                    return self._sum(self._dimension(source, d), difference)
        total: ir.Value | None = None
        for atom, times in size.terms.items():
            if isinstance(atom, Name):
                if size == OpenSize({atom: 1}, 0):
                    raise InvalidProgramError(f"no argument has the {atom.name}")
                term = self._computed(OpenSize({atom: 1}, 0), sources)
            else:
                term = arith.floordivsi(self._computed(atom.numerator, sources), self._constant(atom.divisor))
            if times != 1:
                term = arith.muli(term, self._constant(times))
            total = term if total is None else arith.addi(total, term)
        assert total is not None
        return self._sum(total, size.constant)

    def _dimension(self, source: ir.Value, d: int) -> ir.Value:
        found = tensor.dim(source, index_constant(d))
        return found if self.of_arguments else arith.index_cast(_integer(), found)

    def _sum(self, number: ir.Value, constant: int) -> ir.Value:
        return arith.addi(number, self._constant(constant)) if constant else number

    def _constant(self, number: int) -> ir.Value:
        return index_constant(number) if self.of_arguments else arith.constant(_integer(), number)


_integer = partial(ir.IntegerType.get_signless, 64)
