"""The columns of transformed tiles that products sum: of views whose filters aren't zero."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index, ceildiv, select_index, unflatten
from iree.winograd.pipelines.emission.recipe import flattened
from iree.winograd.pipelines.emission.views import table_entry
from iree.winograd.pipelines.problems.shape import ConvolutionShape

Body = Callable[[Index, Index, list[ir.Value]], list[ir.Value]]
"""`values = body(first, extent, values)` for a block of `extent` columns from `first` on."""


@dataclass(frozen=True)
class ReductionRuns:
    """`count` runs of `length` columns each, a multiple of `multiple`, the first of which begins at column 0.

    `begin` says where the others do, by their number.
    """

    length: Index
    multiple: int
    count: Index = field(default_factory=lambda: Index(1))
    begin: Callable[[Index], Index] = lambda run: run

    @staticmethod
    def whole(reduction: int) -> ReductionRuns:
        """All of the reduction."""
        return ReductionRuns(Index(reduction), reduction)

    def first_extent(self, size: int) -> Index:
        """Columns of the first block of at most `size`."""
        return Index(size) if self.multiple % size == 0 else self.length.minimum(size)

    def further_blocks(self, size: int, values: list[ir.Value], body: Body) -> list[ir.Value]:
        """Emits `body` for each block of at most `size` columns but the first of all, and what it carries.

        The last block of a run may be smaller.
        """
        values = self._blocks(Index(0), 1, size, values, body)
        if self.count.known == 1:
            return values
        return loop_carried(
            self.count - 1,
            1,
            values,
            lambda run, values: self._blocks(self.begin(run + 1), 0, size, values, body),
            "run",
        )

    def _blocks(
        self, begin: Index, skipped: int, size: int, values: list[ir.Value], body: Body
    ) -> list[ir.Value]:
        """The blocks of the run that begins at `begin`, without the first `skipped`."""
        is_divided = self.length.known is not None or self.multiple % size == 0
        count = self.length // size if is_divided else ceildiv(self.length, size)

        def block(number: Index, values: list[ir.Value]) -> list[ir.Value]:
            first = (number + skipped) * size
            extent = Index(size) if is_divided else (self.length - first).minimum(size)
            return body(begin + first, extent, values)

        if count.known is None or count.known > skipped:
            values = loop_carried(count - skipped, 1, values, block, "reduction_block")
        rest = 0 if self.length.known is None else self.length.known % size
        if rest and self.length.known != rest:
            values = body(begin + (self.length - rest), Index(rest), values)
        return values


def reduction_runs(shape: ConvolutionShape, element: Index) -> ReductionRuns:
    """The runs of an element of the Winograd domain, in columns of a group.

    A filter without the last tap of its part is zero at the point at infinity
    (`Decomposition.contributing_views`): by F(4x4, 3x3) a stride of 2, whose parts have two taps and one,
    takes 81 products in place of 100. Views that contribute are neighbours along the last dimension.
    """
    decomposition = shape.decomposition
    tables = decomposition.contributing_views
    if tables is None:
        return ReductionRuns.whole(shape.reduction)
    coordinates = unflatten(element, decomposition.alpha)
    counts = [table_entry(a, list(table)) for a, table in zip(coordinates, tables, strict=True)]
    views = [max(table) for table in tables]
    of_view, inner = shape.group_inputs, prod(views[1:])
    is_contiguous = _product(counts[1:]).equals(inner)

    def begin(run: Index) -> Index:
        return flattened(unflatten(run, counts[:-1]), views[:-1]) * (views[-1] * of_view)

    return ReductionRuns(
        length=select_index(is_contiguous, counts[0] * (inner * of_view), counts[-1] * of_view),
        multiple=of_view,
        count=select_index(is_contiguous, 1, _product(counts[:-1])),
        begin=begin,
    )


def _product(counts: Sequence[Index]) -> Index:
    return reduce(operator.mul, counts, Index(1))
