"""A layer with constant weights as a program, as in networks: bias and ReLU follow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import build_elementwise

from .layer_program import Array, LayerProgram, Sizes, f32

_UPPER_HALF = np.uint32(0xFFFF0000)
"""Bits of an f32 that a bf16 has."""


class ConstantFilterProgram(LayerProgram):
    """A layer with random filters and biases that are constants of the program.

    Its function `main` takes the image and returns outputs of a variance of about one.
    """

    @property
    @abstractmethod
    def image_shape(self) -> tuple[int, ...]:
        """With `DYNAMIC_BATCH` images where the batch is known only at run time, as the others."""

    @property
    @abstractmethod
    def filter_shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def bias_shape(self) -> tuple[int, ...]:
        """The last dimensions of the result."""

    @abstractmethod
    def expected_sums(self) -> Array:
        """What the layer makes of `image`, before bias and ReLU, in float64."""

    @abstractmethod
    def build_sums_of(self, image: ir.Value, sizes: Sizes) -> ir.Value:
        """`build_sums`, of the image."""

    @cached_property
    def image(self) -> Array:
        return self._numbers(0, self.image_shape)

    @cached_property
    def filters(self) -> Array:
        scale = float(1 / np.sqrt(prod(self.problem.kernel_size) * self.problem.group_inputs))
        return self._numbers(1, self.filter_shape, scale)

    @cached_property
    def bias(self) -> Array:
        return np.random.default_rng(2).standard_normal(self.bias_shape, np.float32)

    def _numbers(self, seed: int, shape: tuple[int, ...], scale: float = 1.0) -> Array:
        """Random ones, as the problem says that its operands have."""
        numbers: Array = np.float32(scale) * np.random.default_rng(seed).standard_normal(shape, np.float32)
        if self.problem.exact_type == "f16":
            numbers = numbers.astype(np.float16).astype(np.float32)
        if self.problem.exact_type == "bf16":
            numbers = (numbers.view(np.uint32) & _UPPER_HALF).view(np.float32)
        return numbers

    @property
    def arguments(self) -> tuple[Array, ...]:
        return (self.image,)

    def expected(self) -> Array:
        positive: Array = np.maximum(self.expected_sums().reshape(self.sums_shape) + self.bias, 0)
        return positive

    def build_sums(self, arguments: Sequence[ir.Value], sizes: Sizes) -> ir.Value:
        (image,) = arguments
        return self.build_sums_of(image, sizes)

    def build_result(self, sums: ir.Value, sizes: Sizes) -> ir.Value:
        """Bias and ReLU of `sums`."""
        rank, channel_rank = len(sizes), len(self.bias_shape)
        channels = [ir.AffineExpr.get_dim(d) for d in range(rank - channel_rank, rank)]
        reads = [
            (sums, ir.AffineMap.get_identity(rank)),
            (resource_constant(self.bias, "bias"), ir.AffineMap.get(rank, 0, channels)),
        ]
        zero = arith.constant(f32(), 0.0)
        return build_elementwise(
            reads,
            tensor.empty(list(sizes), f32()),
            lambda elements: arith.maximumf(arith.addf(elements[0], elements[1]), zero),
        )
