"""The schedule of the direct kernel, and the memory that its workgroups need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TypeVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import MAX_INTERLEAVED_CHANNELS
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.schedule import RunningSumSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

Extent = TypeVar("Extent", int, Index)
"""A number while a kernel is chosen, what may be known only at run time while it is built."""
CACHE_SET_PERIOD = 2048
"""Bytes apart, or a multiple, at which the elements of a register block share one or two sets of L1."""
MOST_READ = 0.75
"""Of the products of a convolution, those with its image where leaving the others out pays."""
WAITING_PIXELS = 4
"""Of a register block, fewer of which take as long: multiply-adds wait for those of the channel before."""
PATCH_ELEMENTS = 4096
"""Of what outputs read, that a workgroup gathers at once although it copies no rows: half of L1."""
MAX_JOINED_PIXELS = 112
"""Of an image, up to which pointwise convolutions join those of a batch."""


@dataclass(frozen=True)
class DirectSchedule(RunningSumSchedule):
    """How one workgroup of the direct kernel works through its rows of outputs.

    `register_pixels` x `register_vectors` sums of `vector_width` lanes are kept in registers. `row_block`
    rows of `pixel_block` outputs share each block of filters while it is in the L2 cache; rows are those of
    `in_lines`. `filter_prefetch` and `channel_splits` are as in `WinogradSchedule`. Of a register block that
    has all output channels of a convolution without groups, a part of the last vector may be left out. With
    `image_prefetch` a workgroup fetches what is far away while it multiplies, a line for each channel: its
    outputs, what the epilogue reads there, and pixels that lie so many register blocks ahead. Filters are
    stored in the half precision of `filter_type`, where that has all of them, and widened by loads. Of
    images of any size there are blocks in a multiple of `block_multiple`, smaller ones where need be.

    Raises ValueError for sizes that are not positive.
    """

    kind = "direct"

    vector_width: int
    register_pixels: int
    register_vectors: int
    row_block: int
    pixel_block: int
    filter_prefetch: int = 96
    channel_splits: int = 1
    image_prefetch: int | None = None
    filter_type: str | None = None
    block_multiple: int | None = None

    @property
    def stored_filter_type(self) -> str | None:
        return self.filter_type

    @property
    def product(self) -> RegisterBlock:
        """What multiplies a register block of pixels."""
        return RegisterBlock(
            rows=self.register_pixels,
            vectors=self.register_vectors,
            width=self.vector_width,
            filter_prefetch=self.filter_prefetch,
        )

    def part_product(self, part: RowPart) -> RegisterBlock:
        """The same of neighbours with the same taps, which may be fewer than a register block has."""
        return replace(self.product, rows=min(self.register_pixels, part.pixels))

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the pixels."""
        return self.product.channels


def in_lines(shape: ConvolutionShape) -> ConvolutionShape:
    """The same convolution of rows that are as long as possible.

    One that takes every pixel by itself has no use for where rows of the image end: a register block of a
    whole image's pixels fits as well as it can. Nor has it for where images end that have fewer pixels than a
    workgroup takes: their pixels are those of a single one, and filters are read once for all of them.
    """
    if not shape.is_of_single_pixels:
        return shape
    one = (1,) * len(shape.kernel_size)
    pixels, batch, last = prod(shape.input_size), shape.batch, len(one) - 1
    unknown = (last,) if shape.unknown_sizes else ()
    # Pixels of channels-first images lie apart from those of the next image.
    if batch is not None and not unknown and pixels < MAX_JOINED_PIXELS and not shape.output_channels_first:
        pixels, batch = batch * pixels, 1
    line = (*one[1:], pixels)
    none = (0,) * len(one)
    return replace(
        shape,
        batch=batch,
        input_size=line,
        padding_low=none,
        padding_high=none,
        unknown_sizes=unknown,
    )


