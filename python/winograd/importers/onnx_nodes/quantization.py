"""`QLinearMatMul` of more than two matrices, which torch-mlir has wrong."""

from __future__ import annotations

from math import prod

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import TensorProto


@rewrites("QLinearMatMul")
def quantized_product(rewriting: Rewriting) -> None:
    """Multiplies the differences from the zero points as integers, then scales and rounds the sums."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = rewriting.node.input
    if rewriting.rank(0) == rewriting.rank(3) == 2:
        return
    for index in (1, 2, 4, 5, 6, 7):
        if prod(rewriting.known_shape(index)) != 1:
            rewriting.refuse("scales of its rows or columns and more than two matrices")
    sums = rewriting.add("MatMul", *(_differences(rewriting, *each) for each in ((a, a_zero), (b, b_zero))))
    factors = [rewriting.add("Cast", each, to=TensorProto.FLOAT) for each in (a_scale, b_scale, scale)]
    factor = rewriting.add("Div", rewriting.add("Mul", *factors[:2]), factors[2])
    scaled = rewriting.add("Mul", rewriting.add("Cast", sums, to=TensorProto.FLOAT), factor)
    moved = rewriting.add("Add", scaled, rewriting.add("Cast", zero, to=TensorProto.FLOAT))
    bounds = np.iinfo(np.dtype(rewriting.dtype(zero)))
    limits = [rewriting.constant_of(each, np.float32) for each in (bounds.min, bounds.max)]
    rounded = rewriting.add("Clip", rewriting.add("Round", moved), *limits)
    rewriting.add("Cast", rounded, into=rewriting.node.output[0], to=rewriting.values.element_type(zero))


def _differences(rewriting: Rewriting, matrix: str, zero: str) -> str:
    elements, offset = (rewriting.add("Cast", each, to=TensorProto.INT32) for each in (matrix, zero))
    return rewriting.add("Sub", elements, offset)
