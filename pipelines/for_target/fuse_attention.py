"""Have products with a softmax between be one operation, attention."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.attention import (
    ATTENTION,
    SAFE_ATTRIBUTE_NAME,
    indexing_maps,
    match_attention,
    match_fused,
)
from iree.winograd.passes.match.attention_chain import AttentionChain, attention_chains
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import BatchedAttention


@register_pass("winograd-fuse-attention")
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

    Scores that something else reads, or a mask is added to, stay. On GPUs all stays that one kernel doesn't
    compute: products of many channels become layers there.
    """

    def run(self, module: ir.Operation) -> None:
        chains = attention_chains(module)
        backend = supported_backend(module) if chains else None
        if backend is not None:
            of_product = {each.product: each for each in chains}
            rewrite_each("attention", list(of_product), lambda product: _fuse(of_product[product], backend))


def _fuse(chain: AttentionChain, backend: Backend) -> None:
    product = chain.product
    with product.location, ir.InsertionPoint(product):
        keys = chain.keys if chain.keys_are_rows else transposed(chain.keys, [0, 2, 1])
        scale = arith.constant(ir.F32Type.get(), chain.factor)
        type_ = ir.RankedTensorType(product.results[0].type)
        attention = ir.Operation.create(
            ATTENTION,
            [type_],
            [chain.queries, keys, chain.values, scale, tensor.empty(type_.shape, type_.element_type)],
            {
                "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in indexing_maps()]),
                SAFE_ATTRIBUTE_NAME: ir.BoolAttr.get(chain.safe),
            },
            regions=1,
        )
        body = attention.regions[0].blocks.append(ir.F32Type.get())
        with ir.InsertionPoint(body):
            ir.Operation.create("iree_linalg_ext.yield", [], [body.arguments[0]])
    if not backend.iree_code.attends_slowly and not _has_kernel(attention, backend):
        erase_if_unused([attention])
        return
    product.results[0].replace_all_uses_with(attention.result)
    erase_if_unused([product])


def _has_kernel(operation: ir.Operation, backend: Backend) -> bool:
    """Whether one kernel computes the attention."""
    attention = match_attention(operation)
    fused = attention if isinstance(attention, NoMatch) else match_fused(attention)
    return not isinstance(fused, NoMatch) and backend.misfit(BatchedAttention(fused, threads=1)) is None
