"""Have products with a softmax between be one operation, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.generic import build_elementwise, build_sum
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.no_match import NoMatch, Reason
from iree.winograd.passes.match.products.attention import (
    ATTENTION,
    SAFE_ATTRIBUTE_NAME,
    indexing_maps,
    match_attention,
    match_fused,
)
from iree.winograd.passes.match.products.attention_chain import AttentionChain, ScoreMask, attention_chains
from iree.winograd.passes.rewrite.erasure import erase_if_unused, erase_with_operands

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import BatchedAttention, RowSoftmax

PASS_NAME = "winograd-fuse-attention"


@register_pass(PASS_NAME)
class FuseAttention:
    """Have products with a softmax between be one operation, attention.

    Between two products of matrices, none of which is known before the program runs, torch has a softmax of
    rows. Written as IREE's operation for that, no pass sees the scores by themselves any more, which are as
    many as tokens times tokens. `winograd-lower-attention` has a kernel for it.

        %s = linalg.batch_matmul ins(%q, %k) outs(%zeros : tensor<3x197x197xf32>)
        %p = softmax of %s
        %y = linalg.batch_matmul ins(%p, %v) outs(%zeros : tensor<3x197x64xf32>)
      becomes
        %t = linalg.transpose ins(%k) permutation = [0, 2, 1]
        %y = iree_linalg_ext.attention ins(%q, %t, %v, %scale) : tensor<3x197x64xf32>

    What is added to scores, a bias or a mask, or puts minus infinity in their place, is the operation's last
    operand, of which batches or heads may share a part. A softmax of scores that something else reads stays.
    So does attention that one kernel doesn't compute, where there is a mask, where no kernel has the softmax
    by itself, as of the few rows of attention between channels, and on GPUs all such: products of many
    channels become layers there. Scores and weights that a program of half precision rounds stay f32.

        %m = linalg.generic ins(%s, %bias : tensor<3x197x197xf32>, tensor<197x197xf32>) { arith.addf }
        %p = softmax of %m
      becomes
        %b = linalg.generic ins(%bias) { linalg.yield } -> tensor<3x197x197xf32>
        %y = iree_linalg_ext.attention ins(%q, %t, %v, %scale, %b) : tensor<3x197x64xf32>
    """

    def run(self, module: ir.Operation) -> None:
        chains = attention_chains(module)
        backend = supported_backend(module) if chains else None
        if backend is not None:
            # The last one first: the result of another may be what it reads, which is replaced then.
            rewrite_each(
                "attention",
                reversed(chains),
                lambda chain: _fuse(chain, backend),
                operation_of=lambda chain: chain.product,
            )


def _fuse(chain: AttentionChain, backend: Backend) -> None:
    product = chain.product
    with product.location, ir.InsertionPoint(product):
        keys = chain.keys if chain.keys_are_rows else transposed(chain.keys, [0, 2, 1])
        scale = arith.constant(ir.F32Type.get(), chain.factor)
        type_ = ir.RankedTensorType(product.results[0].type)
        masks = [_mask(chain.masks)] if chain.masks else []
        maps = indexing_maps(is_masked=bool(masks))
        init = tensor.empty(type_.shape, type_.element_type)
        attention = ir.Operation.create(
            ATTENTION,
            [type_],
            [chain.queries, keys, chain.values, scale, *masks, init],
            {
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
                SAFE_ATTRIBUTE_NAME: ir.BoolAttr.get(chain.safe),
            },
            regions=1,
        )
        body = attention.regions[0].blocks.append(ir.F32Type.get())
        with ir.InsertionPoint(body):
            ir.Operation.create("iree_linalg_ext.yield", [], [body.arguments[0]])
    needs_kernel = bool(masks) or not backend.iree_code.attends_slowly or _softmax_misfit(chain, backend)
    misfit = _misfit(attention, backend) if needs_kernel else None
    if misfit is not None:
        if masks:
            remark_left(PASS_NAME, NoMatch(product, misfit.reason))
        erase_with_operands(attention)
        return
    product.results[0].replace_all_uses_with(attention.result)
    erase_if_unused([product])


def _mask(masks: Sequence[ScoreMask]) -> ir.Value:
    """Masks as one tensor, b x m x n."""
    return build_sum([_whole_mask(each) for each in masks]) if len(masks) > 1 else _whole_mask(masks[0])


def _whole_mask(mask: ScoreMask) -> ir.Value:
    """A mask with an element for each score, b x m x n; of truth values those are False that hide it."""
    value = _inverted(mask.value) if mask.hides else mask.value
    element, rank = value.type.element_type, len(mask.shape)
    if mask.indexing_map != ir.AffineMap.get_identity(rank):
        init = tensor.empty(mask.shape, element)
        value = build_elementwise([(value, mask.indexing_map)], init, lambda elements: elements[0])
    *batch, rows, columns = mask.shape
    type_ = ir.RankedTensorType.get([prod(batch), rows, columns], element)
    if rank > type_.rank:
        *outer, row, column = range(rank)
        return tensor.collapse_shape(type_, value, [outer, [row], [column]])
    if rank < type_.rank:
        return tensor.expand_shape(type_, value, [[0, 1], [2]], [], type_.shape)
    return value


def _inverted(truth: ir.Value) -> ir.Value:
    type_ = ir.RankedTensorType(truth.type)
    true = arith.constant(type_.element_type, True)
    read = truth, ir.AffineMap.get_identity(type_.rank)
    return build_elementwise(
        [read], tensor.empty(type_.shape, type_.element_type), lambda elements: arith.xori(elements[0], true)
    )


def _softmax_misfit(chain: AttentionChain, backend: Backend) -> Reason | None:
    """Why no kernel computes the softmax between products that kernels compute by themselves."""
    weights = chain.product.operands[0]
    return backend.misfit(RowSoftmax(weights, weights.type.shape[-1], chain.safe))


def _misfit(operation: ir.Operation, backend: Backend) -> NoMatch | None:
    """Why no kernel computes the attention by itself; None where one does."""
    attention = match_attention(operation)
    fused = attention if isinstance(attention, NoMatch) else match_fused(attention)
    if isinstance(fused, NoMatch):
        return fused
    reason = backend.misfit(BatchedAttention(fused, threads=1))
    return None if reason is None else NoMatch(operation, reason)
