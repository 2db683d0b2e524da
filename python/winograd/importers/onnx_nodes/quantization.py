"""Products of quantised matrices, where torch-mlir is wrong, and integers of 16 bits, which it lacks."""

from __future__ import annotations

from math import prod

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import TensorProto, helper


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


_SHORT = (TensorProto.INT16, TensorProto.UINT16)


@rewrites("QuantizeLinear")
def quantize(rewriting: Rewriting) -> None:
    """Rounds quotients to integers, and keeps them within those that there are, which f32 holds.

    torch-mlir has no conversion to integers of 16 bits, so they are numbers of f32 for what reads them.
    """
    x, scale, *zeros = rewriting.node.input
    short = rewriting.attributes.get("output_dtype", 0)
    if zeros and zeros[0]:
        short = rewriting.values.element_type(zeros[0])
    if short not in _SHORT or rewriting.attributes.get("block_size", 0):
        return
    integers = rewriting.node.output[0]
    if rewriting.values.is_output(integers):
        rewriting.refuse("integers of 16 bits as results of the model")
    number, step = (rewriting.add("Cast", each, to=TensorProto.FLOAT) for each in (x, scale))
    quotient = rewriting.add("Div", number, _along_axis(rewriting, step))
    result = rewriting.add("Round", quotient)
    if zeros and zeros[0]:
        zero = rewriting.add("Cast", zeros[0], to=TensorProto.FLOAT)
        result = rewriting.add("Add", result, _along_axis(rewriting, zero))
    bounds = np.iinfo(np.dtype(helper.tensor_dtype_to_np_dtype(short)))
    limits = [rewriting.constant_of(each, np.float32) for each in (bounds.min, bounds.max)]
    rewriting.add("Clip", result, *limits, into=integers)
    rewriting.retyped.add(integers)


@rewrites("DequantizeLinear")
def dequantize(rewriting: Rewriting) -> None:
    """Scales the differences from the zero points, which f32 holds exactly."""
    x, scale, *zeros = rewriting.node.input
    if rewriting.values.element_type(x) not in _SHORT or rewriting.attributes.get("block_size", 0):
        return
    number, step = (rewriting.add("Cast", each, to=TensorProto.FLOAT) for each in (x, scale))
    if zeros and zeros[0]:
        zero = rewriting.add("Cast", zeros[0], to=TensorProto.FLOAT)
        number = rewriting.add("Sub", number, _along_axis(rewriting, zero))
    product = rewriting.add("Mul", number, _along_axis(rewriting, step))
    rewriting.add("Cast", product, into=rewriting.node.output[0], to=rewriting.values.element_type(scale))


def _along_axis(rewriting: Rewriting, parameters: str) -> str:
    """Scales or zero points of the node, of an axis or of all, in a shape that its operand's has."""
    (count,) = rewriting.known_shape(1) or (1,)
    if count == 1:
        return rewriting.reshape(parameters, [])
    rank = rewriting.rank(0)
    sizes = [1] * rank
    sizes[rewriting.attributes.get("axis", 1) % rank] = count
    return rewriting.reshape(parameters, sizes)


def _differences(rewriting: Rewriting, matrix: str, zero: str) -> str:
    elements, offset = (rewriting.add("Cast", each, to=TensorProto.INT32) for each in (matrix, zero))
    return rewriting.add("Sub", elements, offset)
