"""The ops of one convolution, found from its output transform."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.dialect.ops import FilterTransformOp, InputTransformOp, OutputTransformOp
from iree.winograd.dialect.reference import filter_transform
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.filters import filter_array
from iree.winograd.passes.match.layouts.channel_slice import (
    ChannelSlice,
    match_extract,
    match_insert,
    overlap,
)
from iree.winograd.passes.match.navigation import RESHAPES, defining_operation, only_user, viewed
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.constants import Array, constant_array, is_known_at_load

from .schedule_range import ScheduleRange
from .shape import ConvolutionShape
from .split_result import SplitResult, split_result_of
from .stages import match_stages, require_outputs, stated_facts


@dataclass(frozen=True)
class ConvolutionGroup:
    """`input_transform` and filters, their `linalg.batch_matmul`, and its `output_transform`."""

    input_transform: InputTransformOp
    transformed_filter: ir.Value
    product: ir.Operation
    output_transform: OutputTransformOp
    times: float = 1.0
    """Sizes that kernels are built for over those that are expected, where any may come."""
    algorithm: Algorithm | None = None
    """By which kernels are built in place of the one whose transforms the ops are."""

    def in_range(self, range_: ScheduleRange) -> ConvolutionGroup:
        """For the images of one of several ranges."""
        return replace(self, times=range_.times, algorithm=range_.algorithm)

    @property
    def source(self) -> ChannelSlice:
        """Where the input's channels are read."""
        if self.input_transform.channels_first:
            return ChannelSlice(self.input_transform.input)
        return match_extract(self.input_transform.input)

    @property
    def insertion(self) -> ir.Operation | None:
        """The operation that inserts the output's channels into a tensor where they can be written at once.

        It is in the same block, and nothing else uses them. What it overwrites isn't read by the convolution:
        workgroups would find the outputs of others in their inputs.
        """
        user = self._inserting
        destination = None if user is None else match_insert(user)
        return None if destination is None or self._reads(destination) else user

    @property
    def interleaving(self) -> ir.Operation | None:
        """The operation that inserts the outputs between others of a tensor, as those of a phase of a stride.

        They are all of the tensor's channels, or neighbouring ones. It is in the same block, nothing else
        uses them, and the convolution reads nothing of the tensor.
        """
        user = self._inserting
        part = (
            None
            if user is None or user.name != "tensor.insert_slice"
            else match_slice(user, of_any_size=True)
        )
        if user is None or part is None or max(part.strides) == 1:
            return None
        rank = ir.RankedTensorType(user.operands[1].type).rank
        if part.strides[-1] != 1 or rank != self.output_transform.image_type.rank:
            return None
        read = (self.source.whole, *self.output_transform.epilogue_operands)
        return None if viewed(user.operands[1]) in map(viewed, read) else user

    @property
    def _inserting(self) -> ir.Operation | None:
        """What may insert the outputs into a tensor: their only user, in the same block."""
        result = self.output_transform.result
        user = None if self.output_transform.channels_first else only_user(result)
        if user is None or user.block != self.output_transform.operation.block or user.operands[0] != result:
            return None
        return user

    def _reads(self, destination: ChannelSlice) -> bool:
        """Whether the convolution may read what it would write to the destination."""
        shape, memory = self.shape, viewed(destination.whole)
        reads = [(self.source, shape.input_channels)]
        for operand in self.output_transform.epilogue_operands:
            extents = ir.RankedTensorType(operand.type).shape
            reads.append((match_extract(operand), extents[-1] if extents else 0))
        return any(
            viewed(read.whole) == memory
            and (
                read.whole != destination.whole or overlap(read, channels, destination, shape.output_channels)
            )
            for read, channels in reads
        )

    @property
    def only_reader(self) -> ConvolutionGroup | None:
        """The convolution that alone reads the output, maybe of another shape."""
        read = self.output_transform.result
        while (user := only_user(read)) is not None and user.name in RESHAPES:
            read = user.results[0]
        if user is None or user.name != InputTransformOp.OPERATION_NAME:
            return None
        product = only_user(user.results[0])
        last = None if product is None or not product.results else only_user(product.results[0])
        if last is None or last.name != OutputTransformOp.OPERATION_NAME:
            return None
        reading = match_group(OutputTransformOp(last))
        is_read = not isinstance(reading, NoMatch) and reading.input_transform.operation == user
        return reading if is_read and not isinstance(reading, NoMatch) else None

    @property
    def split_result(self) -> SplitResult | None:
        """How the output is stored where it is split for the only product that reads it."""
        return split_result_of(self.output_transform.operation)

    @property
    def filter_transform(self) -> FilterTransformOp | None:
        """The op that transforms the filters when the program runs; None for folded ones."""
        operation = defining_operation(self.transformed_filter)
        is_transform = operation is not None and operation.name == FilterTransformOp.OPERATION_NAME
        return FilterTransformOp(operation) if is_transform else None

    @property
    def program_filters(self) -> Array | None:
        """R... x C/g x K, where they are constants that the program transforms."""
        transform = self.filter_transform
        return None if transform is None else filter_array(transform)

    def transformed_taps(self, decomposition: Decomposition) -> Array | None:
        """The filters of a decomposition, constants also where the program is to transform them."""
        transform, filters = self.filter_transform, self.program_filters
        if transform is None:
            return constant_array(self.transformed_filter)
        return None if filters is None else filter_transform(filters, decomposition, transform.groups)

    @property
    def shape(self) -> ConvolutionShape:
        """Raises ValueError when the sizes or types of the ops don't fit together."""
        outputs = self.output_transform.image_type
        transform = self.filter_transform
        shape = ConvolutionShape(
            **stated_facts(self.input_transform, self.product, self.output_transform, outputs),
            element_types=ElementTypes.of_stages(
                self.input_transform.input,
                self.transformed_filter if transform is None else transform.filter,
                self.product,
                self.output_transform.result,
            ),
            runtime_filter=transform is not None and not is_known_at_load(transform.filter),
            output_channels_first=self.output_transform.channels_first,
        )
        require_outputs(shape, outputs)
        if self.algorithm is not None:
            shape = replace(shape, decomposition=self.algorithm.decompose(shape))
        return shape if self.times == 1.0 else shape.resized(self.times)


def match_group(output_transform: OutputTransformOp) -> ConvolutionGroup | NoMatch:
    """The group that ends in `output_transform`, or why its operands don't form one."""
    stages = match_stages(output_transform.operation, output_transform.accumulator)
    if isinstance(stages, NoMatch):
        return stages
    product, input_transform = stages
    return ConvolutionGroup(input_transform, product.operands[1], product, output_transform)
