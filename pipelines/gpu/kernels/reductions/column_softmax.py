"""The GPU kernel of softmax of columns: exponentials, divided by the sums of those of a column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, math
from iree.winograd.passes.match.layouts.columns import ColumnMatrices
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid

from .softmax import LOWEST, inverse_of_sum

COLUMN_THREADS = 256
LONGEST_COLUMN = 32
"""Elements whose quads a thread has registers for."""


@dataclass(frozen=True)
class ColumnSoftmaxKernel:
    """Softmax of columns of dense matrices, each read once.

    A thread has all of a quad of columns, or of one where quads aren't whole. As for rows, the largest
    element is subtracted first; of nothing but minus infinity there are zeros where it is `safe`.
    """

    matrices: ColumnMatrices
    """Of an element of the batch."""
    safe: bool

    @property
    def name(self) -> str:
        matrices = self.matrices
        sizes = f"{matrices.count}x{matrices.length}x{matrices.columns}"
        return f"winograd_{'safe_' * self.safe}column_softmax_{sizes}"

    @property
    def width(self) -> int:
        """Columns of a thread."""
        return QUAD if self.matrices.columns % QUAD == 0 else 1

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of matrices of the whole batch, and of columns."""
        return self._grid.workgroups(sizes.batch * self.matrices.count)

    def emit(self, work: Work, source: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        matrices, width = self.matrices, self.width
        matrix, block, exists = self._grid.place(work.workgroup, work.sizes.batch * matrices.count)
        begin = matrix * (matrices.length * matrices.columns) + block * width
        places = [begin + row * matrices.columns for row in range(matrices.length)]

        def compute() -> None:
            values = [source.load_scalar(each) if width == 1 else source.load(each) for each in places]
            maximum = reduce(arith.maximumf, values)
            if self.safe:
                maximum = arith.maximumf(maximum, constant_like(maximum, LOWEST))
            exponentials = [math.exp(arith.subf(value, maximum)) for value in values]
            inverse = inverse_of_sum(reduce(arith.addf, exponentials), safe=self.safe)
            for place, exponential in zip(places, exponentials, strict=True):
                result = arith.mulf(exponential, inverse)
                if width == 1:
                    output.store_scalar(result, place)
                else:
                    output.store(result, place)

        when(exists, compute)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(self.matrices.columns // self.width, COLUMN_THREADS, COLUMN_THREADS)
