"""The CPU kernel of softmax: exponentials of rows, divided by their sums."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.kernels.exponentials import inverse_sum, lowest
from iree.winograd.pipelines.cpu.kernels.rows import Row
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.functions import exponential
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes, Work


@dataclass(frozen=True)
class SoftmaxKernel:
    """Softmax of rows of f32; a workgroup takes several of them.

    The largest element of a row is subtracted first, so that no exponential is infinite. In place of a
    division by the sum there is a product by its inverse. A row of nothing but minus infinity becomes zeros
    where it is `safe`, NaN otherwise.
    """

    rows: int
    """Of an element of the batch."""
    length: int
    """Elements of a row."""
    target: CpuTarget
    safe: bool

    @property
    def name(self) -> str:
        return f"winograd_{'safe_' * self.safe}softmax_{self.rows}x{self.length}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return (ceildiv(sizes.batch * self.rows, self._row.block),)

    def emit(self, work: Work, source: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x ... x length to the same."""
        block = self._row.block
        first = work.workgroup[0] * block
        with loop((work.sizes.batch * self.rows - first).minimum(block), name="row") as number:
            self._emit_row(source, output, (first + number) * self.length)

    @property
    def _row(self) -> Row:
        return Row.of(self.length, self.target)

    def _emit_row(self, source: Buffer, output: Buffer, begin: Index) -> None:
        """Emits the softmax of the row from an offset on."""
        row, width = self._row, self._row.width
        with named("maximum"):
            maximum = row.reduced(lowest(self.safe), arith.maximumf, lambda i: source.load(begin + i, width))

        def store_exponential(i: Index) -> ir.Value:
            difference = arith.subf(source.load(begin + i, width), maximum)
            result = exponential(difference, self.target.fused_multiply_add)
            output.store(result, begin + i)
            return result

        with named("sum"):
            inverse = inverse_sum(row.reduced(0.0, arith.addf, store_exponential), self.safe)
        self._scale(output, begin, inverse)

    def _scale(self, output: Buffer, begin: Index, factor: ir.Value) -> None:
        """Multiplies the elements of a row that is stored already."""
        width, remainder = self._row.width, self._row.remainder
        # What overlaps is read before it is written.
        last = self.length - width
        rest = output.load(begin + last, width) if remainder else None
        with loop(self.length - remainder, width, "element") as i:
            output.store(arith.mulf(output.load(begin + i, width), factor), begin + i)
        if rest is not None:
            output.store(arith.mulf(rest, factor), begin + last)
