"""From products of the matrices of a batch, and attention, to dispatches."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.attention import AttentionKernel, reads_quads
from iree.winograd.pipelines.gpu.kernels.batch_matmul import MULTIPLYING_THREADS, BatchMatmulKernel
from iree.winograd.pipelines.problems.tensor_operations import BatchedAttention, BatchedProduct


def lowered_product(launcher: Launcher, operation: BatchedProduct) -> ir.Value:
    """Emits the dispatch of the products."""
    product = operation.product
    kernel = BatchMatmulKernel(product.problem)
    operands = [(each, TensorArgument.of(each, by_quads=False)) for each in (product.left, product.right)]
    result = TensorArgument.of(product.result, by_quads=False)
    return launcher.launch(kernel, kernel.name, WorkgroupThreads(MULTIPLYING_THREADS), operands, result)


def lowered_attention(launcher: Launcher, operation: BatchedAttention) -> ir.Value:
    """Emits the dispatch of attention that there is a kernel for."""
    found = operation.attention
    kernel = AttentionKernel.within(found.problem, launcher.target.shared_memory_bytes)
    assert kernel is not None
    scores, mixtures = found.problem.scores, found.problem.mixtures
    operands = [
        (value, TensorArgument.of(value, _has_quads(value) and reads_quads(matrices, of_columns=of_columns)))
        for value, matrices, of_columns in (
            (found.queries, scores.left, False),
            (found.keys, scores.right, True),
            (found.values, mixtures.right, False),
        )
    ]
    result = TensorArgument.of(found.result, by_quads=False)
    return launcher.launch(kernel, kernel.name, WorkgroupThreads(kernel.threads), operands, result)


def _has_quads(value: ir.Value) -> bool:
    return bool(ir.RankedTensorType(value.type).shape[-1] % QUAD == 0)
