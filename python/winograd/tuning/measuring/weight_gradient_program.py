"""The gradient of a filter as a program: padding of the image before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
from iree.winograd.dialect import reference
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.match.convolutions.weight_gradient import IN_SUMS_WORDS

from .layer_program import Array, LayerProgram, Sizes, f32
from .padding import padded_image


class WeightGradientProgram(LayerProgram):
    """Its function `main` takes the image and the gradients of the outputs, channels last.

    Groups are a dimension of their own before the channels of each. Results have a variance of about one.
    """

    # The letters of dimensions are those of `WeightGradient`.

    @cached_property
    def arguments(self) -> tuple[Array, Array]:
        problem, generator = self.problem, np.random.default_rng(0)
        assert problem.batch is not None, "gradients of filters need a static batch"
        groups = self._groups
        image = generator.standard_normal(
            (problem.batch, *problem.input_size, *groups, problem.group_inputs), np.float32
        )
        scale = np.float32(1 / np.sqrt(problem.batch * prod(problem.output_size)))
        gradient = scale * generator.standard_normal(
            (problem.batch, *problem.output_size, *groups, problem.group_outputs), np.float32
        )
        return image, gradient

    @property
    def result_shape(self) -> tuple[int, ...]:
        problem = self.problem
        return (*problem.kernel_size, problem.group_inputs, *self._groups, problem.group_outputs)

    def expected(self) -> Array:
        problem, rank = self.problem, self.problem.spatial_rank
        image, gradient = (each.reshape(*each.shape[: 1 + rank], -1) for each in self.arguments)
        return reference.weight_gradient(
            image,
            gradient,
            problem.kernel_size,
            problem.strides,
            problem.dilations,
            problem.padding_low,
            problem.padding_high,
            problem.groups,
        ).reshape(self.result_shape)

    def build_sums(self, arguments: Sequence[ir.Value], sizes: Sizes) -> ir.Value:
        image, gradient = arguments
        spatial = "".join(map(str, range(self.problem.spatial_rank)))
        groups = "g" if self._groups else ""
        image_layout, gradient_layout, filter_layout = (
            layout.translate(IN_SUMS_WORDS)
            for layout in (f"n{spatial}{groups}c", f"n{spatial}{groups}f", f"{spatial}c{groups}f")
        )
        operands = (padded_image(image, self.problem), gradient, zero_filled(sizes, f32()))
        # As a convolution it has the dilations of the forward one for strides.
        layouts = image_layout, gradient_layout, filter_layout
        return build_convolution(layouts, self.problem.dilations, self.problem.strides, operands)

    @property
    def _groups(self) -> tuple[int, ...]:
        return (self.problem.groups,) if self.problem.groups > 1 else ()
