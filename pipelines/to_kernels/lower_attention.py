"""Have kernels of this project compute attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import shape_of, size_of, zero_filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.attention import Attention, is_attention, match_attention
from iree.winograd.passes.rewrite.erasure import erase_if_unused, erase_with_operands
from iree.winograd.passes.rewrite.moved_result import replace_moved

from ..backends.backend import Backend, Lowering
from ..backends.fused_attention import fused_attention
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import BatchedAttention, RowSoftmax
from ..selection.options import WinogradOptions

PASS_NAME = "winograd-lower-attention"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class LowerAttention:
    """Have kernels of this project compute attention.

    `winograd-fuse-attention` and iree-turbine have attention as one operation, for which IREE's code takes 3
    to 70 times as long on CPUs as kernels of products and softmax do. One kernel computes all of it where
    nothing is masked and the scores of some queries fit L2. It reads and writes heads where they are.

        %y = iree_linalg_ext.attention ins(%q, %k, %v, %scale) : tensor<3x197x64xf32>
      becomes
        %y = flow.dispatch @winograd_safe_attention_3x197x197_from_64_to_64(%q, %k, %v)

    A mask is an operand more, read where it is: of a bias that all batches share there is one.

    On GPUs one kernel computes heads of up to 128 channels, on NVIDIA's matrix units of up to 160, by blocks
    of keys, and all else stays. What was rounded to half precision sm_90a multiplies so: the kernel reads
    what was widened for it, and writes what is rounded after it. On CPUs it is otherwise written as products
    and softmax, which kernels compute. Rows whose scores are all minus infinity become zeros, as torch has
    it.

        %y = iree_linalg_ext.attention ins(%q, %k, %v, %scale, %mask) : tensor<3x197x64xf32>
      becomes
        %l = linalg.generic ins(%q) { arith.mulf %scale }
        %s = linalg.batch_matmul {b m k, b n k -> b m n} ins(%l, %k) outs(%zeros : tensor<3x197x197xf32>)
        %m = linalg.generic ins(%s, %mask) { arith.addf }
        %p = flow.dispatch @winograd_safe_softmax_197x197(%m)
        %y = linalg.batch_matmul ins(%p, %v) outs(%zeros : tensor<3x197x64xf32>)

    A mask is added to the scores, one of truth values as zeros and minus infinity.
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        found = [each for each in walk(module) if is_attention(each)]
        backend = supported_backend(module) if found else None
        if backend is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("attention", found, lambda each: self._lower(each, backend, lowering))

    def _lower(self, operation: ir.Operation, backend: Backend, lowering: Lowering) -> None:
        attention = match_attention(operation)
        if isinstance(attention, NoMatch):
            remark_left(PASS_NAME, attention)
            return
        batched = fused_attention(attention, backend, self.threads)
        if isinstance(batched, BatchedAttention):
            replace_moved(operation, batched.attention.result, partial(_computed, batched, lowering))
            erase_with_operands(operation)
            return
        if backend.iree_code.attends_slowly:
            _separate(attention, backend, lowering)
        else:
            remark_left(PASS_NAME, batched)


def _computed(operation: BatchedAttention, lowering: Lowering) -> ir.Value:
    """In the type that the program has."""
    result = lowering.compute(operation)
    return result if operation.attention.rounded is None else converted(result, ir.F32Type.get())


def _separate(attention: Attention, backend: Backend, lowering: Lowering) -> None:
    """Write attention as products and softmax."""
    operation = attention.operation
    with operation.location, ir.InsertionPoint(operation):
        scores = _masked(attention, _scores(attention))
        softmax = RowSoftmax(scores, scores.type.shape[-1], attention.safe)
        if reason := backend.misfit(softmax):
            remark_left(PASS_NAME, NoMatch(operation, reason))
            erase_if_unused([scores.owner.operation])
            return
        result = _product(lowering.compute(softmax), attention.values, right_is_transposed=False)
    operation.results[0].replace_all_uses_with(result)
    erase_with_operands(operation)


def _scores(attention: Attention) -> ir.Value:
    """Scaled queries by keys."""
    queries = attention.queries
    init = tensor.empty(shape_of(queries), queries.type.element_type)
    identity = ir.AffineMap.get_identity(3)
    scaled = build_elementwise(
        [(queries, identity)], init, lambda elements: arith.mulf(elements[0], attention.scale)
    )
    return _product(scaled, attention.keys, right_is_transposed=True)


def _masked(attention: Attention, scores: ir.Value) -> ir.Value:
    """The scores with what the mask adds to them."""
    mask = attention.mask
    if mask is None:
        return scores
    single = ir.F32Type.get()
    nothing, lowest = (arith.constant(single, number) for number in (0.0, -inf))

    def masked(elements: list[ir.Value]) -> ir.Value:
        score, added, _ = elements
        if added.type != single:
            added = arith.select(added, nothing, lowest)
        return arith.addf(score, added)

    identity = ir.AffineMap.get_identity(3)
    init = tensor.empty(shape_of(scores), scores.type.element_type)
    return build_elementwise([(scores, identity), (mask, identity)], init, masked)


def _product(left: ir.Value, right: ir.Value, *, right_is_transposed: bool) -> ir.Value:
    b, m, n, k = (ir.AffineExpr.get_dim(position) for position in range(4))
    columns = [b, n, k] if right_is_transposed else [b, k, n]
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(4, 0, each)) for each in ([b, m, k], columns, [b, m, n])]
    sizes = size_of(left, 0), size_of(left, 1), size_of(right, 1 if right_is_transposed else 2)
    zeros = zero_filled(sizes, left.type.element_type)
    return build_named(linalg.BatchMatmulOp, [left, right], zeros, indexing_maps=ir.ArrayAttr.get(maps))
