"""Convolutions of any layout, built as `linalg.generic`, and those like others."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.generic import build_generic
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.match.convolution import Convolution


def build_convolution(
    layouts: tuple[str, str, str],
    strides: Sequence[int],
    dilations: Sequence[int],
    operands: tuple[ir.Value, ir.Value, ir.Value],
) -> ir.Value:
    """Build the convolution of `operands`: input, filter, and what it is added to.

    `layouts` are theirs, with the letters of `Convolution`.
    """
    spatial = [str(dimension) for dimension in range(len(strides))]
    reductions = [letter for letter in "c" if letter in layouts[1]]
    names = [*layouts[2], *reductions, *(f"tap {letter}" for letter in spatial)]
    loops = {name: ir.AffineExpr.get_dim(index) for index, name in enumerate(names)}
    taps = {letter: loops[f"tap {letter}"] for letter in spatial}
    positions = {
        letter: loops[letter] * stride + taps[letter] * dilation
        for letter, stride, dilation in zip(spatial, strides, dilations, strict=True)
    }
    indices = ({**loops, **positions}, {**loops, **taps}, loops)
    *reads, init = (
        (operand, ir.AffineMap.get(len(names), 0, [index[letter] for letter in layout]))
        for operand, layout, index in zip(operands, layouts, indices, strict=True)
    )
    iterators = ["parallel"] * len(layouts[2]) + ["reduction"] * (len(names) - len(layouts[2]))

    def multiply_add(elements: list[ir.Value]) -> ir.Value:
        element, weight, accumulator = elements
        return arith.addf(accumulator, arith.mulf(element, weight))

    return build_generic(reads, init, iterators, multiply_add)


def build_like(
    convolution: Convolution,
    operands: tuple[ir.Value, ir.Value, ir.Value],
    dilations: Sequence[int] | None = None,
) -> ir.Value:
    """Build the convolution of `operands`, input, filter, and what it is added to, in the form of another.

    It has the other's layouts and strides, and its dilations unless these are given.
    """
    dilations = convolution.dilations if dilations is None else dilations
    operation = convolution.operation
    if operation.name == "linalg.generic":
        layouts = convolution.input_layout, convolution.filter_layout, convolution.output_layout
        return build_convolution(layouts, convolution.strides, dilations, operands)
    *inputs, init = operands
    return build_windowed(type(operation.opview), inputs, init, convolution.strides, dilations)