def direct_channel_blocks(shape: ConvolutionShape, channel_block: int) -> ChannelBlocks:
    """The passes over the pixels: a single one where a block has more channels than there are."""
    channels = shape.output_channels if shape.groups > 1 else max(shape.output_channels, channel_block)
    return ChannelBlocks(channels, shape.groups, channel_block)


@dataclass(frozen=True)
class RowPart:
    """Neighbours in a row of outputs, `pixels` from `first` on, and their taps of the last dimension."""

    first: int
    pixels: int
    taps: range


def row_parts(shape: ConvolutionShape, pixel_block: int) -> tuple[RowPart, ...]:
    """The parts of `pixel_block` outputs that register blocks divide: by taps where padding is skipped."""
    taps = shape.decomposition.kernel_size[-1]
    if not skips_padding(shape, pixel_block):
        return (RowPart(0, pixel_block, range(taps)),)
    return _parts_by_taps(shape)


def skips_padding(shape: ConvolutionShape, pixel_block: int) -> bool:
    """Whether register blocks leave out taps that read padding, and read all others in place.

    That is where enough of the products are with padding, as dilations near the size of the image have it.
    Neighbours with the same taps count as `WAITING_PIXELS` where they are fewer. Workgroups then take whole
    rows.
    """
    decomposition = shape.decomposition
    is_apart = decomposition.kernel_size[-1] == 1 or decomposition.dilation[-1] > 1
    if pixel_block != shape.output_size[-1] or not is_apart or shape.unknown_sizes or _is_widened(shape):
        return False
    parts = _parts_by_taps(shape)
    multiplied = sum(max(part.pixels, WAITING_PIXELS) * len(part.taps) for part in parts)
    of_row = multiplied / (pixel_block * decomposition.kernel_size[-1])
    return prod(shape.read_shares[:-1]) * of_row <= MOST_READ


@cache
def _parts_by_taps(shape: ConvolutionShape) -> tuple[RowPart, ...]:
    """Those of a row whose outputs read the image with the same taps."""
    low, size, stride = shape.padding_low[-1], shape.input_size[-1], shape.strides[-1]
    taps, dilation = shape.kernel_size[-1], shape.dilations[-1]
    parts: list[RowPart] = []
    for output in range(shape.output_size[-1]):
        reading = [tap for tap in range(taps) if 0 <= output * stride + tap * dilation - low < size]
        needed = range(reading[0], reading[-1] + 1) if reading else range(0)
        if parts and parts[-1].taps == needed:
            parts[-1] = replace(parts[-1], pixels=parts[-1].pixels + 1)
        else:
            parts.append(RowPart(output, 1, needed))
    return tuple(parts)


def copies_input(shape: ConvolutionShape, pixel_distance: int, parts: int, passes: int) -> bool:
    """Whether a workgroup copies its input, whose neighbouring outputs read `pixel_distance` elements apart.

    It does where the convolution pads, where elements are converted, and where those of a register block
    would be in each other's way in the cache. Workgroups of one of several `parts` of the channels copy as
    much for less work: only those of more than one of the `passes` over the pixels, and none that skip
    pixels, whose blocks are small.
    """
    distance = shape.element_types.input_bytes * pixel_distance
    in_few_sets = distance % CACHE_SET_PERIOD == 0 and may_copy_input(shape)
    gains = parts == 1 or (passes > 1 and shape.strides[-1] == 1)
    return shape.pads or _is_widened(shape) or (in_few_sets and gains)


def interleaves_channels(shape: ConvolutionShape, pixel_block: int) -> bool:
    """Whether the copy of a workgroup's input may be of a channels-first image.

    It may be of few channels, where columns of the copy lie side by side.
    """
    if shape.input_channels > MAX_INTERLEAVED_CHANNELS:
        return False
    return shape.pads and not column_padding(shape) and not skips_padding(shape, pixel_block)


