"""The CPU kernel of softmax of columns: exponentials, divided by the sums of those of a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.layouts.columns import ColumnMatrices
from iree.winograd.pipelines.cpu.kernels.exponentials import inverse_sum, lowest
from iree.winograd.pipelines.cpu.kernels.rows import CHAINS, WORKGROUP_ELEMENTS
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, named, when
from iree.winograd.pipelines.emission.functions import exponential
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import splat, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

_BLOCK_VECTORS = 4
"""Vectors of a row that are reduced beside each other. Of 3137 rows and 152 columns, with 16 lanes, one takes
1.2, two take 1.1 times as long, of 56 rows and columns 1.6 and 1.1 times."""

_Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class ColumnSoftmaxKernel:
    """Softmax of the columns of matrices of f32; a workgroup takes a block of columns of one or several.

    Lanes are columns. The largest element of a column is subtracted first, so that no exponential is
    infinite. In place of a division by the sum there is a product by its inverse. A column of nothing but
    minus infinity becomes zeros where it is `safe`, NaN otherwise.
    """

    matrices: ColumnMatrices
    """Where the source has them. The output has them dense."""
    target: CpuTarget
    safe: bool

    @property
    def name(self) -> str:
        matrices = self.matrices
        sizes = f"{matrices.count}x{matrices.length}x{matrices.columns}"
        return f"winograd_{'safe_' * self.safe}column_softmax_{sizes}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of columns, and blocks of matrices of the whole batch."""
        return Index(self._blocks), ceildiv(sizes.batch * self.matrices.count, self._block_matrices)

    def emit(self, work: Work, source: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        block, first = work.workgroup[0], work.workgroup[1] * self._block_matrices
        count = (work.sizes.batch * self.matrices.count - first).minimum(self._block_matrices)
        last = self._blocks - 1
        if last == 0:
            block = Index(0)
        with loop(count, name="matrix") as number:
            matrix = first + number
            when(
                block.less_than(last),
                lambda: self._block(matrix, block, _BLOCK_VECTORS, source, output),
                lambda: self._block(matrix, Index(last), self._last_vectors, source, output),
            )

    @property
    def _width(self) -> int:
        return vector_width_for(self.matrices.columns, self.target.vector_width)

    @property
    def _blocks(self) -> int:
        """Of a row. The last one may have a vector more than others: one alone couldn't overlap another."""
        vectors = ceil_div(self.matrices.columns, self._width)
        return max(1, ceil_div(vectors - 1, _BLOCK_VECTORS))

    @property
    def _last_vectors(self) -> int:
        """Of the last block."""
        vectors = ceil_div(self.matrices.columns, self._width)
        return vectors - (self._blocks - 1) * _BLOCK_VECTORS

    @property
    def _block_matrices(self) -> int:
        """Those that a workgroup takes a block of columns of."""
        columns = min(self.matrices.columns, _BLOCK_VECTORS * self._width)
        return max(1, WORKGROUP_ELEMENTS // (self.matrices.length * columns))

    def _block(self, matrix: Index, block: Index, vectors: int, source: Buffer, output: Buffer) -> None:
        """Softmax of the columns of `vectors` vectors of one matrix."""
        matrices, width = self.matrices, self._width
        begin = block * (_BLOCK_VECTORS * width)
        # The last vector overlaps its neighbour rather than run over: rows are read before they are written.
        columns = [begin + i * width for i in range(vectors)]
        columns[-1] = columns[-1].minimum(matrices.columns - width)
        origin = matrix * matrices.matrix_stride + matrices.first
        target = matrix * (matrices.length * matrices.columns)

        def loaded(row: Index) -> list[ir.Value]:
            return [source.load(origin + row * matrices.row_stride + column, width) for column in columns]

        def place(row: Index, column: Index) -> Index:
            return target + row * matrices.columns + column

        with named("maximum"):
            maxima = self._reduced(lowest(self.safe), arith.maximumf, vectors, loaded)

        def store_exponentials(row: Index) -> list[ir.Value]:
            results = [
                exponential(arith.subf(value, maximum), self.target.fused_multiply_add)
                for value, maximum in zip(loaded(row), maxima, strict=True)
            ]
            for result, column in zip(results, columns, strict=True):
                output.store(result, place(row, column))
            return results

        with named("sum"):
            sums = self._reduced(0.0, arith.addf, vectors, store_exponentials)
            inverses = [inverse_sum(total, self.safe) for total in sums]
        with loop(matrices.length, name="row") as row:
            stored = [output.load(place(row, column), width) for column in columns]
            for value, inverse, column in zip(stored, inverses, columns, strict=True):
                output.store(arith.mulf(value, inverse), place(row, column))

    def _reduced(
        self, initial: float, combine: _Combine, vectors: int, load: Callable[[Index], list[ir.Value]]
    ) -> list[ir.Value]:
        """The combination of all rows, of which `load` gives `vectors` vectors, lane by lane."""
        length = self.matrices.length
        rows = min(ceil_div(CHAINS, vectors), length)
        looped = length // rows * rows
        neutral = splat(initial, self._width, F32.type)

        def combined(start: Index, count: int, partial: list[ir.Value]) -> list[ir.Value]:
            values = [value for row in range(count) for value in load(start + row)]
            return [combine(*pair) for pair in zip(partial, values, strict=False)] + partial[len(values) :]

        partial = loop_carried(
            looped,
            rows,
            [neutral] * (rows * vectors),
            lambda start, values: combined(start, rows, values),
            "row",
        )
        partial = combined(Index(looped), length - looped, partial)
        return [reduce(combine, partial[vector::vectors]) for vector in range(vectors)]
