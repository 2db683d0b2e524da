"""A convolution as a program: padding before it, bias and ReLU after."""

from __future__ import annotations

import numpy as np
from iree.winograd.dialect import reference
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.layouts.image_layout import to_channels_first, to_channels_last

from .constant_filter_program import ConstantFilterProgram
from .layer_program import DYNAMIC_BATCH, Array, Sizes, f32
from .padding import padded_image


class ConvolutionProgram(ConstantFilterProgram):
    """Groups are a dimension of their own before the channels of each, but not of channels-first images.

    Such an image is transposed, and such a result.
    """

    # The letters of dimensions are those of `Convolution`.

    @property
    def image_shape(self) -> tuple[int, ...]:
        return (self._batch, *self.problem.input_size, *self._sizes(self._image_channels))

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return (*self.problem.kernel_size, *self._sizes(self._filter_channels))

    @property
    def bias_shape(self) -> tuple[int, ...]:
        return self._sizes(self._output_channels)

    @property
    def sums_shape(self) -> tuple[int, ...]:
        return (self._batch, *self.problem.output_size, *self.bias_shape)

    @property
    def result_shape(self) -> tuple[int, ...]:
        if not self.problem.output_channels_first:
            return self.sums_shape
        return (self._batch, self.problem.output_channels, *self.problem.output_size)

    @property
    def arguments(self) -> tuple[Array, ...]:
        if not self.problem.input_channels_first:
            return super().arguments
        return (_channels_first(self.image, self.problem.spatial_rank),)

    def expected(self) -> Array:
        positive = super().expected()
        if not self.problem.output_channels_first:
            return positive
        return _channels_first(positive, self.problem.spatial_rank)

    def expected_sums(self) -> Array:
        problem = self.problem
        return reference.convolution(
            self.image.reshape(self._batch, *problem.input_size, problem.input_channels),
            self.filters.reshape(*problem.kernel_size, problem.group_inputs, problem.output_channels),
            problem.strides,
            problem.dilations,
            problem.padding_low,
            problem.padding_high,
            problem.groups,
        )

    def build_result(self, sums: ir.Value, sizes: Sizes) -> ir.Value:
        result = super().build_result(sums, sizes)
        if not self.problem.output_channels_first:
            return result
        rank = self.problem.spatial_rank + 2
        last = result if len(sizes) == rank else merged(result, rank - 1)
        return transposed(last, to_channels_first(rank))

    def build_sums_of(self, image: ir.Value, sizes: Sizes) -> ir.Value:
        if self.problem.input_channels_first:
            rank = self.problem.spatial_rank + 2
            image = transposed(image, to_channels_last(rank))
            channels = self.image_shape[rank - 1 :]
            if len(channels) == 2:
                image = split(image, rank - 1, (channels[0], channels[1]))
        spatial = "".join(map(str, range(self.problem.spatial_rank)))
        layouts = (
            "n" + spatial + self._image_channels,
            spatial + self._filter_channels,
            "n" + spatial + self._output_channels,
        )
        operands = (
            padded_image(image, self.problem),
            resource_constant(self.filters, "filters"),
            zero_filled(sizes, f32()),
        )
        return build_convolution(layouts, self.problem.strides, self.problem.dilations, operands)

    @property
    def _batch(self) -> int:
        return DYNAMIC_BATCH if self.problem.batch is None else self.problem.batch

    @property
    def _is_depthwise(self) -> bool:
        return self.problem.groups > 1 and self.problem.group_inputs == 1

    @property
    def _image_channels(self) -> str:
        if self.problem.groups == 1:
            return "c"
        return "g" if self._is_depthwise else "gc"

    @property
    def _filter_channels(self) -> str:
        inputs = "" if self._is_depthwise else "c"
        return inputs + self._output_channels

    @property
    def _output_channels(self) -> str:
        if self.problem.groups == 1:
            return "f"
        return "g" if self._is_depthwise and self.problem.group_outputs == 1 else "gf"

    def _sizes(self, letters: str) -> tuple[int, ...]:
        problem = self.problem
        sizes = {"c": problem.group_inputs, "g": problem.groups, "f": problem.group_outputs}
        return tuple(sizes[letter] for letter in letters)


def _channels_first(image: Array, rank: int) -> Array:
    """N x C x H... of an image N x H... whose channels are its last dimensions."""
    joined = image.reshape(*image.shape[: rank + 1], -1)
    return np.ascontiguousarray(np.moveaxis(joined, -1, 1))
