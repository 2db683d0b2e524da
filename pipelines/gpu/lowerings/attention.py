"""From attention to a dispatch."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.attention_mask import as_added
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.attention.attention import AttentionKernel, reads_quads
from iree.winograd.pipelines.gpu.kernels.attention.matrix_attention import MatrixAttentionKernel
from iree.winograd.pipelines.gpu.kernels.attention.multiply_add_attention import (
    MultiplyAddAttentionKernel,
)
from iree.winograd.pipelines.gpu.kernels.attention.warpgroup_attention import (
    WarpgroupAttentionKernel,
)
from iree.winograd.pipelines.gpu.schedules.attention import (
    MatrixAttentionSchedule,
    MultiplyAddAttentionSchedule,
    WarpgroupAttentionSchedule,
)
from iree.winograd.pipelines.gpu.schedules.attention_fit import attention_schedule
from iree.winograd.pipelines.problems.tensor_operations import BatchedAttention


def attention_kernel(problem: AttentionProblem, target: GpuTarget) -> AttentionKernel | None:
    """What attends on a target; None where there is no kernel for it."""
    schedule = attention_schedule(problem, target)
    if isinstance(schedule, WarpgroupAttentionSchedule):
        return WarpgroupAttentionKernel(problem, schedule)
    if isinstance(schedule, MatrixAttentionSchedule):
        return MatrixAttentionKernel(problem, schedule)
    if isinstance(schedule, MultiplyAddAttentionSchedule):
        return MultiplyAddAttentionKernel(problem, schedule)
    return None


def lowered_attention(launcher: Launcher, operation: BatchedAttention) -> ir.Value:
    """Emits the dispatch of attention that there is a kernel for; its result may be rounded."""
    found = operation.attention
    kernel = attention_kernel(found.problem, launcher.target)
    assert kernel is not None
    scores, mixtures = found.problem.scores, found.problem.mixtures
    factors = found.queries, found.keys, found.values
    read = dict(zip(factors, factors, strict=True))
    if isinstance(kernel, WarpgroupAttentionKernel):
        assert found.problem.half is not None
        half = ir.Type.parse(found.problem.half)
        read = {value: value if half_type(value) == half else converted(value, half) for value in read}
    operands = [
        (
            read[value],
            TensorArgument.of(
                read[value], _has_quads(value, length) and reads_quads(matrices, of_columns=of_columns)
            ),
        )
        for value, length, matrices, of_columns in (
            (found.queries, scores.reduction, scores.left, False),
            (found.keys, scores.reduction, scores.right, True),
            (found.values, mixtures.columns, mixtures.right, False),
        )
    ]
    masks = (
        as_added(mask) if rows.is_truth else mask
        for mask, rows in zip(found.masks, found.problem.masks, strict=True)
    )
    operands += [(mask, TensorArgument.of(mask, by_quads=False)) for mask in masks]
    by_quads = _has_quads(found.result, mixtures.columns) and reads_quads(mixtures.output, of_columns=False)
    result = TensorArgument.of(found.result, kernel.writes_quads and by_quads)
    if found.rounded is not None:
        result = replace(result, element=str(found.rounded))
    schedule = kernel.schedule
    resident = schedule.resident if isinstance(schedule, WarpgroupAttentionSchedule) else None
    threads = WorkgroupThreads(schedule.threads, resident and resident * schedule.threads)
    return launcher.launch(kernel, kernel.name, threads, operands, result)


def _has_quads(value: ir.Value, length: int) -> bool:
    """Whether a tensor, and the rows of so many elements that are read of it, are whole quads."""
    return bool(ir.RankedTensorType(value.type).shape[-1] % QUAD == 0) and length % QUAD == 0
