"""Convolutions of any layout, built as `linalg.generic`."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir, linalg


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
    kinds = ["parallel"] * len(layouts[2]) + ["reduction"] * (len(names) - len(layouts[2]))
    generic = linalg.GenericOp(
        [operands[2].type],
        operands[:2],
        operands[2:],
        ir.ArrayAttr.get(
            [
                ir.AffineMapAttr.get(ir.AffineMap.get(len(names), 0, [index[letter] for letter in layout]))
                for layout, index in zip(layouts, indices, strict=True)
            ]
        ),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]),
    )
    types = [operand.type.element_type for operand in operands]
    body = generic.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * 3)
    with ir.InsertionPoint(body):
        element, weight, accumulator = body.arguments
        linalg.yield_([arith.addf(accumulator, arith.mulf(element, weight))])
    return generic.results[0]
