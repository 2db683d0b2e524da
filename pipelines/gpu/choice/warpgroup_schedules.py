"""Schedules of products by warpgroups, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.memory import OCTET
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_ROWS
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, ROUNDED_PRODUCTS, stored_result_bytes
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .gathering_cost import gathered_seconds
from .mapping_cost import mapped_seconds
from .representative import representative
from .rounded_products import multiplying_as_is

WARPGROUP_SCHEDULES = (
    WarpgroupSchedule(64, 64, stages=4, resident_workgroups=3),
    WarpgroupSchedule(64, 128, stages=4, resident_workgroups=2),
    WarpgroupSchedule(128, 128, stages=6),
)
"""For rounded numbers. As many of their workgroups as are resident walk over all blocks. The first has least
columns."""
GATHERING_SCHEDULES = tuple(
    WarpgroupSchedule(
        rows,
        columns,
        products=ROUNDED_PRODUCTS,
        stages=stages,
        resident_workgroups=resident,
        copying_warps=copying_warps,
        result_bytes=result_bytes,
    )
    for rows, columns, stages, resident, copying_warps, result_bytes in (
        (128, 256, 4, 1, 4, None),
        (128, 192, 4, 1, 4, HALF_BYTES),
        (128, 160, 5, 1, 4, HALF_BYTES),
        (128, 128, 6, 1, 4, None),
        (128, 96, 3, 2, 2, None),
        (128, 64, 4, 2, 4, None),
        (64, 160, 3, 2, 4, None),
        (64, 128, 4, 2, 4, None),
        (64, 96, 4, 3, 2, None),
        (64, 64, 4, 3, 4, None),
    )
)
"""For direct convolutions of images whose numbers are multiplied as they are: what fills shared memory, and
leaves threads registers for their sums. Results leave by copies where memory has room for as many stages:
others would lose one, and workgroups of which several are resident overlap already."""
MAPPING_BLOCKS = (
    (64, 128, 9, 2, None),
    (64, 160, 7, 2, None),
    (64, 192, 7, 2, None),
    (128, 128, 7, 2, None),
    (128, 160, 6, 2, None),
    (128, 192, 5, 2, None),
    (192, 96, 5, None, HALF_BYTES),
)
"""For pointwise layers whose rows are copied from the image: rows, columns, stages, warpgroups that alternate
and bytes of results that leave by copies. Each was the fastest of some layer."""
LEAST_MAPPED_CHANNELS = 112
"""Of 96 pixels that stream take less time."""
LEAST_MAPPED_OPERATIONS, LEAST_MAPPED_BLOCKS = 6e8, 0.3
"""Of layers whose rows could be gathered, the latter of the GPU's multiprocessors: 1568 x 192 by 1152, which
has 25 blocks, took an H200 6.8 us, by smaller ones that gather 6.0."""
LARGEST_MAPPED_SHARE = 1.1
"""Of what gathered rows are predicted to take: 1568 x 3072 by 768 took 16.2 us, where 15.7 are predicted, and
gathered 20.2, where 14.7 are."""
MANY_OUTPUTS, NARROW_COLUMNS = 768, 128
"""Of so many outputs blocks of 64 rows by so few columns took 1.05 to 1.4 times as long as others."""
GATHERING_PARTS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 14)
PART_STAGES = 4
"""Of a part at least."""
SPLIT_WARPGROUP_SCHEDULES = (
    WarpgroupSchedule(128, 128, summed_block=64, stages=6),
    WarpgroupSchedule(128, 112, summed_block=64, stages=7),
    WarpgroupSchedule(64, 64, summed_block=64, stages=4, resident_workgroups=3),
    WarpgroupSchedule(64, 64, summed_block=64, stages=12),
)
"""For split numbers: one that reads its operands most seldom, one whose blocks may divide work more evenly
among multiprocessors, one that wastes less of small products, and one whose workgroups wait less where there
are few of them."""
WARPGROUP_PARTS = (2, 3, 4, 5, 6, 8, 11)
"""Of the reduction, for these."""

EVENING_PARTS = (2, 3, 4, 5, 8)
"""Of the last products alone: sums are few, and stages begin while those of the block before are stored."""


def warpgroup_schedules(shape: ConvolutionShape, machine: GpuMachine) -> Iterator[WarpgroupSchedule]:
    """Those whose operands a kernel before them packs, of split and of rounded numbers."""
    # Wide blocks take longer to finish the results of direct convolutions than they gain.
    rounded = WARPGROUP_SCHEDULES[:1] if shape.transform_size == 1 else WARPGROUP_SCHEDULES
    for walking in (
        *SPLIT_WARPGROUP_SCHEDULES,
        *(replace(each, products=ROUNDED_PRODUCTS) for each in rounded),
    ):
        yield from _walking(shape, walking, WARPGROUP_PARTS, machine)


def alternating_schedules(shape: ConvolutionShape, machine: GpuMachine) -> Iterator[WarpgroupSchedule]:
    """Those of split numbers whose warpgroups take turns at direct convolutions.

    Of 6272 x 1536 by 384 an H200 took 35.7 us so, 39.1 as chosen, of 1568 x 3072 by 768 39.5 and 37.1.
    """
    if shape.transform_size == 1:
        yield WarpgroupSchedule(
            64,
            128,
            summed_block=64,
            stages=9,
            walking_workgroups=machine.multiprocessors,
            alternating_warpgroups=2,
        )


def gathering_schedules(shape: ConvolutionShape, machine: GpuMachine) -> Iterator[WarpgroupSchedule]:
    """Those that gather stages from the image, if they can."""
    expected = representative(shape)
    for rounding in GATHERING_SCHEDULES:
        schedule = multiplying_as_is(rounding, shape)
        packing = SplitPacking(expected, schedule)
        if packing.reads_image:
            # There is none but whole stages of the image.
            parts = [each for each in GATHERING_PARTS if packing.stages % each == 0]
            yield from _walking(shape, schedule, parts, machine)


def mapping_schedules(shape: ConvolutionShape, machine: GpuMachine) -> Iterator[WarpgroupSchedule]:
    """Those that have a stage's rows copied from the image by a map of it, if they can."""
    expected = representative(shape)
    if shape.group_inputs < LEAST_MAPPED_CHANNELS:
        return
    for rows, columns, stages, alternating, result_bytes in MAPPING_BLOCKS:
        mapping = WarpgroupSchedule(
            rows,
            columns,
            products=ROUNDED_PRODUCTS,
            stages=stages,
            walking_workgroups=machine.multiprocessors,
            result_bytes=result_bytes,
            box_rows=rows,
            alternating_warpgroups=alternating,
        )
        schedule = multiplying_as_is(mapping, shape)
        is_narrow = rows == WARPGROUP_ROWS and columns == NARROW_COLUMNS
        if is_narrow and shape.group_outputs >= MANY_OUTPUTS:
            continue
        if SplitPacking(expected, schedule).reads_image:
            yield replace(schedule, store_width=OCTET) if _has_octets(shape) else schedule


