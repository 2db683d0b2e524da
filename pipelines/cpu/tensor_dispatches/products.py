"""Products of two tensors, and attention."""

from __future__ import annotations

from iree.winograd.passes.build.attention_mask import as_added
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.problems.tensor_operations import BatchedAttention, BatchedProduct

from .dispatch import TensorDispatch
from .rows import misfit_of_rows

_SCORES_IN_CACHE = 4
"""L2s that scores of attention exceed where one kernel computes them, softmax and products with values.
Masked ones it computes anyway."""


def batched_product(operation: BatchedProduct, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel

    product = operation.product
    kernel = BatchMatmulKernel(product.problem, target, operation.threads)
    return TensorDispatch(kernel, (product.left, product.right), tuple(product.result.type.shape), batch=1)


def misfit_of_product(operation: BatchedProduct, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.batch_matmul import BatchMatmulKernel

    problem = operation.product.problem
    if BatchMatmulKernel(problem, target, 1).fits:
        return None
    return f"its panels of {problem.reduction} rows exceed the memory of a workgroup"


def batched_attention(operation: BatchedAttention, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel

    found = operation.attention
    kernel = AttentionKernel(found.problem, target, operation.threads)
    masks = (
        as_added(mask) if rows.is_truth else mask
        for mask, rows in zip(found.masks, found.problem.masks, strict=True)
    )
    operands = (found.queries, found.keys, found.values, *masks)
    return TensorDispatch(kernel, operands, tuple(found.result.type.shape), batch=1)


def misfit_of_attention(operation: BatchedAttention, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.attention import AttentionKernel

    if operation.attention.in_half:
        return "kernels of attention read and write f32"
    problem = operation.attention.problem
    scores = problem.scores
    score_bytes = F32.bytes * scores.batch * scores.rows * scores.columns
    if not problem.masks and score_bytes < _SCORES_IN_CACHE * target.l2_bytes:
        return "its scores stay in L2 between kernels"
    if not AttentionKernel(problem, target, operation.threads).fits:
        return f"keys of {scores.reduction} channels exceed the memory of a workgroup"
    return misfit_of_rows(scores.columns)