def may_copy_input(shape: ConvolutionShape) -> bool:
    """Whether a workgroup copies its input for some schedule."""
    return shape.pads or _is_widened(shape) or shape.decomposition.kernel_size[-1] == 1


def _is_widened(shape: ConvolutionShape) -> bool:
    """Whether elements are converted as they are loaded: once for all products that they are part of."""
    return shape.element_types.input != shape.element_types.domain


def direct_workgroup_bytes(
    shape: ConvolutionShape, row_block: int, pixel_block: int, target: CpuTarget
) -> int:
    """The most memory of its own that a workgroup of the direct kernel takes: the copy of its input, and a
    register block of sums that wait for an epilogue."""
    sums = target.vector_registers * target.vector_width
    types = shape.element_types
    staged = 0
    if may_copy_input(shape) and not skips_padding(shape, pixel_block):
        staged = types.domain_bytes * staged_elements(shape, row_block, pixel_block)
    return staged + types.accumulator_bytes * sums


def staged_elements(shape: ConvolutionShape, row_block: int, pixel_block: int) -> int:
    """Elements that a copy of a block's input has at most, a row for each row of outputs and outer tap."""
    rows = row_block * prod(shape.decomposition.kernel_size[:-1])
    return rows * input_columns(shape, pixel_block) * (shape.input_channels + column_padding(shape))


def patch_elements(shape: ConvolutionShape) -> int:
    """Elements from what one output reads of a row of taps to what the next one does, in `Patches`."""
    elements = shape.decomposition.kernel_size[-1] * shape.input_channels
    in_few_sets = elements * shape.element_types.domain_bytes % CACHE_SET_PERIOD == 0
    return elements + ROW_PADDING * in_few_sets


def patch_schedule(shape: ConvolutionShape, schedule: DirectSchedule, target: CpuTarget) -> DirectSchedule:
    """By which outputs of `Patches` are summed: register blocks are smaller where memory holds too few."""
    waiting = 2 * shape.element_types.accumulator_bytes * target.vector_registers * target.vector_width
    if shape.output_channels_first:
        waiting += 2 * shape.element_types.result_bytes * schedule.pixel_block * schedule.channel_block
    patch_bytes = shape.element_types.domain_bytes * _patch_elements(shape)
    most = max(1, (target.workgroup_bytes - waiting) // patch_bytes)
    return replace(schedule, register_pixels=min(schedule.register_pixels, most))


def patch_pixels(shape: ConvolutionShape, schedule: DirectSchedule) -> int:
    """Outputs that `Patches` are made for at once by `patch_schedule`: whole register blocks.

    As many as fit in the memory that a copy of rows takes, or in L1 where there is none: fewer outputs read
    all filters more often.
    """
    elements = _patch_elements(shape)
    staged = staged_elements(shape, schedule.row_block, schedule.pixel_block) if shape.pads else 0
    fitting = max(staged, PATCH_ELEMENTS) // elements
    of_block = schedule.row_block * schedule.pixel_block
    blocks = min(fitting // schedule.register_pixels, ceil_div(of_block, schedule.register_pixels))
    return max(1, blocks) * schedule.register_pixels


def _patch_elements(shape: ConvolutionShape) -> int:
    """What one output reads, as `Patches` have it."""
    return prod(shape.decomposition.kernel_size[:-1]) * patch_elements(shape)


def column_padding(shape: ConvolutionShape) -> int:
    """Elements between columns of the copy, which may lie apart only where all taps of a row are in one."""
    return ROW_PADDING if shape.decomposition.kernel_size[-1] == 1 else 0


def input_columns(shape: ConvolutionShape, pixel_block: Extent) -> Extent:
    """Elements of the input's last spatial dimension that a row of `pixel_block` outputs spans."""
    decomposition = shape.decomposition
    last_tap = (decomposition.kernel_size[-1] - 1) * decomposition.dilation[-1]
    return (pixel_block - 1) * decomposition.step[-1] + last_tap + 1
