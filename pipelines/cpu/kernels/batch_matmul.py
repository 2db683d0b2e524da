"""The CPU kernel of products of the matrices of a batch: those of attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import summed_block
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.products.batch_matmul import BatchProduct, Matrices
from iree.winograd.pipelines.cpu.processor.product import Panel, RegisterBlock, Rows
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_transposed
from iree.winograd.pipelines.cpu.schedules.direct import CACHE_SET_PERIOD
from iree.winograd.pipelines.emission.block_sums import add_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer, copy_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index, IndexLike, unflatten
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.emission.work import Sizes, Work

from .column_panels import ColumnPanels, register_block

_WORKGROUP_PRODUCTS = 2**18
"""Multiply-adds of a workgroup, at least, which take some five microseconds."""
_WORKGROUPS = 4
"""For each thread, where there are several, so that they are done at about the same time."""
_SHARING_ROWS = 48
"""Rows of a workgroup, at least, that are multiplied by a panel that it packs."""


@dataclass(frozen=True)
class Place:
    """An element of a buffer, by its offset."""

    buffer: Buffer
    first: Index


@dataclass(frozen=True)
class _Memory:
    """Memory of a workgroup for copies of a panel and of rows, where these are copied."""

    panel: Buffer | None
    rows: Buffer | None


@dataclass(frozen=True)
class BatchMatmulKernel:
    """Products of matrices that are read, and written, wherever their elements lie.

    A workgroup packs a panel of some columns of the right matrix, which it transposes if need be, and
    multiplies blocks of rows of the left one by it, then by the next panel. Blocks that exceed the rows or
    columns overlap their neighbours; lanes of a panel beyond all columns are left out.
    """

    problem: BatchProduct
    target: CpuTarget
    threads: int

    @property
    def name(self) -> str:
        problem = self.problem
        return (
            f"winograd_batch_matmul_{problem.batch}x{problem.rows}x{problem.columns}_from_{problem.reduction}"
        )

    @property
    def fits(self) -> bool:
        """Whether a workgroup's memory has room for a panel, and a copy of rows where there is to be one."""
        return self._panel_bytes + self._block.rows * self._staged_bytes <= self.target.workgroup_bytes

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Parts of the rows, and blocks of products."""
        problem = self.problem
        return Index(ceil_div(problem.rows, self._part_rows)), Index(
            ceil_div(problem.batch, self._batch_block)
        )

    def emit(self, work: Work, left: Buffer, right: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        problem = self.problem
        memory = self._memory(left, right)
        first = work.workgroup[1] * self._batch_block
        products = Index(self._batch_block)
        if problem.batch % self._batch_block:
            products = (Index(problem.batch) - first).minimum(products)
        with loop(products, name="product") as i:
            number = first + i
            first_row, count = self._part(work.workgroup[0])
            self._multiply_part(
                memory,
                Place(left, origin(problem.left, number) + first_row * problem.left.row_stride),
                Place(right, origin(problem.right, number)),
                Place(output, origin(problem.output, number)),
                first_row,
                count,
            )

    def _memory(self, left: Buffer, right: Buffer) -> _Memory:
        """Emits what the products of a part are computed with."""
        packed = scratch(self._panel_shape, right.computed, "panel") if self._packs else None
        staged = None
        if self._stages_rows:
            rows = min(self._part_rows, self.problem.rows)
            staged = scratch((rows, self.problem.reduction + ROW_PADDING), left.computed, "rows")
        return _Memory(packed, staged)

    def _multiply_part(
        self, memory: _Memory, left: Place, right: Place, output: Place, first_row: Index, count: Index
    ) -> None:
        """Multiplies `count` rows, which begin at `left`, by the matrix at `right`.

        `output` is where the first row of all would be written, the first of these is row `first_row`.
        """
        rows = Rows(left.buffer, left.first, self.problem.left.row_stride, self.problem.left.column_stride)
        if memory.rows is not None:
            rows = self._stage(rows, count, memory.rows)
        with loop(self._panels.count, name="panel") as number:
            column = self._panels.first(number)
            panel = self._panel(right.buffer, right.first, column, memory.panel)
            self._multiply(rows, first_row, count, panel, output.buffer, output.first + column)

    def _part(self, number: Index) -> tuple[Index, Index]:
        """The first row of a part, and how many it has: at least those of a register block.

        The last part overlaps its neighbour where it would have fewer.
        """
        size = min(self._part_rows, self.problem.rows)
        if self.problem.rows % size == 0:
            return number * size, Index(size)
        first = (number * size).minimum(self.problem.rows - self._block.rows)
        return first, (Index(self.problem.rows) - first).minimum(size)

    def _stage(self, rows: Rows, count: Index, staged: Buffer) -> Rows:
        """A copy of rows that lie so that a register block's would share few sets of the cache."""
        with loop(count, name="row") as i:
            copy_elements(
                rows.buffer,
                rows.first + i * rows.stride,
                staged,
                staged.offset([i, 0]),
                Index(self.problem.reduction),
                self.target.vector_width,
            )
        return Rows(staged, Index(0), staged.stride(0))

    def _panel(self, right: Buffer, origin: Index, column: Index, packed: Buffer | None) -> Panel:
        """The columns of a register block from one on, packed or in place."""
        first = origin + column * self.problem.right.column_stride
        if packed is None:
            return Panel(right, first, self.problem.right.row_stride)
        self._pack(right, first, packed)
        return Panel(packed, Index(0))

    def _pack(self, right: Buffer, origin: Index, panel: Buffer) -> None:
        """panel[c, j] = right[c, column + j], where `origin` is that of the first row."""
        problem, width, channels = self.problem, self._block.width, self._block.channels
        columns, matrices = min(channels, problem.columns), problem.right
        if columns < channels:
            # What is left out of a product is computed, too: numbers rather than what the memory held.
            with loop(problem.reduction, name="c") as c:
                panel.store(splat(0.0, width, panel.element), c * channels + (channels - width))
        if matrices.column_stride != 1:
            source = Lines(right, origin, matrices.column_stride)
            target = Lines(panel, Index(0), channels)
            copy_transposed(source, target, (columns, problem.reduction), self.target.vector_width)
            return
        with loop(problem.reduction, name="c") as c:
            line = origin + c * matrices.row_stride
            for lane in range(0, columns, width):
                panel.store(self._panels.load(right, line + lane, lane), c * channels + lane)

    def _multiply(
        self, rows: Rows, first_row: Index, count: Index, panel: Panel, output: Buffer, written: Index
    ) -> None:
        """The columns of a panel of one product, `written` that of its first row, for `count` rows."""
        problem, block = self.problem, self._block
        with loop(count, block.rows, "row") as start:
            row = start if self._has_whole_blocks else start.minimum(count - block.rows)
            zeros = block.zeros(output.computed)
            place = replace(rows, first=rows.first + row * rows.stride)
            sums = self._sum(zeros, place, panel)
            self._store(sums, output, written + (first_row + row) * problem.output.row_stride)

    def _sum(self, zeros: list[ir.Value], rows: Rows, panel: Panel) -> list[ir.Value]:
        """The products of a register block."""
        block, reduction = self._block, self.problem.reduction
        panel_step = block.channels if panel.step is None else panel.step

        def add(first: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
            part_rows = replace(rows, first=rows.first + first * rows.step)
            part_panel = replace(panel, first=panel.first + first * panel_step)
            return block.add(sums, part_rows, part_panel, count, self.target)

        return add_in_blocks(zeros, reduction, reduction, 1, summed_block(reduction), add)

    def _store(self, sums: list[ir.Value], output: Buffer, origin: Index) -> None:
        problem, block = self.problem, self._block
        factor = splat(problem.factor, block.width, output.computed)
        for position, value in enumerate(sums):
            row, vector_number = divmod(position, block.vectors)
            lane = vector_number * block.width
            if lane >= problem.columns:
                continue
            if problem.factor != 1:
                value = arith.mulf(value, factor)
            self._panels.store(value, output, origin + (row * problem.output.row_stride + lane), lane)

    @property
    def _panels(self) -> ColumnPanels:
        return ColumnPanels(self.problem.columns, self._block)

    @property
    def _block(self) -> RegisterBlock:
        return register_block(self.problem.rows, self.problem.columns, self.target)

    @property
    def _panel_shape(self) -> tuple[int, int]:
        return self._block.panel_shape(self.problem.reduction)

    @property
    def _packs(self) -> bool:
        """Whether panels are copied: several blocks of rows read them, or not as they lie."""
        problem = self.problem
        in_place = problem.right.column_stride == 1 and self._block.channels <= problem.columns
        return problem.rows > self._block.rows or not in_place

    @property
    def _has_whole_blocks(self) -> bool:
        """Whether parts of the rows are register blocks without a rest."""
        return self.problem.rows % self._block.rows == 0

    @property
    def _stages_rows(self) -> bool:
        """Whether rows are copied: those of a register block lie so that they share few sets of the cache."""
        left = self.problem.left
        return left.column_stride == 1 and F32.bytes * left.row_stride % CACHE_SET_PERIOD == 0

    @property
    def _staged_bytes(self) -> int:
        """Of the copy of a row."""
        return F32.bytes * (self.problem.reduction + ROW_PADDING) if self._stages_rows else 0

    @property
    def _panel_bytes(self) -> int:
        return F32.bytes * prod(self._panel_shape)

    @property
    def _workgroups(self) -> int:
        """That threads have equal shares of, as far as products are worth it."""
        if self.threads == 1:
            return 1
        problem = self.problem
        products = problem.batch * problem.rows * problem.columns * problem.reduction
        return max(1, min(products // _WORKGROUP_PRODUCTS, _WORKGROUPS * self.threads))

    @property
    def _part_rows(self) -> int:
        """Rows of a workgroup: whole register blocks."""
        rows, step = self.problem.rows, self._block.rows
        parts = max(1, min(ceil_div(self._workgroups, self.problem.batch), rows // _SHARING_ROWS))
        if self._stages_rows:
            most = (self.target.workgroup_bytes - self._panel_bytes) // self._staged_bytes // step * step
            parts = max(parts, ceil_div(rows, most))
        blocks = ceil_div(rows, step)
        return ceil_div(blocks, parts) * step

    @property
    def _batch_block(self) -> int:
        """Products of a workgroup."""
        return ceil_div(self.problem.batch, self._workgroups)


def origin(matrices: Matrices, number: Index) -> Index:
    """The first element of one of the matrices of a batch."""
    result = Index(matrices.first)
    counts = [count for count, _ in matrices.batch]
    for coordinate, (_, stride) in zip(unflatten(number, counts), matrices.batch, strict=True):
        result = result + coordinate * stride
    return result
