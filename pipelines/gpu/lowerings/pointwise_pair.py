"""From two pointwise layers in a row to the dispatch of one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.emission.epilogue import epilogue_text, reads_along_channels
from iree.winograd.pipelines.gpu.device.launch import Launcher, Operand, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.numbers import numbers_for
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES, REDUCTION
from iree.winograd.pipelines.gpu.kernels.matrix_products.pointwise_pair import PointwisePairKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_results import bound_of
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.lowerings.convolution import ConvolutionLowering
from iree.winograd.pipelines.gpu.lowerings.in_place import insertion_of, source_of
from iree.winograd.pipelines.gpu.packing.pointwise_pair import PointwisePairPacking
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import (
    PointwisePairSchedule,
    PointwisePairShape,
)
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.output_bound import MOST_EXCESS_BITS, OutputBound, output_bound
from iree.winograd.pipelines.problems.tensor_operations import PointwisePair

_LEAST_CHUNKS = 2
"""Of the channels between the layers."""


def misfit_of_pair(operation: PointwisePair, target: GpuTarget) -> Reason | None:
    """Why two kernels compute both layers; None where one can."""
    shape, schedule = _shape(operation), operation.schedule
    if (reason := shape.misfit(target)) is not None:
        return reason
    assert isinstance(schedule, PointwisePairSchedule), "it is this backend's"
    chunks, rest = divmod(shape.between, schedule.chunk)
    if shape.channels % REDUCTION or chunks < _LEAST_CHUNKS or rest:
        return f"{shape.channels} to {shape.between} channels are no whole steps, or too few"
    if insertion_of(operation.widening) is not None or not _reads_constants(operation.widening):
        return "the first epilogue reads more than constants of channels"
    if not _has_chunks(operation.widening):
        return "pixels don't begin at whole chunks of 16 bytes"
    layers = operation.widening, operation.narrowing
    if any(each.transformed_taps(each.shape.decomposition) is None for each in layers):
        return "their filters are known only at run time"
    if schedule.parts > 1 and _bound(operation) is None:
        return "what is between them has no bound by which pairs of fp16 are accurate"
    return None


def lowered_pair(launcher: Launcher, operation: PointwisePair) -> ir.Value:
    """Emits the dispatch of two layers that one kernel is to compute."""
    schedule = operation.schedule
    assert isinstance(schedule, PointwisePairSchedule), "it has no misfit"
    packing = PointwisePairPacking(_shape(operation), schedule)
    bound = _bound(operation) if schedule.parts > 1 else None
    return _NarrowingLowering(launcher, operation.narrowing, operation.widening, packing, bound).lower()


def _shape(operation: PointwisePair) -> PointwisePairShape:
    return PointwisePairShape(operation.widening.shape, operation.narrowing.shape)


def _bound(operation: PointwisePair) -> OutputBound | None:
    """That of what is between the layers, for scales of split numbers."""
    bound = output_bound(operation.widening)
    is_accurate = bound is not None and bound.is_finite and bound.excess_bits <= MOST_EXCESS_BITS
    return bound if is_accurate else None


def _reads_constants(group: ConvolutionGroup) -> bool:
    """Whether an epilogue reads nothing but a number of each channel."""
    maps = group.output_transform.indexing_maps
    return all(len(each.results) == 1 and reads_along_channels(each) for each in maps)


def _has_chunks(group: ConvolutionGroup) -> bool:
    """Whether all pixels of the image begin at multiples of 16 bytes, also in a larger tensor."""
    source = source_of(group)
    type_ = ir.RankedTensorType(source.whole.type)
    chunk = COPIED_BYTES // element_bytes(str(type_.element_type))
    return bool(type_.shape[-1] % chunk == source.first % chunk == 0)


@dataclass(frozen=True)
class _WideningOperands(ConvolutionLowering):
    """What the first layer's kernel would read."""

    def lower(self) -> ir.Value:
        raise NotImplementedError("its result is nowhere in memory")

    def operands(self, packing: PointwisePairPacking) -> tuple[Operand, Operand]:
        """The image and the packed filters."""
        filters = self._folded(packing.widening, packing.widening.pack_filters)
        assert filters is not None, "it has no misfit"
        return self._image(by_quads=True), (filters, TensorArgument.of(filters, by_quads=True))


@dataclass(frozen=True)
class _NarrowingLowering(ConvolutionLowering):
    """Both layers by one kernel, which finishes the second one."""

    widening: ConvolutionGroup
    packing: PointwisePairPacking
    bound: OutputBound | None

    def lower(self) -> ir.Value:
        packing, schedule = self.packing, self.packing.schedule
        image, widening = _WideningOperands(self.launcher, self.widening).operands(packing)
        filters = self._folded(packing, packing.pack_narrowing)
        assert filters is not None, "it has no misfit"
        transform = self.widening.output_transform
        between = [(each, TensorArgument.of(each, by_quads=True)) for each in transform.epilogue_operands]
        if self.bound is not None:
            bound = resource_constant(bound_of(self.bound), "winograd_bound_between")
            between = [(bound, TensorArgument.of(bound, by_quads=False)), *between]
        product = packing.narrowing
        kernel = PointwisePairKernel(
            WarpgroupProduct(product, schedule.narrowing(packing.shape.outputs)),
            packing,
            transform,
            epilogue_text(transform),
            numbers_for(self.launcher.target),
        )
        threads = WorkgroupThreads(schedule.threads, schedule.threads)
        operands = [image, widening, (filters, TensorArgument.of(filters, by_quads=True)), *between]
        return self._finished(kernel, "pair", threads, operands, product.output_by_quads)
