"""The zeros around the images of a layer."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.slices import padded
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem

from .layer_program import f32


def padded_image(image: ir.Value, problem: ConvolutionProblem) -> ir.Value:
    """Build `image`, N x H... x channels, padded as `problem` is; itself where that isn't."""
    if not any((*problem.padding_low, *problem.padding_high)):
        return image
    channels = [0] * (len(image.type.shape) - 1 - problem.spatial_rank)
    low, high = [0, *problem.padding_low, *channels], [0, *problem.padding_high, *channels]
    # What isn't padded keeps its size, also one that is known only at run time.
    shape = [sum(sizes) for sizes in zip(image.type.shape, low, high, strict=True)]
    return padded(image, shape, low, high, arith.constant(f32(), 0.0))
