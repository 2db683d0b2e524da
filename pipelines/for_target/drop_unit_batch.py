"""Large products of a batch of one as products of matrices, which layers are."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, linalg
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.products.batch_matmul import is_batch_matmul, match_single_matmul
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend


@register_pass("winograd-drop-unit-batch")
class DropUnitBatch:
    """Write large products of a batch of one as products of matrices, where these may be layers: on GPUs.

    Attention of one head, as decoders of images have it, multiplies matrices of thousands of rows. IREE's
    code for GPUs does without matrix units. Where kernels multiply rows by a matrix that is known only at run
    time, and there is much to multiply, the product becomes one that `winograd-select-algorithm` looks at.

        %s = linalg.batch_matmul ins(%q, %k : tensor<1x4096x512xf32>, tensor<1x512x4096xf32>) outs(%zeros)
      becomes
        %l = tensor.collapse_shape %q [[0, 1], [2]] : tensor<1x4096x512xf32> into tensor<4096x512xf32>
        %r = tensor.collapse_shape %k [[0, 1], [2]] : tensor<1x512x4096xf32> into tensor<512x4096xf32>
        %p = linalg.matmul ins(%l, %r) outs(%z) -> tensor<4096x4096xf32>
        %s = tensor.expand_shape %p [[0, 1], [2]] : tensor<4096x4096xf32> into tensor<1x4096x4096xf32>
    """

    def run(self, module: ir.Operation) -> None:
        products = [each for each in walk(module) if is_batch_matmul(each)]
        if not products or (backend := supported_backend(module)) is None:
            return
        least = backend.search_space().least_unknown_multiply_adds
        if least is not None:
            rewrite_each("product", products, lambda each: _drop(each, least))


def _drop(operation: ir.Operation, least: int) -> None:
    product = match_single_matmul(operation)
    if product is None or product.multiply_adds < least:
        return
    left, right, _ = operation.operands
    with operation.location, ir.InsertionPoint(operation):
        rows, matrix = merged(left, 0), merged(right, 0)
        zeros = zero_filled([product.rows, product.columns], rows.type.element_type)
        result = split(build_named(linalg.MatmulOp, [rows, matrix], zeros), 0, (1, product.rows))
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
