"""From a group of winograd ops to dispatches of CPU kernels, each imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import FilterTransformOp
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.passes.build.tensors import index_constant, size_of
from iree.winograd.passes.infrastructure.algorithm import TAKES_FILTER_ATTRIBUTE_NAME
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice, match_insert
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.values.constant_identity import constant_identity
from iree.winograd.passes.match.values.constants import Array, constant_array
from iree.winograd.pipelines.cpu.chain import chain_attributes, count_workgroups, spans
from iree.winograd.pipelines.cpu.kernels.filters import FilterTransformKernel, stored_filters
from iree.winograd.pipelines.cpu.kernels.kernel_of import (
    InputStage,
    KernelKind,
    kernel_for,
    kernel_misfit,
    ranges_bytes,
    weight_gradient_kernel,
)
from iree.winograd.pipelines.cpu.kernels.packed_taps import pack_taps
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.sized_kernels import SizedKernels
from iree.winograd.pipelines.cpu.tensor_dispatches.table import dispatch_of
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.convolution_signature import (
    image_tensor,
    read_tensor,
    size_of_group,
    spatial_sizes,
)
from iree.winograd.pipelines.emission.dispatch import (
    KernelFunction,
    emit_dispatch,
    emit_executable,
    kernel_name,
)
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, epilogue_text
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor, stated_batch
from iree.winograd.pipelines.emission.work import BATCH, Sizes
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from iree.winograd.pipelines.problems.tensor_operations import TensorOperation
from iree.winograd.pipelines.problems.weight_gradient_group import WeightGradientGroup

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.filters import CpuKernel
    from iree.winograd.pipelines.cpu.kernels.kernel_of import CpuWeightGradientKernel

CODEGEN_PIPELINE = "canonicalize,cse"
"""The passes that the kernels go through before IREE converts them to LLVM: they come as vectors and loops
already."""


def translation() -> ir.Attribute:
    """What has IREE take a kernel through `CODEGEN_PIPELINE` only."""
    return ir.Attribute.parse(
        f'#iree_codegen.translation_info<pipeline = #iree_codegen.pass_pipeline<"{CODEGEN_PIPELINE}">>'
    )


@dataclass
class CpuLowering:
    """Lowers the groups of one module; kernels that are equal share an executable, and filters a constant."""

    module: ir.Operation
    target: CpuTarget
    _executables: dict[object, str] = field(default_factory=dict)
    _constants: SharedConstants = field(default_factory=SharedConstants)

    def lower(self, group: ConvolutionGroup | WeightGradientGroup, schedule: Schedule) -> ir.Value:
        """Emits the dispatches that compute the last op of the group, at the insertion point.

        Where an output is inserted into a tensor, the result is that tensor.
        """
        if isinstance(group, WeightGradientGroup):
            return self._weight_gradient(group, schedule)
        return self._convolution(group, schedule)

    def lower_ranges(self, group: ConvolutionGroup, ranges: Sequence[ScheduleRange]) -> ir.Value:
        """Emits one dispatch: of the kernels that it consists of, a workgroup runs that for a call's sizes.

        A launch takes a few microseconds, and is one more that others wait for.
        """
        for each in ranges:
            if reason := self.range_misfit(group, each):
                raise ValueError(reason)
        shapes = [group.in_range(each).shape for each in ranges]
        kernels = [
            kernel_for(shape, self.target, each.schedule) for shape, each in zip(shapes, ranges, strict=True)
        ]
        schedules = [(shape, each.schedule) for shape, each in zip(shapes, ranges, strict=True)]
        if ranges_bytes(schedules, self.target) > self.target.workgroup_bytes:
            raise ValueError("a workgroup has not the memory for the kernels of all ranges")
        return self._dispatched(group, SizedKernels.of(group, ranges, kernels))

    def range_misfit(self, group: ConvolutionGroup, range_: ScheduleRange) -> Reason | None:
        if range_.schedule.transforms_filters:
            return "workgroups transform filters of images of all sizes"
        if range_.algorithm is not None and group.filter_transform is None:
            return "filters are transformed by another algorithm"
        return kernel_misfit(group.in_range(range_).shape, self.target, range_.schedule)

    def compute(self, operation: TensorOperation) -> ir.Value:
        """Emits the dispatch that computes an operation without a misfit, at the insertion point."""
        found = dispatch_of(operation, self.target)
        kernel, signature = found.kernel, found.signature
        spanned = {}
        if found.touching is not None and not signature.dynamic_sizes:
            spanned = spans(found.touching, signature)
        name = self._executable(
            (kernel, signature),
            kernel.name,
            signature,
            kernel.workgroups,
            lambda function: kernel.emit(function.work, *function.buffers),
            spanned,
        )
        sizes = {BATCH: size_of(found.operands[0], 0), **found.extents}
        dynamic = [_as_value(sizes[size]) for size in signature.dynamic_sizes]
        return emit_dispatch(name, signature, found.operands, dynamic)

    def count_workgroups(
        self,
        executable: ir.Operation,
        threads: int,
        *,
        held: int,
        result_is_operand: bool,
    ) -> None:
        """Has the workgroups of a kernel wait for kernels before it, and say when they are done."""
        count_workgroups(executable, threads, self.target, held=held, result_is_operand=result_is_operand)

    def _convolution(self, group: ConvolutionGroup, schedule: Schedule) -> ir.Value:
        shape = group.shape
        if schedule.transforms_filters and group.program_filters is None:
            # What is known when a program is loaded lies as it lies.
            shape = replace(shape, runtime_filter=True)
        return self._dispatched(group, SizedKernels((kernel_for(shape, self.target, schedule),)))

    def _dispatched(self, group: ConvolutionGroup, kernels: SizedKernels) -> ir.Value:
        """Emits the dispatch of one kernel, or of several, each for images of some sizes."""
        kernel, source = kernels.usual, group.source
        if (stage := KernelKind.of(kernel).input_stage(kernel)) is not None:
            source = ChannelSlice(self._transformed_input(stage, group))
        filters, layout = self._filters(kernel, group)
        others, places = self._other_filters(group, kernels, filters)
        transform = group.output_transform
        operands = [source.whole, filters, *transform.epilogue_operands, *others]
        destination = None if group.insertion is None else match_insert(group.insertion)
        updates = destination is not None and not is_empty(destination.whole)
        if destination is not None and updates:
            operands.append(destination.whole)
        # Where the output goes isn't part of the kernel: the layers of a dense block share it.
        numbers = [] if destination is None else [destination.first]
        signature = _convolution_signature(kernel, group, operands, updates, len(others))

        def body(function: KernelFunction[Buffer]) -> None:
            image, packed, *read, output = function.buffers
            image = replace(image, origin=source.first)
            if function.numbers:
                output = replace(output, origin=function.numbers[0])
            count = len(transform.indexing_maps)
            filter_buffers = [packed, *read[count:]]
            layouts = [] if layout is None else [layout]

            def emit(number: int) -> None:
                epilogue = VectorEpilogue(
                    transform,
                    read[:count],
                    self.target.fused_multiply_add,
                    numbers=self.target.numbers,
                )
                own_filters = filter_buffers[places[number]]
                kernels.kernels[number].emit(function.work, image, own_filters, output, epilogue, *layouts)

            kernels.emit(function.work.sizes, emit)

        name = self._executable(
            (kernels, places, signature, source.first, layout, epilogue_text(transform)),
            kernel_name(group.shape),
            signature,
            kernels.workgroups,
            body,
            chain_attributes(kernel, group, signature),
        )
        sizes = [size_of_group(group, size, group.insertion).value for size in signature.dynamic_sizes]
        return emit_dispatch(name, signature, operands, sizes, numbers)

    def _other_filters(
        self, group: ConvolutionGroup, kernels: SizedKernels, usual: ir.Value
    ) -> tuple[list[ir.Value], tuple[int, ...]]:
        """Filters as other kernels than the usual one read them, and of each kernel the number of its own.

        Kernels that read them alike have them once. The usual one's are the first.
        """
        found, places = [usual], []
        for kernel in kernels.kernels:
            filters = usual if kernel is kernels.usual else self._packed_filters(kernel, group)
            alike = (place for place, each in enumerate(found) if _are_alike(each, filters))
            place = next(alike, len(found))
            if place == len(found):
                found.append(filters)
            places.append(place)
        return found[1:], tuple(places)

    def _weight_gradient(self, group: WeightGradientGroup, schedule: Schedule) -> ir.Value:
        kernel = weight_gradient_kernel(group.shape, self.target, schedule)
        image, gradient = group.input_transform.input, group.gradient_transform.gradient
        result_shape = tuple(group.filter_gradient.result.type.shape)
        before = KernelKind.of(kernel).transform_stages(kernel)
        if before is None:
            taps = self._stage(
                kernel,
                "slices",
                {"input": image, "output": gradient},
                kernel.total.operand_shape,
                kernel.slice_workgroups,
                kernel.emit_slice,
            )
            if kernel.total.slices == 1:
                return taps
            return self._stage(
                kernel, "total", {"taps": taps}, result_shape, kernel.total.workgroups, kernel.total.emit
            )
        images = self._stage(
            kernel,
            "images",
            {"input": image},
            before.transformed_images_shape,
            before.transform_workgroups,
            before.emit_images,
        )
        gradients = self._stage(
            kernel,
            "gradients",
            {"output": gradient},
            before.transformed_gradients_shape,
            before.transform_workgroups,
            before.emit_gradients,
        )
        return self._stage(
            kernel,
            "weights",
            {"images": images, "gradients": gradients},
            result_shape,
            before.workgroups,
            before.emit,
        )

    def _stage(
        self,
        kernel: CpuWeightGradientKernel,
        stage: str,
        operands: Mapping[str, ir.Value],
        result_shape: tuple[int, ...],
        workgroups: Callable[[Sizes], tuple[Index, ...]],
        emit: Callable[..., None],
    ) -> ir.Value:
        """The dispatch of one stage of a weight gradient; `emit` takes its buffers.

        `operands` are by what they are: sizes known only at run time are those of "input" and "output".
        """
        tensors = [image_tensor(each.type, of, channels_first=False) for of, each in operands.items()]
        extents = {
            size: size_of(operand, dimension)
            for operand, tensor in zip(operands.values(), tensors, strict=True)
            for dimension, size in tensor.dynamic_dimensions
        }
        element_type = next(iter(operands.values())).type.element_type
        result = DispatchTensor.of(ir.RankedTensorType.get(list(result_shape), element_type))
        batch = stated_batch(None if BATCH in extents else kernel.shape.batch or 1)
        spatial = spatial_sizes(kernel.shape) if extents else ()
        signature = DispatchSignature(tuple(tensors), result, (*batch, *spatial))
        name = self._executable(
            (stage, kernel),
            kernel_name(kernel.shape, stage),
            signature,
            workgroups,
            lambda function: emit(function.work, *function.buffers),
        )
        sizes = [_as_value(extents[size]) for size in signature.dynamic_sizes]
        return emit_dispatch(name, signature, list(operands.values()), sizes)

    def _transformed_input(self, kernel: InputStage, group: ConvolutionGroup) -> ir.Value:
        image = group.source
        element = group.product.operands[0].type.element_type
        signature = DispatchSignature.of(
            [image.whole],
            ir.RankedTensorType.get(list(kernel.transformed_shape), element),
            stated_batch(kernel.shape.batch),
        )

        def body(function: KernelFunction[Buffer]) -> None:
            source, transformed = function.buffers
            source = replace(source, origin=image.first)
            kernel.emit_input(function.work, source, transformed)

        name = self._executable(
            ("input", kernel, signature, image.first),
            kernel_name(kernel.shape, "input"),
            signature,
            kernel.input_workgroups,
            body,
        )
        return emit_dispatch(name, signature, [image.whole])

    def _filters(self, kernel: CpuKernel, group: ConvolutionGroup) -> tuple[ir.Value, FilterLayout | None]:
        """The filters as the kernel reads them: packed, or in a layout of the program's."""
        if not kernel.schedule.transforms_filters:
            return self._packed_filters(kernel, group), None
        transform = group.filter_transform
        if transform is None:
            raise ValueError("its filters aren't those of winograd.filter_transform")
        packed = self._packed_taps(kernel, group, transform)
        if packed is not None:
            return packed, None
        return transform.filter, FilterLayout(transform.permutation, transform.flipped)

    def _packed_taps(
        self, kernel: CpuKernel, group: ConvolutionGroup, transform: FilterTransformOp
    ) -> ir.Value | None:
        """The taps of constant filters, None for others."""
        blocks = kernel.blocks

        def compute() -> Array | None:
            taps = group.program_filters
            return None if taps is None else pack_taps(taps, kernel.shape, kernel.blocks)

        how = blocks, tuple(transform.permutation), transform.flipped
        return self._constants.computed(transform.filter, how, "winograd_packed_taps", compute)

    def _packed_filters(self, kernel: CpuKernel, group: ConvolutionGroup) -> ir.Value:
        source, transform = group.transformed_filter, group.filter_transform
        how: Hashable = kernel
        is_of_taps = KernelKind.of(kernel).packs_beforehand
        if transform is not None and TAKES_FILTER_ATTRIBUTE_NAME in group.product.attributes:
            # Kernels of several algorithms read them.
            is_of_taps, source = True, transform.filter
            how = (kernel, tuple(transform.permutation), transform.flipped)
        packed = self._constants.computed(
            source,
            how,
            "winograd_packed_filter",
            lambda: _packed(
                kernel,
                group.transformed_taps(kernel.shape.decomposition)
                if is_of_taps
                else constant_array(group.transformed_filter),
            ),
        )
        if packed is not None:
            return packed
        if transform is None:
            raise ValueError("its filters are neither constant nor the result of winograd.filter_transform")
        element = group.transformed_filter.type.element_type
        signature = DispatchSignature.of(
            [transform.filter], ir.RankedTensorType.get(list(kernel.packed_filter_shape), element)
        )
        transforming = FilterTransformKernel(
            kernel,
            FilterLayout(transform.permutation, transform.flipped),
            exact=not kernel.shape.runtime_filter,
        )
        name = self._executable(
            transforming,
            kernel_name(kernel.shape, "filter"),
            signature,
            transforming.workgroups,
            lambda function: transforming.emit(function.work, *function.buffers),
        )
        return emit_dispatch(name, signature, [transform.filter])

    def _executable(
        self,
        key: object,
        name: str,
        signature: DispatchSignature,
        workgroups: Callable[[Sizes], tuple[Index, ...]],
        body: Callable[[KernelFunction[Buffer]], None],
        attributes: Mapping[str, ir.Attribute] = MappingProxyType({}),
    ) -> str:
        if key not in self._executables:
            unique = name if name not in self._executables.values() else f"{name}_{len(self._executables)}"
            bindings = signature.bindings(self.target.numbers)
            executable = emit_executable(
                self.module, unique, signature, translation(), workgroups, body, bindings
            )
            for attribute, value in attributes.items():
                executable.attributes[attribute] = value
            self._executables[key] = unique
        return self._executables[key]


