"""Rewrite annotated products of rows and a matrix to convolutions."""

from __future__ import annotations

from operator import itemgetter

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.groups import image_of_rows, rows_of_image
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME, copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.infrastructure.unit import Unit, keep_origin
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.matmul import Matmul, match_matmul, matmuls
from iree.winograd.passes.rewrite.before_collapse import compute_before_collapse
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-convert-matmul"


@register_pass(PASS_NAME)
class ConvertMatmul:
    """Rewrite annotated products of rows and a matrix to convolutions.

    A fully connected layer is a 1x1 convolution of an image with a pixel for each row: that whose pixels
    became the rows, or else a line. Elementwise operations behind the product apply to the image, so that
    they can move into the convolution's epilogue.

        %r = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
               ins(%x, %w : tensor<4x512xf32>, tensor<512x1000xf32>) outs(%zeros)
      becomes
        %line = tensor.expand_shape %x [[0, 1], [2]] : tensor<4x512xf32> into tensor<1x4x512xf32>
        %taps = tensor.expand_shape %w [[0, 1], [2]] : tensor<512x1000xf32> into tensor<1x512x1000xf32>
        %c = linalg.generic {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
               ins(%line, %taps) outs(%zeros)
        %r = tensor.collapse_shape %c [[0, 1], [2]] : tensor<1x4x1000xf32> into tensor<4x1000xf32>
    """

    def run(self, module: ir.Operation) -> None:
        # Before any of them is rewritten: the images are those that the algorithms were chosen for.
        annotated = [
            (number, operation, match_matmul(operation))
            for number, operation in enumerate(matmuls(module))
            if ATTRIBUTE_NAME in operation.attributes
        ]
        rewrite_each(
            "matmul",
            annotated,
            lambda each: _convert(*each),
            operation_of=itemgetter(1),
            leaves_out_origin=True,
        )


def _convert(number: int, operation: ir.Operation, matmul: Matmul | NoMatch) -> None:
    if isinstance(matmul, NoMatch):
        operation.location.emit_error(f"an annotated product can't be converted: {matmul}")
        raise PassError
    keep_origin(operation, Unit(PASS_NAME, "matmul", number))
    with operation.location, ir.InsertionPoint(operation):
        convolution = _build_convolution(matmul)
        copy_annotations(operation, convolution.owner)
        result = rows_of_image(convolution)
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    compute_before_collapse(result)


def _build_convolution(matmul: Matmul) -> ir.Value:
    rank = matmul.spatial_rank
    image = image_of_rows(matmul.rows, matmul.pixels)
    filters = image_of_rows(matmul.matrix, (*[1] * rank, matmul.input_channels))
    zeros = zero_filled([*matmul.pixels, matmul.output_channels], image.type.element_type)
    spatial = "".join(map(str, range(rank)))
    layouts = (f"n{spatial}c", f"{spatial}cf", f"n{spatial}f")
    return build_convolution(layouts, [1] * rank, [1] * rank, (image, filters, zeros))
