"""One layer as a program of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from iree.winograd.dialect.bindings import func, ir, tensor
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.passes.infrastructure.algorithm import set_algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import set_schedule
from iree.winograd.pipelines.selection.implementation import Implementation

Array = npt.NDArray[Any]
Sizes = Sequence[int | ir.Value]
"""Those of a tensor; an `index` value where one is known only at run time."""

DYNAMIC_BATCH = 1
"""Images that a layer is measured on whose batch is known only at run time."""


class LayerProgram(ABC):
    """A layer whose function `main` takes random `arguments`, the image first."""

    def __init__(self, problem: ConvolutionProblem) -> None:
        self.problem = problem

    @property
    @abstractmethod
    def arguments(self) -> tuple[Array, ...]:
        """With `DYNAMIC_BATCH` images where the batch is known only at run time."""

    @property
    @abstractmethod
    def result_shape(self) -> tuple[int, ...]: ...

    @property
    def sums_shape(self) -> tuple[int, ...]:
        """Of the layer's own result: that of what is returned."""
        return self.result_shape

    @abstractmethod
    def expected(self) -> Array:
        """The result of `main` for `arguments`, in float64."""

    @abstractmethod
    def build_sums(self, arguments: Sequence[ir.Value], sizes: Sizes) -> ir.Value:
        """The operation that is the layer, whose result has these sizes."""

    def build_result(self, sums: ir.Value, sizes: Sizes) -> ir.Value:
        """What is returned of the layer's result: that itself."""
        return sums

    def build(self, context: ir.Context, implementation: Implementation) -> ir.Module:
        """The program in `context`, its layer annotated with `implementation`, unless left to IREE.

        It refers to, and keeps, the memory of its constants.
        """
        # A session's context loads dialects only when it meets them in a program that it reads.
        context.load_all_available_dialects()
        with context, ir.Location.unknown():
            types = tuple(tensor_type(self._with_batch(each.shape)) for each in self.arguments)
            result_type = tensor_type(self._with_batch(self.result_shape))
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                main = func.FuncOp("main", (types, (result_type,)))
            with ir.InsertionPoint(main.add_entry_block()):
                sizes: list[int | ir.Value] = list(self._with_batch(self.sums_shape))
                if self.problem.batch is None:
                    sizes[0] = tensor.dim(main.arguments[0], index_constant(0))
                sums = self.build_sums(list(main.arguments), sizes)
                _annotate(sums.owner.operation, implementation)
                func.return_([self.build_result(sums, sizes)])
            return module

    def _with_batch(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` as its type says it."""
        return shape if self.problem.batch is not None else (ir.ShapedType.get_dynamic_size(), *shape[1:])


def _annotate(operation: ir.Operation, implementation: Implementation) -> None:
    if not implementation.is_left_to_iree:
        set_algorithm(operation, implementation.algorithm)
        set_schedule(operation, implementation.schedule)


def f32() -> ir.Type:
    return ir.F32Type.get()


def tensor_type(shape: Sequence[int]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(shape, f32())
