"""One layer as a program of its own, as in networks: its weights are constants, and bias and ReLU follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import arith, func, ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.passes.frame.algorithm import set_algorithm
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import set_schedule
from iree.winograd.pipelines.selection.implementation import Implementation

Array = npt.NDArray[Any]
Sizes = Sequence[int | ir.Value]
"""Those of a tensor; an `index` value where one is known only at run time."""

DYNAMIC_BATCH = 1
"""Images that a layer is measured on whose batch is known only at run time."""


class LayerProgram(ABC):
    """A layer with random filters and biases that are constants of the program.

    Its function `main` takes the image, channels last, and returns outputs of a variance of about one.
    """

    def __init__(self, problem: ConvolutionProblem) -> None:
        self.problem = problem

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

    @property
    @abstractmethod
    def result_shape(self) -> tuple[int, ...]: ...

    @abstractmethod
    def expected_sums(self) -> Array:
        """What the layer makes of `image`, before bias and ReLU, in float64."""

    @abstractmethod
    def build_sums(self, image: ir.Value, sizes: Sizes) -> ir.Value:
        """The operation that is the layer, whose result has these sizes."""

    @cached_property
    def image(self) -> Array:
        return np.random.default_rng(0).standard_normal(self.image_shape, np.float32)

    @cached_property
    def filters(self) -> Array:
        scale = np.float32(1 / np.sqrt(prod(self.problem.kernel_size) * self.problem.group_inputs))
        filters: Array = scale * np.random.default_rng(1).standard_normal(self.filter_shape, np.float32)
        return filters

    @cached_property
    def bias(self) -> Array:
        return np.random.default_rng(2).standard_normal(self.bias_shape, np.float32)

    def expected(self) -> Array:
        """The result of `main` for `image`, in float64."""
        positive: Array = np.maximum(self.expected_sums().reshape(self.result_shape) + self.bias, 0)
        return positive

    def build(self, context: ir.Context, implementation: Implementation) -> ir.Module:
        """The program in `context`, its layer annotated with `implementation`, unless left to IREE.

        It refers to, and keeps, the memory of `filters` and `bias`.
        """
        # A session's context loads dialects only when it meets them in a program that it reads.
        context.load_all_available_dialects()
        with context, ir.Location.unknown():
            image_type = tensor_type(self._with_batch(self.image_shape))
            result_type = tensor_type(self._with_batch(self.result_shape))
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                main = func.FuncOp("main", ((image_type,), (result_type,)))
            with ir.InsertionPoint(main.add_entry_block()):
                (image,) = main.arguments
                sizes: list[int | ir.Value] = list(result_type.shape)
                if self.problem.batch is None:
                    sizes[0] = tensor.dim(image, index_constant(0))
                sums = self.build_sums(image, sizes)
                _annotate(sums.owner.operation, implementation)
                func.return_([self._bias_and_relu(sums, sizes)])
            return module

    def _with_batch(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` as its type says it."""
        return shape if self.problem.batch is not None else (ir.ShapedType.get_dynamic_size(), *shape[1:])

    def _bias_and_relu(self, sums: ir.Value, sizes: Sizes) -> ir.Value:
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


def _annotate(operation: ir.Operation, implementation: Implementation) -> None:
    if not implementation.is_left_to_iree:
        set_algorithm(operation, implementation.algorithm)
        set_schedule(operation, implementation.schedule)


def f32() -> ir.Type:
    return ir.F32Type.get()


def tensor_type(shape: Sequence[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, f32())
