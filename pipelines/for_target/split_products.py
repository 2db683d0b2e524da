"""Write products of matrices with long sums as sums of products."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.numerics import parts_of_sum
from iree.winograd.dialect.bindings import arith, ir, linalg
from iree.winograd.passes.build.generic import build_generic
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.products.batch_matmul import (
    BatchMatmul,
    BatchProduct,
    is_batch_matmul,
    letters_of,
    match_batch_matmul,
)
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import BatchedProduct
from ..selection.options import WinogradOptions

_OF_OPERANDS = 4
"""Products of parts have at most one number for so many of the matrices."""


@register_pass("winograd-split-products")
@dataclass(frozen=True)
class SplitProducts:
    """Write products of matrices with long sums as sums of products, on CPUs.

    Gram matrices of images, and attention between channels, are sums over all pixels, which IREE's code for
    CPUs adds one after the other. Pixels are parted into blocks of about as many as our kernels add in a row,
    whose products are those of a batch, and these are added. Products that our kernel computes stay, as it
    adds in blocks, and so do those of matrices in which the channels of a pixel don't lie side by side: to
    gather their blocks takes as long as it gains.

        %g = linalg.batch_matmul ins(%l, %r : tensor<1x16x65536xf32>, tensor<1x65536x16xf32>) outs(%zeros)
      becomes
        %lp = linalg.transpose ins(%l as 1x16x64x1024) permutation = [0, 2, 1, 3]  -> collapse_shape
        %rp = tensor.expand_shape %r                                               -> collapse_shape
        %p = linalg.batch_matmul ins(%lp, %rp : tensor<64x16x1024xf32>, tensor<64x1024x16xf32>) outs(%z)
        %g = linalg.generic {iterator_types = [parallel, reduction, parallel, parallel]}
               ins(%p : tensor<1x64x16x16xf32>) outs(%zeros : tensor<1x16x16xf32>) { arith.addf }
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        products = [each for each in walk(module) if is_batch_matmul(each)]
        if not products or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.vectorizes_loops:
            rewrite_each("product", products, lambda each: self._split(each, backend))

    def _split(self, operation: ir.Operation, backend: Backend) -> None:
        product = match_batch_matmul(operation)
        if not isinstance(product, BatchMatmul) or letters_of(operation)[2] != "bmn":
            return
        parts = _parts(product.problem)
        if parts is None or backend.misfit(BatchedProduct(product, self.threads)) is None:
            return
        with operation.location, ir.InsertionPoint(operation):
            operation.results[0].replace_all_uses_with(_sum_of_products(operation, product.problem, parts))
        erase_if_unused([operation])


def _parts(problem: BatchProduct) -> int | None:
    """Parts of the pixels, all of one size, whose products take little memory; None where one sum stays."""
    is_of_pixels = problem.right.column_stride == 1 and (problem.rows == 1 or problem.left.row_stride == 1)
    if not is_of_pixels:
        return None
    most = (
        problem.reduction
        * (problem.rows + problem.columns)
        // (_OF_OPERANDS * problem.rows * problem.columns)
    )
    return parts_of_sum(problem.reduction, most)


def _sum_of_products(operation: ir.Operation, problem: BatchProduct, parts: int) -> ir.Value:
    """Build the products of the parts, and their sum."""
    left, right, init = operation.operands
    of_left, of_right, _ = letters_of(operation)
    element = init.type.element_type
    operands = [
        _parted(value, letters, order, parts)
        for value, letters, order in ((left, of_left, "bmk"), (right, of_right, "bkn"))
    ]
    zeros = zero_filled([problem.batch * parts, problem.rows, problem.columns], element)
    products = split(build_named(linalg.BatchMatmulOp, operands, zeros), 0, (problem.batch, parts))
    batch, _, row, column = (ir.AffineExpr.get_dim(loop) for loop in range(4))
    return build_generic(
        [(products, ir.AffineMap.get_identity(4))],
        (init, ir.AffineMap.get(4, 0, [batch, row, column])),
        ["parallel", "reduction", "parallel", "parallel"],
        lambda elements: arith.addf(*elements),
    )


def _parted(value: ir.Value, letters: str, order: str, parts: int) -> ir.Value:
    """Build the matrices of the parts, in `order`, those of one matrix of the batch after the other."""
    along = letters.index("k")
    extent = ir.RankedTensorType(value.type).shape[along]
    apart = split(value, along, (parts, extent // parts))
    names = letters.replace("k", "pk")
    return merged(transposed(apart, [names.index(each) for each in order.replace("b", "bp")]), 0)