def _convolution_signature(
    kernel: CpuKernel, group: ConvolutionGroup, operands: list[ir.Value], updates: bool, more_filters: int
) -> DispatchSignature:
    """That of a kernel of an image, filters, what the epilogue reads, more filters of kernels of other sizes,
    and what it updates, if it does."""
    image, filters, *others = operands
    transform, shape, insertion = group.output_transform, group.shape, group.insertion
    result = transform.result if insertion is None else insertion.operands[1]
    output = image_tensor(result.type, "output", channels_first=shape.output_channels_first)
    tensors = (
        image_tensor(image.type, "input", channels_first=shape.input_channels_first),
        _filter_tensor(filters),
        *(read_tensor(each.type, read) for each, read in zip(others, transform.indexing_maps, strict=False)),
        *map(_filter_tensor, others[len(transform.indexing_maps) :][:more_filters]),
        *([output] if updates else []),
    )
    # A kernel that joins the images of a batch knows of one.
    sizes = (*stated_batch(kernel.shape.batch), *spatial_sizes(shape))
    numbers = 0 if insertion is None else 1
    return DispatchSignature(tensors, output, sizes, updates, numbers)


def _are_alike(one: ir.Value, other: ir.Value) -> bool:
    """Whether both are the same constant, or value."""
    identity = constant_identity(one)
    return one == other or (identity is not None and identity == constant_identity(other))


def _packed(kernel: CpuKernel, transformed: Array | None) -> Array | None:
    if transformed is None:
        return None
    return stored_filters(KernelKind.of(kernel).pack_filters(kernel, transformed), kernel.schedule)


def _filter_tensor(filters: ir.Value) -> DispatchTensor:
    """As a kernel reads them."""
    type_ = ir.RankedTensorType(filters.type)
    if not isinstance(type_.element_type, ir.IntegerType):
        return DispatchTensor.of(filters)
    return DispatchTensor.of(ir.RankedTensorType.get(type_.shape, ir.BF16Type.get()))


def _as_value(size: int | ir.Value) -> ir.Value:
    return index_constant(size) if isinstance(size, int) else size
