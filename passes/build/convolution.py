"""Convolutions of any layout, built as `linalg.generic`."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.generic import build_generic


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