def _has_octets(shape: ConvolutionShape) -> bool:
    """Whether results are whole eights of half precision: 16 bytes, which a thread stores at once."""
    return stored_result_bytes(shape) == HALF_BYTES and shape.group_outputs % OCTET == 0


def both_widths(
    schedules: Iterable[WarpgroupSchedule], shape: ConvolutionShape
) -> Iterator[WarpgroupSchedule]:
    """The same, those of whole sums also with threads that store eight neighbours at once, if they can."""
    for schedule in schedules:
        yield schedule
        if schedule.reduction_parts == 1 and _has_octets(shape):
            yield replace(schedule, store_width=OCTET)


def in_place_schedules(
    mapping: Sequence[WarpgroupSchedule],
    gathering: Sequence[WarpgroupSchedule],
    shape: ConvolutionShape,
    machine: GpuMachine,
) -> Sequence[WarpgroupSchedule]:
    """Those that map images in place of those that gather whole sums, where they are faster, else the latter.

    Predictions of the two aren't compared beyond that, since both are off by more than blocks differ.
    """
    whole = [each for each in gathering if each.reduction_parts == 1]
    if not whole or not mapping:
        return (*gathering, *mapping)
    expected = representative(shape)
    pixels = expected.images * prod(expected.tiles_per_image)
    fastest = min(mapping, key=lambda each: mapped_seconds(SplitPacking(expected, each), each, machine))
    blocks = ceil_div(pixels, fastest.block_rows) * SplitPacking(expected, fastest).column_blocks
    is_large = 2 * pixels * shape.group_inputs * shape.output_channels >= LEAST_MAPPED_OPERATIONS
    if not is_large or blocks < LEAST_MAPPED_BLOCKS * machine.multiprocessors:
        return gathering
    gathered = min(gathered_seconds(SplitPacking(expected, each), each, machine) for each in whole)
    if mapped_seconds(SplitPacking(expected, fastest), fastest, machine) > LARGEST_MAPPED_SHARE * gathered:
        return gathering
    return (*(each for each in gathering if each.reduction_parts > 1), *mapping)


def _walking(
    shape: ConvolutionShape, schedule: WarpgroupSchedule, parts: Sequence[int], machine: GpuMachine
) -> Iterator[WarpgroupSchedule]:
    """As many workgroups as are resident, and for few blocks also parts of their reduction."""
    expected = representative(shape)
    walking = schedule.resident_workgroups * machine.multiprocessors
    schedule = replace(schedule, walking_workgroups=walking)
    yield schedule
    packing = SplitPacking(expected, schedule)
    rows = ceil_div(expected.images * prod(expected.tiles_per_image), schedule.block_rows)
    blocks = rows * packing.column_blocks * packing.products
    for count in parts:
        if packing.stages >= PART_STAGES * count and blocks * count <= 2 * walking:
            yield replace(schedule, reduction_parts=count)
    yield from _evening_out(schedule, packing, blocks // packing.products, machine)


def _evening_out(
    schedule: WarpgroupSchedule, packing: SplitPacking, blocks: int, machine: GpuMachine
) -> Iterator[WarpgroupSchedule]:
    """The last products, of so many blocks each, in parts, where all of them don't fill a last round.

    A multiprocessor has one workgroup, which walks over whole blocks first.
    """
    multiprocessors, together = machine.multiprocessors, schedule.summed_stages
    rounds, rest = divmod(blocks * packing.products, multiprocessors)
    if schedule.resident_workgroups > 1 or rounds == 0 or rest == 0 or packing.shape.groups > 1:
        return
    divided = ceil_div(rest, blocks)
    for count in EVENING_PARTS:
        stages, remaining = divmod(packing.stages, count)
        if remaining == 0 and stages % together == 0 and divided < packing.products:
            yield replace(schedule, reduction_parts=count, divided_products=divided)
