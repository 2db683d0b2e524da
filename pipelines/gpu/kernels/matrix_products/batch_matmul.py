"""The GPU kernel of products of the matrices of a batch: those of attention."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.passes.match.products.batch_matmul import BatchProduct, Matrices
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedScalars,
    barrier,
    constant_quad,
    lane,
    quad_of,
    thread_id,
    zero_scalar,
)

MULTIPLYING_THREADS = 256
_BLOCK = 64
"""Rows and columns of a workgroup."""
_STAGE = 16
"""Of the reduction dimension, in shared memory at a time."""
_ACROSS = _BLOCK // QUAD
"""Threads along each side of a block: each has four rows, and four columns that lie so far apart."""
_PADDED = _BLOCK + QUAD
"""Elements from one row of shared memory to the next, so that columns of it are in several banks."""
_LOADS = _BLOCK * _STAGE // MULTIPLYING_THREADS


@dataclass(frozen=True)
class BatchMatmulKernel:
    """Products of matrices that are read, and written, wherever their elements lie.

    A workgroup has 64 x 64 sums of one product. Its threads load the next 16 of the reduction dimension into
    registers while they multiply those in shared memory, neighbours along that dimension in which elements
    lie side by side.
    """

    problem: BatchProduct

    @property
    def name(self) -> str:
        problem = self.problem
        return (
            f"winograd_batch_matmul_{problem.batch}x{problem.rows}x{problem.columns}_from_{problem.reduction}"
        )

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of columns, blocks of rows, products."""
        problem = self.problem
        blocks = (ceil_div(size, _BLOCK) for size in (problem.columns, problem.rows))
        columns, rows = map(Index, blocks)
        return columns, rows, Index(problem.batch)

    def emit(self, work: Work, left: GlobalBuffer, right: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        problem = self.problem
        first_column, first_row, number = (
            work.workgroup[0] * _BLOCK,
            work.workgroup[1] * _BLOCK,
            work.workgroup[2],
        )
        # Both are read by their place in the reduction dimension, then that in the other one.
        operands = (
            _StagedOperand(left, problem.left, number, first_row, problem.rows, problem.left.row_stride),
            _StagedOperand(
                right, problem.right, number, first_column, problem.columns, problem.right.column_stride
            ),
        )
        element = output.computed
        stages = [SharedScalars.allocate((_STAGE, _PADDED), name, element) for name in ("left", "right")]
        row, column = thread_id() // _ACROSS * QUAD, thread_id() % _ACROSS

        def step(first: Index, values: list[ir.Value]) -> list[ir.Value]:
            sums, loaded = values[:QUAD], (values[QUAD : QUAD + _LOADS], values[QUAD + _LOADS :])
            for operand, stage, elements in zip(operands, stages, loaded, strict=True):
                operand.store(elements, stage)
            barrier()
            following = [operand.load(first + _STAGE, problem.reduction) for operand in operands]
            for i in range(_STAGE):
                of_rows = stages[0].load_quad([i, row])
                of_columns = quad_of([stages[1].load([i, column + _ACROSS * j]) for j in range(QUAD)])
                sums = [
                    vector.fma(broadcast(element, QUAD), of_columns, sum_)
                    for element, sum_ in zip(of_rows, sums, strict=True)
                ]
            barrier()
            return [*sums, *following[0], *following[1]]

        begin = [operand.load(Index(0), problem.reduction) for operand in operands]
        zeros = [constant_quad(0.0, element)] * QUAD
        results = loop_carried(problem.reduction, _STAGE, [*zeros, *begin[0], *begin[1]], step, "stage")
        origin = matrix_origin(problem.output, number)
        for i, sums in enumerate(results[:QUAD]):
            finished = (
                sums if problem.factor == 1 else arith.mulf(sums, constant_quad(problem.factor, element))
            )
            for j in range(QUAD):
                place = first_row + row + i, first_column + column + _ACROSS * j
                exists = place[0].less_than(problem.rows) & place[1].less_than(problem.columns)
                offset = (
                    origin + place[0] * problem.output.row_stride + place[1] * problem.output.column_stride
                )

                value = lane(finished, j)
                when(exists, lambda value=value, offset=offset: output.store_scalar(value, offset))  # type: ignore[misc]


@dataclass(frozen=True)
class _StagedOperand:
    """The left or the right matrix of a workgroup: as many of its rows, or columns, as a block has."""

    buffer: GlobalBuffer
    matrices: Matrices
    number: Index
    first: Index
    count: int
    stride: int
    """Elements from one of them to the next."""

    @property
    def _reduction_stride(self) -> int:
        row, column = self.matrices.row_stride, self.matrices.column_stride
        return column if self.stride == row else row

    def _places(self) -> list[tuple[Index, Index]]:
        """Where this thread's elements are: along the reduction dimension, and along the other one."""
        along = _BLOCK if self.stride == 1 else _STAGE
        inner, outer = thread_id() % along, thread_id() // along
        apart = MULTIPLYING_THREADS // along
        places = [(inner, outer + apart * i) for i in range(_LOADS)]
        return [each[::-1] for each in places] if self.stride == 1 else places

    def load(self, first: Index, reduction: int) -> list[ir.Value]:
        """This thread's elements of the next stage, zeros behind the end of the reduction dimension."""
        zero = zero_scalar(self.buffer.computed)
        origin = matrix_origin(self.matrices, self.number)
        elements = []
        for inner, outer in self._places():
            place = first + inner
            other = (self.first + outer).minimum(self.count - 1)
            offset = place.minimum(reduction - 1) * self._reduction_stride + other * self.stride
            element = self.buffer.load_scalar(origin + offset)
            elements.append(arith.select(place.less_than(reduction).value, element, zero))
        return elements

    def store(self, elements: list[ir.Value], stage: SharedScalars) -> None:
        """Writes them to shared memory."""
        for element, (inner, outer) in zip(elements, self._places(), strict=True):
            stage.store(element, [inner, outer])


def matrix_origin(matrices: Matrices, number: Index) -> Index:
    """The first element of a product's matrix."""
    sizes = [count for count, _ in matrices.batch]
    result = Index(matrices.first)
    for index, (_, stride) in zip(unflatten(number, sizes), matrices.batch, strict=True):
        result = result + index * stride
    return result
