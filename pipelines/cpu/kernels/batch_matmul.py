"""The CPU kernel of products of the matrices of a batch: those of attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.batch_matmul import BatchProduct, Matrices
from iree.winograd.pipelines.cpu.processor.product import Panel, RegisterBlock, Rows
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_transposed
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.vectors import LaneMask, splat

_WORKGROUP_PRODUCTS = 2**20
"""Multiply-adds of a workgroup, which take some twenty microseconds."""
_SHARING_ROWS = 48
"""Rows of a workgroup, at least, that are multiplied by a panel that it packs."""
_MOST_VECTORS = 4
"""Of a row of a register block."""
_LATENCY = 8
"""Sums that have to be independent of each other for multiply-adds not to wait."""
_PREFETCH = 8


@dataclass(frozen=True)
class BatchMatmulKernel:
    """Products of matrices that are read, and written, wherever their elements lie.

    A workgroup packs a panel of some columns of the right matrix, which it transposes if need be, and
    multiplies blocks of rows of the left one by it, then by the next panel. Blocks that exceed the rows or
    columns overlap their neighbours; lanes of a panel beyond all columns are left out.
    """

    problem: BatchProduct
    target: CpuTarget

    @property
    def name(self) -> str:
        problem = self.problem
        return (
            f"winograd_batch_matmul_{problem.batch}x{problem.rows}x{problem.columns}_from_{problem.reduction}"
        )

    @property
    def panel_bytes(self) -> int:
        """What the columns of a register block take, of all rows of the right matrix."""
        return 4 * prod(self._panel_shape)

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Parts of the rows, and blocks of products."""
        problem = self.problem
        return Index(-(-self._row_blocks // self._part_blocks)), Index(-(-problem.batch // self._batch_block))

    def emit(self, workgroup: tuple[Index, ...], left: Buffer, right: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        panel = scratch(self._panel_shape, right.element, "panel")
        first = workgroup[1] * self._batch_block
        count = Index(self._batch_block)
        if self.problem.batch % self._batch_block:
            count = (Index(self.problem.batch) - first).minimum(count)
        with loop(count, name="product") as i:
            number = first + i
            with loop(self._column_blocks, name="panel") as block:
                column = self._first_column(block)
                self._pack(right, _origin(self.problem.right, number) + column * self._column_step, panel)
                self._multiply(workgroup[0], number, column, left, panel, output)

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
                mask = self._mask(lane)
                elements = (
                    right.load(line + lane, width) if mask is None else right.load_lanes(line + lane, mask)
                )
                panel.store(elements, c * channels + lane)

    def _multiply(
        self, part: Index, number: Index, column: Index, left: Buffer, panel: Buffer, output: Buffer
    ) -> None:
        """The columns of a panel of one product, in the rows of a part."""
        problem, block = self.problem, self._block
        first_block = part * self._part_blocks
        blocks = Index(self._part_blocks)
        if self._row_blocks % self._part_blocks:
            blocks = (Index(self._row_blocks) - first_block).minimum(blocks)
        with loop(blocks, name="row") as i:
            row = (first_block + i) * block.rows
            if problem.rows % block.rows:
                row = row.minimum(problem.rows - block.rows)
            place = _origin(problem.left, number) + row * problem.left.row_stride
            rows = Rows(left, place, problem.left.row_stride, problem.left.column_stride)
            zeros = block.zeros(problem.reduction, output.element)
            sums = block.add(zeros, rows, Panel(panel, Index(0)), problem.reduction, self.target)
            written = _origin(problem.output, number) + row * problem.output.row_stride + column
            self._store(block.finished(sums), output, written)

    def _store(self, sums: list[ir.Value], output: Buffer, origin: Index) -> None:
        problem, block = self.problem, self._block
        factor = splat(problem.factor, block.width, output.element)
        for position, value in enumerate(sums):
            row, vector_number = divmod(position, block.vectors)
            lane = vector_number * block.width
            if lane >= problem.columns:
                continue
            if problem.factor != 1:
                value = arith.mulf(value, factor)
            offset, mask = origin + (row * problem.output.row_stride + lane), self._mask(lane)
            if mask is None:
                output.store(value, offset)
            else:
                output.store_lanes(value, offset, mask)

    def _mask(self, lane: int) -> LaneMask | None:
        """Which lanes of a vector from `lane` on are columns, where it isn't all."""
        rest = self.problem.columns - lane
        if self.problem.columns >= self._block.channels or rest >= self._block.width:
            return None
        with named("columns"):
            return LaneMask.between(0, rest, self._block.width)

    def _first_column(self, block: Index) -> Index:
        channels, columns = self._block.channels, self.problem.columns
        column = block * channels
        return (
            column if columns <= channels or columns % channels == 0 else column.minimum(columns - channels)
        )

    @property
    def _block(self) -> RegisterBlock:
        """That by which the fewest vectors, or the fewest loads if they take longer, are processed."""
        columns, width = self.problem.columns, self.target.vector_width
        while width >= 2 * columns:
            width //= 2
        candidates = [
            RegisterBlock(rows, vectors, width, _PREFETCH)
            for vectors in range(1, _MOST_VECTORS + 1)
            for rows in range(1, min(self.problem.rows, RegisterBlock.most_rows(vectors, self.target)) + 1)
        ]
        return min(candidates, key=self._cost)

    def _cost(self, block: RegisterBlock) -> tuple[int, int]:
        work = block.channel_work
        blocks = -(-self.problem.columns // block.channels) * -(-self.problem.rows // block.rows)
        return blocks * max(work.multiply_adds, work.loads, _LATENCY), -block.vectors

    @property
    def _panel_shape(self) -> tuple[int, int]:
        return self._block.panel_shape(self.problem.reduction)

    @property
    def _column_step(self) -> int:
        return self.problem.right.column_stride

    @property
    def _column_blocks(self) -> int:
        return -(-self.problem.columns // self._block.channels)

    @property
    def _row_blocks(self) -> int:
        return -(-self.problem.rows // self._block.rows)

    @property
    def _products(self) -> int:
        """Multiply-adds of one product of two matrices."""
        return self.problem.rows * self.problem.columns * self.problem.reduction

    @property
    def _part_blocks(self) -> int:
        """Register blocks of the rows of a workgroup."""
        parts = max(1, min(self._products // _WORKGROUP_PRODUCTS, self.problem.rows // _SHARING_ROWS))
        return -(-self._row_blocks // parts)

    @property
    def _batch_block(self) -> int:
        """Products of a workgroup."""
        return min(self.problem.batch, max(1, _WORKGROUP_PRODUCTS // self._products))


def _origin(matrices: Matrices, number: Index) -> Index:
    """The first element of one of the matrices of a batch."""
    result = Index(matrices.first)
    counts = [count for count, _ in matrices.batch]
    for coordinate, (_, stride) in zip(unflatten(number, counts), matrices.batch, strict=True):
        result = result + coordinate * stride
    return result
