"""Write products of long rows and a matrix of few columns as sums of products."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.algebra.numerics import parts_of_sum
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.generic import build_generic
from iree.winograd.passes.build.groups import split
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.products.matmul import Matmul, match_matmul, matmuls
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend

_MOST_ROWS, _MOST_COLUMNS = 4, 4
"""Of which IREE's code for parts takes no longer than for all at once."""


@register_pass("winograd-split-matmuls")
class SplitMatmuls:
    """Write products of long rows and a matrix of few columns as sums of products, on CPUs.

    Fully connected layers of all pixels with few results are left to IREE, whose code adds all products of a
    row one after the other. Rows are parted into blocks of about as many elements as our kernels add in a
    row.

        %t = linalg.transpose ins(%w : tensor<2x50176xf32>) permutation = [1, 0]
        %r = linalg.matmul ins(%x, %t : tensor<1x50176xf32>, tensor<50176x2xf32>) outs(%zeros)
      becomes
        %xp = tensor.expand_shape %x : tensor<1x50176xf32> into tensor<1x49x1024xf32>
        %wp = tensor.expand_shape %w : tensor<2x50176xf32> into tensor<2x49x1024xf32>
        %p = linalg.generic {iterator_types = [parallel, parallel, parallel, reduction]}
               ins(%xp, %wp) outs(%z : tensor<49x1x2xf32>) { arith.mulf, arith.addf }
        %r = linalg.generic {iterator_types = [reduction, parallel, parallel]}
               ins(%p : tensor<49x1x2xf32>) outs(%zeros : tensor<1x2xf32>) { arith.addf }

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.vectorizes_loops:
            rewrite_each("product", list(matmuls(module)), _split)


def _split(operation: ir.Operation) -> None:
    product = match_matmul(operation)
    if not isinstance(product, Matmul) or product.output_channels > _MOST_COLUMNS:
        return
    if product.rows.type.shape[0] > _MOST_ROWS:
        return
    parts = parts_of_sum(product.input_channels, product.input_channels)
    if parts is None:
        return
    with operation.location, ir.InsertionPoint(operation):
        operation.results[0].replace_all_uses_with(_sum_of_products(product, parts))
    erase_if_unused([operation])


def _sum_of_products(product: Matmul, parts: int) -> ir.Value:
    """Build the products of parts of rows and columns, and their sum."""
    columns, along = product.matrix, 0
    transposition = defining_operation(columns)
    if transposition is not None and transposition.name == "linalg.transpose":
        # IREE's vectors are of what lies side by side.
        columns, along = transposition.operands[0], 1
    length = product.input_channels // parts
    operands = [split(value, at, (parts, length)) for value, at in ((product.rows, 1), (columns, along))]
    part, row, column, term = (ir.AffineExpr.get_dim(loop) for loop in range(4))
    of_columns = [part, term, column] if along == 0 else [column, part, term]
    init = product.operation.operands[2]
    sizes = [parts, *shape_of(init)]
    products = build_generic(
        [
            (operands[0], ir.AffineMap.get(4, 0, [row, part, term])),
            (operands[1], ir.AffineMap.get(4, 0, of_columns)),
        ],
        (zero_filled(sizes, init.type.element_type), ir.AffineMap.get(4, 0, [part, row, column])),
        ["parallel", "parallel", "parallel", "reduction"],
        lambda elements: arith.addf(arith.mulf(elements[0], elements[1]), elements[2]),
    )
    return build_generic(
        [(products, ir.AffineMap.get_identity(3))],
        (init, ir.AffineMap.get(3, 0, [row, column])),
        ["reduction", "parallel", "parallel"],
        lambda elements: arith.addf(*elements),
    )
