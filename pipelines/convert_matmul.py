"""Rewrite products of a few rows and a matrix known in advance to convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.algorithm import Algorithm, set_algorithm
from iree.winograd.passes.constants import is_constant, is_known_at_load, is_zero
from iree.winograd.passes.registry import register_pass
from iree.winograd.passes.rewrite import defining_operation, erase_if_unused, is_dynamic, walk, zero_filled

from .backend import Backend
from .backends import module_backend, unsupported_target

LEAST_ELEMENTS = 1 << 16
"""Elements of a matrix from which on reading it outweighs a launch: IREE launches a bias with the product."""


@register_pass("winograd-convert-matmul")
@dataclass(frozen=True)
class ConvertMatmul:
    """Rewrite products of a few rows and a matrix known in advance to convolutions.

    A fully connected layer is a 1x1 convolution of a line of as many elements as there are rows. Its time is
    that of reading the matrix, which the direct kernel finds packed in the order of reading, and fetches
    ahead; on a GPU many workgroups each read a part of it. CPUs take up to 16 rows and constant matrices,
    GPUs 4 to 128 rows and parameters, too. Products of more rows, of small matrices and of those known only
    at run time are IREE's.

        %r = linalg.matmul ins(%x, %w : tensor<1x512xf32>, tensor<512x1000xf32>) outs(%zeros)
      becomes
        %line = tensor.expand_shape %x [[0, 1], [2]] : tensor<1x512xf32> into tensor<1x1x512xf32>
        %taps = tensor.expand_shape %w [[0, 1], [2]] : tensor<512x1000xf32> into tensor<1x512x1000xf32>
        %c = linalg.conv_1d_nwc_wcf {winograd.algorithm = {
          output_tile = array<i64: 1>, part_size = array<i64: 1>}} ins(%line, %taps) outs(%zeros)
        %r = tensor.collapse_shape %c [[0, 1], [2]] : tensor<1x1x1000xf32> into tensor<1x1000xf32>
    """

    def run(self, module: ir.Operation) -> None:
        if unsupported_target(module) is not None:
            return
        backend = module_backend(module)
        for operation in [each for each in walk(module) if _is_product_with_few_rows(each, backend)]:
            _convert(operation)


def _is_product_with_few_rows(operation: ir.Operation, backend: Backend) -> bool:
    if operation.name != "linalg.matmul" or not is_zero(operation.operands[2]):
        return False
    rows, matrix = operation.operands[0], operation.operands[1]
    if any(not isinstance(operand.type.element_type, ir.F32Type) for operand in operation.operands):
        return False
    if any(map(is_dynamic, rows.type.shape)) or rows.type.shape[0] == 0:
        return False
    row, column, channel = (ir.AffineExpr.get_dim(position) for position in range(3))
    expected = [[row, channel], [channel, column], [row, column]]
    maps = [ir.AffineMapAttr(attribute).value for attribute in linalg.get_indexing_maps(operation)]
    if [list(indexing_map.results) for indexing_map in maps] != expected:
        return False
    if any(map(is_dynamic, matrix.type.shape)) or prod(matrix.type.shape) < LEAST_ELEMENTS:
        return False
    is_known = is_known_at_load if backend.takes_parameters else is_constant
    return rows.type.shape[0] in backend.matmul_rows and is_known(matrix)


def _convert(operation: ir.Operation) -> None:
    rows, matrix, _ = operation.operands
    result_type = ir.RankedTensorType(operation.results[0].type)
    with operation.location, ir.InsertionPoint(operation):
        convolution = linalg.conv_1d_nwc_wcf(
            _expanded(rows),
            _expanded(matrix),
            outs=[zero_filled([1, *result_type.shape], result_type.element_type)],
            strides=[1],
            dilations=[1],
        )
        definition = defining_operation(convolution)
        assert definition is not None
        set_algorithm(definition, Algorithm((1,), (1,)))
        result = tensor.collapse_shape(result_type, convolution, [[0, 1], [2]])
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _expanded(value: ir.Value) -> ir.Value:
    shape = [1, *ir.RankedTensorType(value.type).shape]
    type_ = ir.RankedTensorType.get(shape, value.type.element_type)
    return tensor.expand_shape(type_, value, [[0, 1], [2]], [], shape)
