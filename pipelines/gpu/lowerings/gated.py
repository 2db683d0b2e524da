"""From a product whose channels gate each other to dispatches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.values.constants import Array, constant_array
from iree.winograd.pipelines.emission.dispatch import kernel_name
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.gpu.device.launch import Operand, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.kernels.direct.finishing import FinishingKernel, LastKernel
from iree.winograd.pipelines.gpu.kernels.direct.streamed import StreamedKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.gated_product import Gate, GatedProductKernel
from iree.winograd.pipelines.gpu.lowerings.convolution import (
    ConvolutionLowering,
    ProductLowering,
    StreamedLowering,
)
from iree.winograd.pipelines.gpu.lowerings.image_arguments import image_array
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.gpu.schedules.split import WarpSchedule
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.problems.tensor_operations import GatedProduct

_ALTERNATING = "columns of the halves alternate"


_PRODUCTS = (GemmSchedule, GemvSchedule, WarpSchedule, WarpgroupSchedule, StreamedSchedule)
"""Schedules of kernels that leave finished results where they hold all of a sum."""


def misfit_of_gated(operation: GatedProduct) -> Reason | None:
    """Why no kernel computes all of it; None for what one does."""
    group, schedule = operation.group, operation.schedule
    shape, transform = group.shape, group.output_transform
    is_finishing = isinstance(schedule, _PRODUCTS) and schedule.reduction_parts == 1
    if shape.transform_size > 1 or not is_finishing:
        return "its sums are finished by another kernel than that which multiplies"
    if isinstance(schedule, WarpgroupSchedule) and schedule.maps_image and not schedule.maps_gated(shape):
        return "its rows of results have no place for a map of the image"
    if shape.groups > 1 or shape.output_channels % QUAD or transform.channels_first:
        return "pairs of its channels aren't neighbours"
    if constant_array(group.transformed_filter) is None:
        return "its filters are known only at run time"
    channel = ir.AffineExpr.get_dim(len(shape.output_size) + 1)
    for operand, read in zip(transform.epilogue_operands, transform.indexing_maps, strict=True):
        if list(read.results) != [channel] or constant_array(operand) is None:
            return "its epilogue reads more than constants of channels"
    return None


def gated(lowering: ConvolutionLowering, operation: GatedProduct) -> ConvolutionLowering:
    """That of an operation that has no misfit, by the one of its convolution."""
    gate = Gate(VectorFunction.of(operation.computed.body), operation.halves)
    if isinstance(lowering, StreamedLowering):
        return _GatedStreamedLowering(lowering.launcher, lowering.group, gate, lowering.packing)
    assert isinstance(lowering, ProductLowering), "it has no misfit"
    return _GatedProductLowering(lowering.launcher, lowering.group, gate, lowering.product)


@dataclass(frozen=True)
class _GatedLowering(ConvolutionLowering):
    """One kernel for a product, its epilogue, and what becomes of two halves of its channels."""

    gate: Gate

    def _launched(self, kernel: LastKernel, operands: list[Operand], threads: WorkgroupThreads) -> ir.Value:
        transform = self.group.output_transform
        others = [self._alternating(each) for each in transform.epilogue_operands]
        whole = image_array(transform.result, "output", True, channels_first=False)
        *outer, channels = whole.extents
        assert channels is not None, "channels are known"
        return self.launcher.launch(
            FinishingKernel.of(kernel, len(operands), transform, self.launcher.target),
            kernel_name(self.group.shape, "gated"),
            threads,
            [*operands, *others],
            replace(whole, extents=(*outer, channels // 2)),
            self._sizes,
        )

    def _folded(self, how: Hashable, pack: Callable[[Array], Array]) -> ir.Value | None:
        return super()._folded((how, _ALTERNATING), lambda filters: pack(_alternating(filters)))

    def _alternating(self, operand: ir.Value) -> Operand:
        """An operand of the epilogue in the order of the product's columns."""

        def compute() -> Array | None:
            array = constant_array(operand)
            return None if array is None else _alternating(array)

        constant = self.launcher.constants.computed(operand, _ALTERNATING, "winograd_alternating", compute)
        assert constant is not None, "it has no misfit"
        return constant, TensorArgument.of(constant, by_quads=True)


@dataclass(frozen=True)
class _GatedProductLowering(ProductLowering, _GatedLowering):
    def lower(self) -> ir.Value:
        product = self.product
        operands = [self._left(), self._filters(product.packing, product.filter_kernel)]
        return self._launched(GatedProductKernel(product, self.gate), operands, self._threads)


@dataclass(frozen=True)
class _GatedStreamedLowering(StreamedLowering, _GatedLowering):
    def lower(self) -> ir.Value:
        kernel = StreamedKernel(self.packing, self.gate)
        return self._launched(kernel, self._operands(kernel), self._threads)


def _alternating(array: Array) -> Array:
    """The last elements, those of two halves in turns."""
    halves = array.reshape(*array.shape[:-1], 2, -1)
    return np.ascontiguousarray(np.swapaxes(halves, -1, -2)).reshape(array.shape)
