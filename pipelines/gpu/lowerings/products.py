"""From products of the matrices of a batch to dispatches."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.kernels.matrix_products.batch_matmul import (
    MULTIPLYING_THREADS,
    BatchMatmulKernel,
)
from iree.winograd.pipelines.problems.tensor_operations import BatchedProduct


def lowered_product(launcher: Launcher, operation: BatchedProduct) -> ir.Value:
    """Emits the dispatch of the products."""
    product = operation.product
    kernel = BatchMatmulKernel(product.problem)
    operands = [(each, TensorArgument.of(each, by_quads=False)) for each in (product.left, product.right)]
    result = TensorArgument.of(product.result, by_quads=False)
    return launcher.launch(kernel, kernel.name, WorkgroupThreads(MULTIPLYING_THREADS), operands, result)
