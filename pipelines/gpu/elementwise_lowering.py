"""From elementwise operations on images to dispatches."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.epilogue_operand import EpilogueOperand
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.kernels.elementwise import (
    ELEMENTWISE_THREADS,
    ElementwiseKernel,
    SpreadOperand,
)
from iree.winograd.pipelines.problems.tensor_operations import SpreadElementwise


def elementwise_kernel(operation: SpreadElementwise) -> ElementwiseKernel:
    """The kernel of an operation of static sizes."""
    extents = tuple(ir.RankedTensorType(operation.elementwise.result.type).shape)
    operands = tuple(_operand(each, extents) for each in operation.operands)
    return ElementwiseKernel(extents, operands, VectorFunction.of(operation.elementwise.body))


def lowered_elementwise(launcher: Launcher, operation: SpreadElementwise) -> ir.Value:
    """Emits the dispatch of an operation."""
    kernel = elementwise_kernel(operation)
    operands = [
        (each.value, TensorArgument.of(each.value, by_quads=kernel.reads_quads(operand)))
        for each, operand in zip(operation.operands, kernel.operands, strict=True)
    ]
    result = TensorArgument.of(operation.elementwise.result, by_quads=True)
    return launcher.launch(kernel, kernel.name, WorkgroupThreads(ELEMENTWISE_THREADS), operands, result)


def _operand(operand: EpilogueOperand, extents: tuple[int, ...]) -> SpreadOperand:
    dimensions = tuple(
        index.position if isinstance(index, ir.AffineDimExpr) else None
        for index in operand.indexing_map.results
    )
    read = [dimension for dimension in dimensions if dimension is not None and extents[dimension] > 1]
    is_whole = read == sorted(read) and prod(extents[dimension] for dimension in read) == prod(extents)
    return SpreadOperand(None if is_whole else dimensions)
