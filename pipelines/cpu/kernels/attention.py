"""The CPU kernel of attention: products of queries and keys, their softmax, and products with values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.attention import AttentionProblem
from iree.winograd.passes.match.batch_matmul import Matrices
from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel, Place, origin
from iree.winograd.pipelines.cpu.kernels.softmax import SoftmaxKernel
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import splat, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

_MOST_ROWS = 48
"""Queries whose scores are computed together: by so many the copies of keys and values are amortized."""
_SHARE_OF_CACHE = 0.75
"""Of L2, for scores and what products are computed with."""
_WORKGROUPS = 4
"""For each thread, where there are several, so that they are done at about the same time."""


@dataclass(frozen=True)
class AttentionKernel:
    """Attention by blocks of queries, whose scores never leave L2.

    A workgroup multiplies some queries by all keys, takes the softmax of each row where it is, and multiplies
    it by the values. The last block of a matrix overlaps its neighbour. After Dao et al., FlashAttention
    (NeurIPS 2022), section 3.1, without the blocks of keys: a row of scores fits a processor's L2.
    """

    problem: AttentionProblem
    target: CpuTarget
    threads: int

    @property
    def name(self) -> str:
        problem, scores = self.problem, self.problem.scores
        safe = "safe_" * problem.safe
        return (
            f"winograd_{safe}attention_{scores.batch}x{scores.rows}x{scores.columns}"
            f"_from_{scores.reduction}_to_{problem.mixtures.columns}"
        )

    @property
    def fits(self) -> bool:
        """Whether scores of a block of queries fit L2, with the copies of keys and values."""
        rows = self._rows
        if rows == 0:
            return False
        return rows == self.problem.scores.rows or rows >= self._least_rows(rows)

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Each takes some blocks of queries."""
        return (Index(ceil_div(self._blocks, self._workgroup_blocks)),)

    def emit(self, work: Work, queries: Buffer, keys: Buffer, values: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        rows, scores, mixtures = self._rows, self._scores(self._rows), self._mixtures(self._rows)
        block = scratch((rows, self._stride), queries.computed, "scores")
        memory = scores.memory(queries, keys, rows)
        mixed = mixtures.memory(block, values, rows)
        first, part = work.workgroup[0] * self._workgroup_blocks, Index(self._workgroup_blocks)
        if self._blocks % self._workgroup_blocks:
            part = (Index(self._blocks) - first).minimum(part)
        with loop(part, name="block") as i:
            product, number = (first + i) // self._row_blocks, (first + i) % self._row_blocks
            row = (number * rows).minimum(self.problem.scores.rows - rows)
            read, written = self.problem.scores, self.problem.mixtures
            whole, none = Index(rows), Index(0)
            own = Place(block, none)
            asked = Place(queries, origin(read.left, product) + row * read.left.row_stride)
            result = Place(output, origin(written.output, product) + row * written.output.row_stride)
            scores.multiply(memory, asked, Place(keys, origin(read.right, product)), own, none, whole)
            self._normalize(block)
            mixtures.multiply(mixed, own, Place(values, origin(written.right, product)), result, none, whole)

    def _normalize(self, block: Buffer) -> None:
        """Softmax of the rows of a block, whose last vector is filled with what has no weight."""
        keys, width = self.problem.scores.columns, self._width
        softmax = SoftmaxKernel(self._rows, self._row_length, self.target, self.problem.safe)
        with loop(self._rows, name="row") as row:
            begin = row * self._stride
            if keys % width:
                block.store(splat(-inf, width, block.computed), begin + keys)
            softmax.emit_row(block, block, begin)

    def _scores(self, rows: int) -> BatchMatmulKernel:
        problem = replace(self.problem.scores, rows=rows, output=self._block)
        return BatchMatmulKernel(problem, self.target, 1)

    def _mixtures(self, rows: int) -> BatchMatmulKernel:
        problem = replace(self.problem.mixtures, rows=rows, left=self._block)
        return BatchMatmulKernel(problem, self.target, 1)

    def _memory_bytes(self, rows: int) -> int:
        """Of a workgroup that takes so many queries at a time."""
        products = self._scores(rows).memory_bytes(rows) + self._mixtures(rows).memory_bytes(rows)
        return F32.bytes * rows * self._stride + products

    def _least_rows(self, rows: int) -> int:
        return max(self._scores(rows).register_rows, self._mixtures(rows).register_rows)

    @cached_property
    def _rows(self) -> int:
        """Queries of a block: as many as fit, 0 where none do."""
        most = _SHARE_OF_CACHE * self.target.workgroup_bytes
        candidates = range(min(_MOST_ROWS, self.problem.scores.rows), 0, -1)
        return next((rows for rows in candidates if self._memory_bytes(rows) <= most), 0)

    @property
    def _block(self) -> Matrices:
        """Where the scores of a block lie."""
        return Matrices(0, (), self._stride, 1)

    @property
    def _width(self) -> int:
        return vector_width_for(self.problem.scores.columns, self.target.vector_width)

    @property
    def _row_length(self) -> int:
        """Of whole vectors."""
        return ceil_div(self.problem.scores.columns, self._width) * self._width

    @property
    def _stride(self) -> int:
        """From a row of scores to the next."""
        return self._row_length + ROW_PADDING

    @property
    def _row_blocks(self) -> int:
        return ceil_div(self.problem.scores.rows, self._rows)

    @property
    def _blocks(self) -> int:
        return self.problem.scores.batch * self._row_blocks

    @property
    def _workgroup_blocks(self) -> int:
        if self.threads == 1:
            return self._blocks
        return ceil_div(self._blocks, min(self._blocks, _WORKGROUPS * self.threads))
