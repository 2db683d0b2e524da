"""The schedules of the CPU kernels that are worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, can_copy
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, in_lines
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule, images_are_far
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct_schedules import MAX_PIXEL_BLOCKS, block_vectors
from .representative import representative
from .tile_schedules import MAX_TILE_BLOCK

MAX_REGISTER_VECTORS = 4
REDUCTION_BLOCKS = (16, 32, 64, 128)
TILE_BLOCKS = (1, 2, 3, 4, 6)
"""In register blocks."""
CHANNEL_SPLITS = (1, 2, 4, 8, 16)
SEPARATE_INPUT_WORKGROUPS = 16
FILTER_PREFETCHES = (32, 96)
MAX_TUNED_TILE_BLOCK = 128
REGISTER_PIXELS = (4, 7, 14, 28)
TUNED_VECTORS_PER_PASS = (1, 2, 4, 8)


def winograd_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int, default: WinogradSchedule
) -> Iterator[WinogradSchedule]:
    """The `default` with other register blocks, tile blocks, sums and splits.

    Those whose workgroup needs more memory than L2 holds are left out, and for one thread those that divide
    output channels.
    """
    tiles = default.tile_block if shape.tiles is None else shape.tiles
    channel_vectors = shape.group_outputs // default.vector_width
    splits = _channel_splits(threads, channel_vectors)
    # The input is transformed by the kernel itself, or apart from it for several to read.
    input_blocks: list[int | None] = [None]
    if shape.tiles is not None:
        input_blocks.append(max(1, min(MAX_TILE_BLOCK, tiles // SEPARATE_INPUT_WORKGROUPS)))
    divisions = list(product(splits, input_blocks))
    prefetches = (None, 1) if images_are_far(representative(shape), target) else (None,)
    for vectors, sum_registers in product(range(1, min(MAX_REGISTER_VECTORS, channel_vectors) + 1), (1, 2)):
        most_rows = RegisterBlock.most_rows(vectors, target, sum_registers)
        for rows, blocks, reduction, (split, input_block), image_prefetch in product(
            sorted({most_rows, ceil_div(most_rows * 3, 4), ceil_div(most_rows, 2)}, reverse=True),
            TILE_BLOCKS,
            sorted({min(shape.reduction, block) for block in REDUCTION_BLOCKS}),
            divisions,
            prefetches,
        ):
            schedule = replace(
                default,
                tile_block=rows * blocks,
                register_tiles=rows,
                register_vectors=vectors,
                sum_registers=sum_registers,
                reduction_block=reduction,
                channel_splits=split,
                input_block=input_block,
                image_prefetch=image_prefetch,
            )
            if _fits(schedule, shape, target, tiles):
                yield schedule


def direct_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int, default: DirectSchedule
) -> Iterator[DirectSchedule]:
    """The `default` with other register blocks, rows, pixels and splits, as far as L2 holds them."""
    whole, shape = shape, in_lines(shape)
    pixels = shape.output_size[-1]
    rows = shape.output_rows
    is_far = images_are_far(representative(shape), target)
    image_prefetches = (None, 1) if is_far else (default.image_prefetch,)
    for vectors, width in block_vectors(shape, target):
        most = min(pixels, RegisterBlock.most_rows(vectors, target))
        even = ceil_div(pixels, ceil_div(pixels, most))
        for register_pixels in sorted({most, even, max(1, most - 1)}):
            for pixel_block, row_block, prefetch, split, image_prefetch in product(
                sorted(
                    {
                        *(min(pixels, most) for most in MAX_PIXEL_BLOCKS),
                        min(pixels, 2 * register_pixels),
                        register_pixels,
                        default.pixel_block,
                    }
                ),
                sorted({1, min(2, rows), min(4, rows), min(8, rows), default.row_block}),
                FILTER_PREFETCHES,
                _channel_splits(threads, ceil_div(shape.group_outputs, width)),
                image_prefetches,
            ):
                schedule = replace(
                    default,
                    vector_width=width,
                    register_pixels=register_pixels,
                    register_vectors=vectors,
                    pixel_block=pixel_block,
                    row_block=row_block,
                    filter_prefetch=prefetch,
                    channel_splits=split,
                    image_prefetch=image_prefetch,
                )
                if misfit(schedule, whole.channels_last, target) is None:
                    yield schedule


def depthwise_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int, default: DepthwiseSchedule
) -> Iterator[DepthwiseSchedule]:
    """The `default` with other register pixels, vectors per pass and splits, its input copied or in place.

    What it fetches ahead it may leave out.
    """
    vectors = ceil_div(shape.output_channels, default.vector_width)
    pixels = shape.output_size[-1]
    copies: list[int | None] = [None, *([default.row_block] if can_copy(shape) else [])]
    for register_pixels, vectors_per_pass, split, copied_rows, image_prefetch in product(
        sorted({min(pixels, count) for count in REGISTER_PIXELS}),
        sorted({min(vectors, count) for count in TUNED_VECTORS_PER_PASS}),
        _channel_splits(threads, vectors),
        copies,
        dict.fromkeys((default.image_prefetch, None)),
    ):
        schedule = replace(
            default,
            register_pixels=register_pixels,
            vectors_per_pass=vectors_per_pass,
            channel_splits=split,
            copied_rows=copied_rows,
            image_prefetch=image_prefetch,
        )
        if misfit(schedule, shape.channels_last, target) is None:
            yield schedule


def _channel_splits(threads: int, channel_vectors: int) -> list[int]:
    return [count for count in CHANNEL_SPLITS if count <= (1 if threads == 1 else channel_vectors)]


def _fits(schedule: WinogradSchedule, shape: ConvolutionShape, target: CpuTarget, tiles: int) -> bool:
    """Whether the kernel computes the shape by the schedule, whose block is within the bounds of sense."""
    is_sensible = schedule.tile_block <= min(MAX_TUNED_TILE_BLOCK, tiles + schedule.register_tiles - 1)
    return is_sensible and misfit(schedule, shape.channels_last, target) is None
