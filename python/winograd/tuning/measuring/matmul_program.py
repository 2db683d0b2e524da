"""A product of rows and a matrix as a program: bias and ReLU after it."""

from __future__ import annotations

from math import prod

import numpy as np
from iree.winograd.dialect.bindings import ir, linalg
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.groups import rows_of_image
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.match.convolutions.problem import MatmulProblem

from .constant_filter_program import ConstantFilterProgram
from .layer_program import Array, Sizes, f32


class MatmulProgram(ConstantFilterProgram):
    """The argument is the image, or the rows themselves where they are a line."""

    def __init__(self, problem: MatmulProblem) -> None:
        super().__init__(problem)
        self._rows = problem.rows
        self._pixels = (problem.rows // prod(problem.input_size), *problem.input_size)

    @property
    def image_shape(self) -> tuple[int, ...]:
        pixels = (self._rows,) if self._pixels == (1, self._rows) else self._pixels
        return (*pixels, self.problem.input_channels)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        return (self.problem.input_channels, self.problem.output_channels)

    @property
    def bias_shape(self) -> tuple[int, ...]:
        return (self.problem.output_channels,)

    @property
    def result_shape(self) -> tuple[int, ...]:
        return (self._rows, self.problem.output_channels)

    def expected_sums(self) -> Array:
        rows: Array = self.image.reshape(self._rows, -1).astype(np.float64)
        products: Array = rows @ self.filters.astype(np.float64)
        return products

    def build_sums_of(self, image: ir.Value, sizes: Sizes) -> ir.Value:
        rows = image if len(self.image_shape) == len(sizes) else rows_of_image(image)
        matrix = resource_constant(self.filters, "filters")
        return build_named(linalg.MatmulOp, [rows, matrix], zero_filled(sizes, f32()))
