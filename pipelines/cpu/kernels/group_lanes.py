"""Vectors of output channels that hold whole groups of few channels, and the input channels of these."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.problems.shape import ConvolutionShape


def input_lanes(shape: ConvolutionShape, width: int) -> int:
    """Input channels of the groups of one vector of `width` outputs."""
    return width // shape.group_outputs * shape.group_inputs


def spread_to_outputs(elements: ir.Value, channel: int, shape: ConvolutionShape, width: int) -> ir.Value:
    """Input channel `channel` of each group in the lanes, `width`, of the group's outputs."""
    if shape.group_inputs == shape.group_outputs == 1:
        return elements
    lanes = [lane // shape.group_outputs * shape.group_inputs + channel for lane in range(width)]
    with named("spread"):
        return vector.shuffle(elements, elements, lanes)
