"""Convolutions in the form of others, which they replace."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.infrastructure.algorithm import copy_annotations
from iree.winograd.passes.match.convolutions.convolution import Convolution


def build_similar(
    convolution: Convolution,
    operands: tuple[ir.Value, ir.Value, ir.Value],
    dilations: Sequence[int] | None = None,
) -> ir.Value:
    """Build the convolution of `operands`, input, filter, and what it is added to, in the form of another.

    It has the other's layouts, strides and annotations, and its dilations unless these are given.
    """
    dilations = convolution.dilations if dilations is None else dilations
    operation = convolution.operation
    if operation.name == "linalg.generic":
        layouts = convolution.input_layout, convolution.filter_layout, convolution.output_layout
        built = build_convolution(layouts, convolution.strides, dilations, operands)
    else:
        *inputs, init = operands
        built = build_windowed(type(operation.opview), inputs, init, convolution.strides, dilations)
    copy_annotations(operation, built.owner)
    return built
