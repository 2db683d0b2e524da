"""Have one kernel of this project normalize groups of channels, and compute what follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import in_a_row
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.navigation import transforms, unreshaped, walk
from iree.winograd.passes.match.normalizations.image_sum import (
    ImageSum,
    SummedExtents,
    match_squared_deviations,
)
from iree.winograd.passes.match.normalizations.normalization_factors import (
    NormalizationFactors,
    match_normalization_factors,
)
from iree.winograd.passes.match.reductions import is_reduction
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import GroupNormalization, NormalizedOperands, SpreadElementwise
from .elementwise_runs import ElementwiseRun, ends_of_runs, match_run, spread_operation

_FACTORS, _ADDENDS = "factors", "addends"


@dataclass(frozen=True)
class _Normalization:
    """What an image is normalized by: the sums of squares, and what is made of them for each channel."""

    sums: ImageSum
    vectors: NormalizationFactors


@register_pass("winograd-lower-group-norm")
class LowerGroupNorm:
    """Have one kernel of this project normalize groups of channels, and compute what follows, on GPUs.

    By sums, what is made of these for each channel, and elementwise operations, group normalization is three
    kernels (`winograd-lower-sums`, `winograd-lower-elementwise`), each of which waits for the one before, and
    the image is read twice. Where a workgroup holds some groups of an image in registers, or on NVIDIA's
    GPUs from sm_90 on a cluster of up to eight, one kernel reads it once: it finds means, deviations from
    them, and computes all elementwise operations in a row. Rewritten are channels-last images of static sizes
    in f32, and for CUDA in half precision, for which that is predicted to take less time. Instance
    normalization has groups of one channel.

        %m, %v = ... mean and variance of groups of %x
        %f = linalg.generic ins(%v, %weight) { math.rsqrt, arith.mulf } -> tensor<2x32x10xf32>
        %a = linalg.generic ins(%m, %f, %bias) { arith.negf, arith.mulf, arith.addf } -> tensor<2x32x10xf32>
        %s = linalg.generic ins(%x, %f : tensor<2x64x64x320xf32>, tensor<2x320xf32>) { arith.mulf }
        %y = linalg.generic ins(%s, %a : tensor<2x64x64x320xf32>, tensor<2x320xf32>) { arith.addf }
        %z = linalg.generic ins(%y) { arith.maximumf }
      becomes
        %z = flow.dispatch @winograd_group_norm_2x4096x32x10(%x, %weight, %bias)

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        if not any(True for _ in _normalizations(module)):
            return
        ends = ends_of_runs(module, takes_half=backend.iree_code.converts_half)
        lowering = backend.lowering(module)
        rewrite_each("normalization", ends, partial(_lower, module, backend, lowering))


def _normalizations(module: ir.Operation) -> Iterator[_Normalization]:
    for each in walk(module):
        deviations = match_squared_deviations(each) if is_reduction(each) else None
        vectors = None if deviations is None else match_normalization_factors(deviations)
        if deviations is not None and vectors is not None:
            yield _Normalization(deviations.sums, vectors)


def _lower(module: ir.Operation, backend: Backend, lowering: Lowering, last: ir.Operation) -> None:
    run = match_run(last)
    found = None if run is None else _normalization_of(module, run)
    if run is None or found is None:
        return
    with last.location, ir.InsertionPoint(last):
        merged = run.merged()
        spread = spread_operation(merged, takes_half=backend.iree_code.converts_half)
        roles = None if spread is None else _roles(spread, found)
        weight, bias = (in_a_row(each) for each in (found.vectors.weight, found.vectors.bias))
        left = [merged, *(each.owner.operation for each in (weight, bias) if isinstance(each, ir.OpResult))]
        if spread is None or roles is None:
            erase_if_unused(left)
            return
        operation = GroupNormalization(found.sums, weight, bias, spread, roles)
        if backend.misfit(operation) is not None:
            erase_if_unused(left)
            return
        computed = lowering.compute(operation)
    last.results[0].replace_all_uses_with(computed)
    erase_if_unused([merged, last])


def _normalization_of(module: ir.Operation, run: ElementwiseRun) -> _Normalization | None:
    """That whose factors and addends nothing reads but the run."""
    read = {unreshaped(source) for each in (run.last, *run.before.values()) for source, _ in each.reads}
    for found in _normalizations(module):
        vectors = found.vectors
        if vectors.factors in read and vectors.addends in read:
            users = {*_readers(vectors.factors), *_readers(vectors.addends)}
            product = vectors.addends.owner.operation.operands
            others = {each.owner.operation for each in product if isinstance(each, ir.OpResult)}
            if users <= run.operations | others:
                return found
    return None


def _readers(value: ir.Value) -> Iterator[ir.Operation]:
    """What reads a value, reshaped or not."""
    for user in (use.owner.operation for use in value.uses):
        if unreshaped(user.results[0]) == unreshaped(value):
            yield from _readers(user.results[0])
        else:
            yield user


def _roles(spread: SpreadElementwise, found: _Normalization) -> NormalizedOperands | None:
    """Which operands are the image and what normalizes it, if each element is multiplied by its own."""
    extents = found.sums.extents
    shape = tuple(ir.RankedTensorType(spread.elementwise.result.type).shape)
    if shape[-1] != extents.kept * extents.inner or prod(shape) != extents.sums * extents.summed:
        return None
    roles: dict[str, int] = {}
    wanted = {
        unreshaped(found.sums.source): "image",
        found.vectors.factors: _FACTORS,
        found.vectors.addends: _ADDENDS,
    }
    for number, operand in enumerate(spread.operands):
        role = wanted.get(unreshaped(operand.value))
        reads = _reads_image if role == "image" else partial(_reads_channels, extents)
        if role is not None and role not in roles and reads(operand, shape):
            roles[role] = number
    return NormalizedOperands(**roles) if len(roles) == len(wanted) else None


def _reads_image(operand: EpilogueOperand, shape: tuple[int, ...]) -> bool:
    return _read_dimensions(operand, shape) == [d for d, size in enumerate(shape) if size > 1]


def _reads_channels(extents: SummedExtents, operand: EpilogueOperand, shape: tuple[int, ...]) -> bool:
    """Whether an operand of `outer x channels` is read by the image's number and the channel."""
    last = len(shape) - 1
    read = _read_dimensions(operand, shape)
    return read == [last] if extents.outer == 1 else read == [0, last] and shape[0] == extents.outer


def _read_dimensions(operand: EpilogueOperand, shape: tuple[int, ...]) -> list[int]:
    """Those of the result by which an operand is read, in the operand's order."""
    loops = [each.position for each in operand.indexing_map.results if isinstance(each, ir.AffineDimExpr)]
    return [dimension for dimension in loops if shape[dimension] > 1]
