"""From two pointwise layers in a row to the dispatch of one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.backends.schedules import schedule_of, schedule_ranges_of
from iree.winograd.pipelines.emission.epilogue import epilogue_text, reads_along_channels
from iree.winograd.pipelines.gpu.choice.pointwise_pair_cost import (
    epilogue_instructions,
    pointwise_pair_seconds,
    separate_seconds,
)
from iree.winograd.pipelines.gpu.choice.pointwise_pair_schedules import pointwise_pair_schedule
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
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_TYPES
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import (
    PointwisePairSchedule,
    PointwisePairShape,
)
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.output_bound import MOST_EXCESS_BITS, OutputBound, output_bound
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.tensor_operations import PointwisePair

EXPECTED_GAIN = 0.9
"""The part of both kernels' time that one kernel is to be predicted to take, at most."""


def misfit_of_pair(operation: PointwisePair, target: GpuTarget) -> Reason | None:
    """Why two kernels compute both layers; None where one is to."""
    shape, between = _shape(operation), operation.widening.output_transform
    layers = operation.widening, operation.narrowing
    if not target.has_warpgroup_products:
        return "the target has no matrix units that warpgroups use"
    if not all(map(_is_plain, (shape.widening, shape.narrowing))):
        return "they are no pointwise layers of images of known sizes, channels last"
    types = {shape.widening.element_types.input, shape.widening.element_types.result}
    types.add(shape.narrowing.element_types.input)
    if len(types) > 1 or not types <= {SPLIT.name, *HALF_TYPES}:
        return f"what they multiply is {' and '.join(sorted(types))}"
    schedule = _schedule(operation, target)
    chunks = None if schedule is None else divmod(shape.between, schedule.chunk)
    if schedule is None or shape.channels % REDUCTION or chunks is None or chunks[0] < 2 or chunks[1]:
        sizes = f"{shape.pixels} pixels of {shape.channels} to {shape.between} channels"
        return f"workgroups have no memory, no steps, or no multiprocessors to fill, for {sizes}"
    if insertion_of(operation.widening) is not None or not _reads_constants(operation.widening):
        return "the first epilogue reads more than constants of channels"
    if not _has_chunks(operation.widening):
        return "pixels don't begin at whole chunks of 16 bytes"
    if any(each.transformed_taps(each.shape.decomposition) is None for each in layers):
        return "their filters are known only at run time"
    if schedule.parts > 1 and _bound(operation) is None:
        return "what is between them has no bound by which pairs of fp16 are accurate"
    machine = default_gpu_machine(target.architecture)
    instructions = epilogue_instructions(between)
    schedules = [schedule_of(each.product) for each in layers]
    own = [each for each in schedules if isinstance(each, GpuSchedule)]
    if len(own) < len(layers) or any(schedule_ranges_of(each.product) for each in layers):
        return "a layer has several schedules, or none"
    alone = separate_seconds(shape, own, instructions, machine)
    seconds = pointwise_pair_seconds(shape, schedule, instructions, machine)
    if seconds > EXPECTED_GAIN * alone:
        return f"one kernel is predicted to take {seconds * 1e6:.1f} us, two {alone * 1e6:.1f}"
    return None


def lowered_pair(launcher: Launcher, operation: PointwisePair) -> ir.Value:
    """Emits the dispatch of two layers that one kernel is to compute."""
    schedule = _schedule(operation, launcher.target)
    assert schedule is not None, "it has no misfit"
    packing = PointwisePairPacking(_shape(operation), schedule)
    bound = _bound(operation) if schedule.parts > 1 else None
    return _NarrowingLowering(launcher, operation.narrowing, operation.widening, packing, bound).lower()


def _shape(operation: PointwisePair) -> PointwisePairShape:
    return PointwisePairShape(operation.widening.shape, operation.narrowing.shape)


def _schedule(operation: PointwisePair, target: GpuTarget) -> PointwisePairSchedule | None:
    instructions = epilogue_instructions(operation.widening.output_transform)
    machine = default_gpu_machine(target.architecture)
    return pointwise_pair_schedule(_shape(operation), instructions, target, machine)


def _bound(operation: PointwisePair) -> OutputBound | None:
    """That of what is between the layers, for scales of split numbers."""
    bound = output_bound(operation.widening)
    is_accurate = bound is not None and bound.is_finite and bound.excess_bits <= MOST_EXCESS_BITS
    return bound if is_accurate else None


def _is_plain(shape: ConvolutionShape) -> bool:
    is_of_pixels = shape.is_of_single_pixels and shape.groups == 1 and shape.is_of_known_sizes
    return is_of_pixels and not (shape.input_channels_first or shape.output_channels_first)


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
