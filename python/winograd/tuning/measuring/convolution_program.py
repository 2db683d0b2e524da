"""One convolution as a program of its own, as in networks: padding before it, bias and ReLU after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect import reference
from iree.winograd.dialect.bindings import arith, func, ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import padded
from iree.winograd.passes.build.tensors import index_constant, zero_filled
from iree.winograd.passes.frame.algorithm import set_algorithm
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import set_schedule
from iree.winograd.pipelines.selection.implementation import Implementation

Array = npt.NDArray[Any]

DYNAMIC_BATCH = 1
"""Images that a convolution is measured on whose batch is known only at run time."""


@dataclass(frozen=True, eq=False)
class ConvolutionProgram:
    """`problem` with random filters and biases that are constants of the program.

    Its function `main` takes the image, channels last, and returns outputs of a variance of about one. Groups
    are a dimension of their own before the channels of each.
    """

    problem: ConvolutionProblem

    @cached_property
    def image(self) -> Array:
        shape = (self._batch, *self.problem.input_size, *self._sizes(self._image_channels))
        return np.random.default_rng(0).standard_normal(shape, np.float32)

    @cached_property
    def filters(self) -> Array:
        problem = self.problem
        shape = (*problem.kernel_size, *self._sizes(self._filter_channels))
        scale = np.float32(1 / np.sqrt(prod(problem.kernel_size) * problem.group_inputs))
        filters: Array = scale * np.random.default_rng(1).standard_normal(shape, np.float32)
        return filters

    @cached_property
    def bias(self) -> Array:
        shape = self._sizes(self._output_channels)
        return np.random.default_rng(2).standard_normal(shape, np.float32)

    def expected(self) -> Array:
        """The result of `main` for `image`, in float64."""
        problem = self.problem
        convolved = reference.convolution(
            self.image.reshape(self._batch, *problem.input_size, problem.input_channels),
            self.filters.reshape(*problem.kernel_size, problem.group_inputs, problem.output_channels),
            problem.strides,
            problem.dilations,
            problem.padding_low,
            problem.padding_high,
            problem.groups,
        )
        shape = (self._batch, *problem.output_size, *self.bias.shape)
        positive: Array = np.maximum(convolved.reshape(shape) + self.bias, 0)
        return positive

    def build(self, context: ir.Context, implementation: Implementation) -> ir.Module:
        """The program in `context`, its convolution annotated with `implementation`, unless left to IREE.

        It refers to, and keeps, the memory of `filters` and `bias`.
        """
        # A session's context loads dialects only when it meets them in a program that it reads.
        context.load_all_available_dialects()
        with context, ir.Location.unknown():
            batch = ir.ShapedType.get_dynamic_size() if self.problem.batch is None else self.problem.batch
            image_type = _tensor_type((batch, *self.image.shape[1:]))
            result_type = _tensor_type((batch, *self.problem.output_size, *self.bias.shape))
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                main = func.FuncOp("main", ((image_type,), (result_type,)))
            with ir.InsertionPoint(main.add_entry_block()):
                (image,) = main.arguments
                sizes: list[int | ir.Value] = list(result_type.shape)
                if self.problem.batch is None:
                    sizes[0] = tensor.dim(image, index_constant(0))
                func.return_([self._bias_and_relu(self._convolution(image, sizes, implementation), sizes)])
            return module

    @property
    def _batch(self) -> int:
        return DYNAMIC_BATCH if self.problem.batch is None else self.problem.batch

    @property
    def _is_depthwise(self) -> bool:
        return self.problem.groups > 1 and self.problem.group_inputs == 1

    # The letters of dimensions are those of `Convolution`.

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

    def _convolution(
        self, image: ir.Value, sizes: Sequence[int | ir.Value], implementation: Implementation
    ) -> ir.Value:
        spatial = "".join(map(str, range(self.problem.spatial_rank)))
        layouts = (
            "n" + spatial + self._image_channels,
            spatial + self._filter_channels,
            "n" + spatial + self._output_channels,
        )
        padded_image, filters = self._padded(image), resource_constant(self.filters, "filters")
        operands = (padded_image, filters, zero_filled(sizes, _f32()))
        result = build_convolution(layouts, self.problem.strides, self.problem.dilations, operands)
        if not implementation.is_left_to_iree:
            set_algorithm(result.owner.operation, implementation.algorithm)
            set_schedule(result.owner.operation, implementation.schedule)
        return result

    def _padded(self, image: ir.Value) -> ir.Value:
        problem = self.problem
        if not any((*problem.padding_low, *problem.padding_high)):
            return image
        channels = [0] * len(self._image_channels)
        low, high = [0, *problem.padding_low, *channels], [0, *problem.padding_high, *channels]
        shape = list(image.type.shape)
        for dimension, size in enumerate(problem.input_size, start=1):
            shape[dimension] = low[dimension] + size + high[dimension]
        return padded(image, shape, low, high, arith.constant(_f32(), 0.0))

    def _bias_and_relu(self, sums: ir.Value, sizes: Sequence[int | ir.Value]) -> ir.Value:
        rank, channel_rank = len(sizes), self.bias.ndim
        identity = ir.AffineMap.get_identity(rank)
        channels = ir.AffineMap.get(
            rank, 0, [ir.AffineExpr.get_dim(d) for d in range(rank - channel_rank, rank)]
        )
        bias, zero = resource_constant(self.bias, "bias"), arith.constant(_f32(), 0.0)

        def body(elements: list[ir.Value]) -> ir.Value:
            return arith.maximumf(arith.addf(elements[0], elements[1]), zero)

        return build_elementwise([(sums, identity), (bias, channels)], tensor.empty(sizes, _f32()), body)


def _f32() -> ir.Type:
    return ir.F32Type.get()


def _tensor_type(shape: Sequence[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, _f32())
