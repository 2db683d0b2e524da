"""What a workgroup does whose pixels stream through warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from iree.winograd.dialect.bindings import arith, ir, memref, vector
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, select_index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Tile, clamped_element, input_positions, locate_tile
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device import mma
from iree.winograd.pipelines.gpu.device.early_launch import wait_for_kernels_ahead
from iree.winograd.pipelines.gpu.device.epilogue_operands import SharedChannels, with_shared_channels
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_ROWS, MATRIX_SUMS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
    numbers_of_thread,
    quad_or_zero,
    quad_type,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES, SharedBytes
from iree.winograd.pipelines.gpu.kernels.matrix_products.matrix_sums import MatrixSums
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import Block, BlockOutputs
from iree.winograd.pipelines.gpu.kernels.matrix_products.splitting import (
    parts_of,
)
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .streamed_outputs import PieceOutputs
from .streamed_sums import SQUARE, RowScale, SharedScaleSums, StreamedStoring, Sums

Fragments = list[list[ir.Value]]
"""Of 16 rows, by step and part."""

StoringOf = Callable[[Block], BlockOutputs]
"""From a block to where its sums go."""


class StreamedWorkgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self, packing: StreamedPacking, work: Work, image: GlobalBuffer, filters: GlobalBuffer
    ) -> None:
        schedule, sizes = packing.schedule, work.sizes
        self._packing, self._schedule, self._number = packing, schedule, work.workgroup[0]
        self._image, self._filters = image, filters
        self._sized = packing.in_line(sizes, image) or SizedShape.of(packing.shape, sizes)
        self._tiles, self._blocks = packing.tiles(sizes), packing.row_blocks(sizes)
        self._thread = thread_id()
        self._lane, warp = self._thread % WARP_THREADS, self._thread // WARP_THREADS
        self._first_group = work.workgroup[2] * schedule.groups if packing.shape.groups > 1 else Index(0)
        self._place = warp % schedule.groups
        self._group = self._first_group + self._place
        self._first_column = (
            work.workgroup[1] * schedule.block_columns if packing.column_blocks > 1 else Index(0)
        )
        self._first = work.workgroup[0] * schedule.row_warps + warp // schedule.groups
        self._source = filters.viewed_as(schedule.factors.type)
        self._channels: list[SharedChannels] = []
        self._allocate()
        self._scales = None
        if schedule.scale_bytes_for(packing.shape):
            behind = schedule.scale_bytes_for(packing.shape) + schedule.operand_bytes_for(packing.shape)
            self._scales = SharedBytes(
                self._shared_bytes.address + (schedule.bytes_for(packing.shape) - behind)
            )
        is_as_it_is = image.number.name == schedule.factors.name and not schedule.scales_operands
        self._is_multiplied = image.by_quads and is_as_it_is
        self._octets = None
        if packing.octet_steps and self._is_multiplied and image.strides is None:
            self._octets = image.viewed_as(schedule.factors.type, 2 * QUAD)

    def with_shared_channels(self, epilogue: VectorEpilogue) -> VectorEpilogue:
        """The epilogue that reads from shared memory what it has a number of for each channel.

        Otherwise warps wait for the second cache behind each of the first block's products, all at once.
        """
        schedule, shape = self._schedule, self._packing.shape
        size = schedule.operand_bytes_for(shape)
        if size == 0:
            return epilogue
        begin = schedule.bytes_for(shape) - size
        shared = with_shared_channels(epilogue, SharedBytes(self._shared_bytes.address + begin), size)
        self._channels = [each for each in shared.operands if isinstance(each, SharedChannels)]
        return shared

    def emit(self, storing: StoringOf) -> None:
        schedule = self._schedule
        self._copy_filters()
        if self._filters.is_constant:
            wait_for_kernels_ahead()
        # Assemblers ask for them when filters have come.
        first = self._load(self._first, 0)
        for each in self._channels:
            each.copy(self._thread, schedule.threads)
        self._wait_for_filters()
        step = schedule.walking_workgroups * schedule.row_warps
        groups = self._packing.shape.groups
        count = self._blocks - self._first_together
        if groups % schedule.groups:
            count = select_index(self._group.less_than(groups), count, 0)
        compute = self._by_columns if schedule.channel_blocks == 1 else self._by_channels

        def computed(walked: Index, held: list[ir.Value]) -> Sequence[ir.Value]:
            number = self._first + walked
            result = Block(number, self._first_column, self._group, Index(0))
            sums = MatrixSums(self._packing, result, self._filters)
            if self._scales is not None:
                sums = SharedScaleSums(self._packing, result, self._filters, self._scales)
            outputs = storing(result)
            if isinstance(outputs, PieceOutputs):
                outputs = replace(outputs, memory=self._result_memory)
            ahead = compute(number, number + step, held, StreamedStoring(sums, outputs, self._lane))
            if isinstance(outputs, PieceOutputs):
                when(self._exists(number), partial(outputs.copy_out, self._lane))
            return ahead

        loop_carried(count, step, first, computed, "block")

    @property
    def _first_together(self) -> Index:
        """The first block of the warps that multiply together with this one."""
        return self._first

    def _exists(self, block: Index) -> Condition:
        """Whether a block isn't behind the last one."""
        del block
        return Condition(True)

    def _allocate(self) -> None:
        """The memory that the workgroup shares, for filters and then for results."""
        size = self._schedule.bytes_for(self._packing.shape)
        self._shared = mma.StageMemory.allocate(size // HALF_BYTES, "filters", self._schedule.factors.type)
        self._shared_bytes = SharedBytes(Index(memref.extract_aligned_pointer_as_index(self._shared.memref)))

    @property
    def _result_memory(self) -> SharedBytes:
        """Of this warp."""
        schedule, shape = self._schedule, self._packing.shape
        warp = self._thread // WARP_THREADS
        ahead = schedule.filter_bytes_for(shape) + warp * schedule.result_bytes_for(shape)
        return SharedBytes(self._shared_bytes.address + ahead)

    def _copy_filters(self) -> None:
        """Starts to copy filters, and their scales."""
        packing, schedule, row_chunks = self._packing, self._schedule, self._schedule.unit.row_chunks
        at = packing.filter_stage(self._first_column, self._first_group)
        existing = Index(packing.shape.groups) - self._first_group
        read, rows = packing.read_chunks, packing.group_elements // schedule.unit.stage_row
        chunks = existing.minimum(schedule.groups) * (rows * read)
        with loop(chunks - self._thread, schedule.threads, "chunk") as ahead:
            number = self._thread + ahead
            if read < row_chunks:
                row = number // read
                number = row * row_chunks + ((number % read) ^ (row % row_chunks))
            place = number * COPIED
            self._copy_chunk(place, at + place)
        if self._scales is not None:
            self._copy_scales(self._scales)

    def _copy_scales(self, scales: SharedBytes) -> None:
        place = self._packing.filter_scale(Index(0), self._first_column)
        address = self._filters.address + place * MATRIX_SUMS.bytes
        count = self._schedule.block_columns * MATRIX_SUMS.bytes // COPIED_BYTES
        for chunk, exists in numbers_of_thread(self._thread, self._schedule.threads, count):
            offset = chunk * COPIED_BYTES
            when(exists, partial(scales.copy_chunk, offset, address + offset, Condition(True)))

    def _copy_chunk(self, place: Index, source: Index) -> None:
        self._shared.copy(place, self._source, source)

    def _wait_for_filters(self) -> None:
        mma.wait_for_copies(mma.commit_copies(), 0)

    # The image

    def _load(self, block: Index, channel_block: int) -> list[ir.Value]:
        """A thread's quads of a block of channels of the image: by 16 rows, half of these, and step.

        Those of rows behind the last one are of some that exist.
        """
        packing = self._packing
        loaded = []
        for row in range(0, self._schedule.block_rows, SQUARE):
            tile = self._tile(block, row)
            steps = packing.steps_of(channel_block)
            octet_steps = max(0, min(steps.stop, packing.octet_steps) - steps.start)
            for step in steps[:octet_steps:2]:
                loaded += self._octet(*self._place_of(tile, step, 2 * QUAD))
            for step in steps[octet_steps:]:
                place, exists = self._place_of(tile, step, QUAD)
                second = self._has_second_pair(step)
                loaded.append(
                    self._quad(place, exists) if second is None else self._pairs(place, exists, second)
                )
        return loaded

    def _load_ahead(self, following: Index, held: list[ir.Value]) -> list[ir.Value]:
        """What the block that follows reads first, or what is held where no warp has a further one."""
        return self._load(following, 0) if self._schedule.has_turns(self._packing.shape) else held

    def _place_of(self, tile: Tile, step: int, width: int) -> tuple[Index, Condition]:
        """Where the neighbours lie that a thread has of steps from one on, and whether they exist."""
        packing = self._packing
        per_view = packing.padded_channels // width
        number = self._lane % QUAD + step * MATRIX_ROWS // width
        view, channel = Index(0), number * width
        if packing.views > 1:
            view = (number // per_view).minimum(packing.views - 1)
            channel = number % per_view * width
        exists = Condition(True)
        if packing.reduction < step * MATRIX_ROWS + QUAD * width:
            exists = number.less_than(packing.reduction // width)
            channel = channel.minimum(packing.padded_channels - width)
        place, inside = self._pixel(tile, channel, view)
        return place, inside & exists

    def _tile(self, block: Index, row: int) -> Tile:
        """That of a thread's row of a block, of those from a row on, or one that exists."""
        number = block * self._schedule.block_rows + (row + self._lane // QUAD)
        return locate_tile(self._sized, number.minimum(self._tiles - 1))

    def _pixel(self, tile: Tile, channel: Index, view: IndexLike = 0) -> tuple[Index, Condition]:
        """Where the channels from one on of a tile's pixel lie, and whether there is one."""
        packing = self._packing
        positions = input_positions(self._sized, tile, packing.view_offsets(Index.of(view)))
        position, inside = clamped_element(positions, (Index(0),) * len(positions))
        group = self._group
        if packing.shape.groups % self._schedule.groups:
            # What warps load before it shows that they have none is of one that exists.
            group = group.minimum(packing.shape.groups - 1)
        first = group * packing.group_channels + channel
        return self._image.offset([tile.image, *position, first]), inside

    def _quad(self, offset: Index, exists: Condition) -> ir.Value:
        if not self._is_multiplied:
            return self._image.load(offset, QUAD, exists)
        return quad_or_zero(exists, self._image.load_stored(offset))

    def _has_second_pair(self, step: int) -> Condition | None:
        """Whether there are all channels of a thread's quad of a step; None where they are whole quads."""
        packing = self._packing
        if packing.image_by_quads:
            return None
        quad = self._lane % QUAD + step * QUAD
        if packing.views > 1:
            quad = quad % packing.channel_quads
        elif (step + 1) * MATRIX_ROWS <= packing.group_channels:
            return Condition(True)
        return quad.less_than(packing.channel_quads - 1)

    def _pairs(self, offset: Index, exists: Condition, second_exists: Condition) -> ir.Value:
        """A quad of which the second half may be behind the last channel."""
        image = self._image
        second = select_index(second_exists, offset + PAIR, offset)
        halves = []
        for place, of_pixel in ((offset, exists), (second, exists & second_exists)):
            if self._is_multiplied:
                halves.append(quad_or_zero(of_pixel, image.load_stored(place)))
            else:
                halves.append(image.load(place, PAIR, of_pixel))
        return vector.shuffle(
            *halves, list(range(QUAD)), results=[quad_type(ir.VectorType(halves[0].type).element_type)]
        )

    def _octet(self, offset: Index, exists: Condition) -> list[ir.Value]:
        """Two quads, by one load where all octets are such in memory."""
        if self._octets is None:
            return [self._quad(offset + first, exists) for first in (0, QUAD)]
        octet = memref.load(self._octets, [(offset // (2 * QUAD)).value])
        halves = quad_type(self._schedule.factors.type)
        quads = [vector.extract_strided_slice(halves, octet, [first], [QUAD], [1]) for first in (0, QUAD)]
        return [quad_or_zero(exists, quad) for quad in quads]

    # The products

    def _by_columns(
        self, block: Index, following: Index, held: list[ir.Value], storing: StreamedStoring
    ) -> list[ir.Value]:
        """Multiplies all channels by 16 or 32 columns after the other."""
        ahead = self._load_ahead(following, held)
        fragments, scales = self._fragments(held, 0, None)
        columns = self._schedule.block_columns
        together = next(each for each in (2, 1) if columns % (each * MATRIX_ROWS) == 0) * MATRIX_ROWS
        with loop(columns, together, "column") as first:
            sums = [
                self._added(first + column, 0, fragments, self._no_sums())
                for column in range(0, together, MATRIX_ROWS)
            ]
            storing.store(first, sums, scales)
        return ahead

    def _by_channels(
        self, block: Index, following: Index, held: list[ir.Value], storing: StreamedStoring
    ) -> list[ir.Value]:
        """Multiplies one block of channels after the other by all columns."""
        columns = range(0, self._schedule.block_columns, MATRIX_ROWS)
        sums = [self._no_sums() for _ in columns]
        scales: list[RowScale | None] | None = None
        blocks, first = self._schedule.channel_blocks, held
        for channel_block in range(blocks):
            is_last = channel_block + 1 == blocks
            ahead = self._load_ahead(following, first) if is_last else self._load(block, channel_block + 1)
            before = scales
            fragments, scales = self._fragments(held, channel_block, before)
            if before is not None:
                sums = [_rescaled(each, before, scales) for each in sums]
            sums = [
                self._added(Index(column), channel_block, fragments, each)
                for column, each in zip(columns, sums, strict=True)
            ]
            held = ahead
        storing.store(Index(0), sums, scales or [])
        return held

    def _fragments(
        self, held: list[ir.Value], channel_block: int, before: list[RowScale | None] | None
    ) -> tuple[list[Fragments], list[RowScale | None]]:
        """The fragments of what a thread holds, by 16 rows, and its rows' scales, no less than before."""
        steps = len(self._packing.steps_of(channel_block))
        rows, scales = [], []
        for first in range(0, len(held), steps):
            quads = held[first : first + steps]
            scale = None
            if self._schedule.scales_operands:
                scale = RowScale.of(quads, None if before is None else before[first // steps])
                factor = broadcast(scale.inverse, QUAD)
                quads = [arith.mulf(quad, factor) for quad in quads]
            scales.append(scale)
            rows.append([[quad] if self._is_multiplied else parts_of(quad, self._schedule) for quad in quads])
        fragments = [
            [
                [mma.row_fragment(*each) for each in zip(*of_step, strict=True)]
                for of_step in zip(upper, lower, strict=True)
            ]
            for upper, lower in zip(rows[::2], rows[1::2], strict=True)
        ]
        return fragments, scales

    def _no_sums(self) -> list[Sums]:
        """Zeros, by 16 rows."""
        tiles, parts = self._schedule.block_rows // MATRIX_ROWS, self._schedule.parts
        return [[[mma.no_sums()] * 2 for _ in range(parts)] for _ in range(tiles)]

    def _added(
        self, first: Index, channel_block: int, fragments: list[Fragments], sums: list[Sums]
    ) -> list[Sums]:
        """Sums of 16 columns with the products of a block of channels, large ones summed in blocks."""
        steps = self._packing.steps_of(channel_block)
        summed = self._schedule.summed_block
        together = len(steps) if summed is None else summed // MATRIX_ROWS
        for begin in range(0, len(steps), together):
            before, zero = sums, mma.no_sums()
            if summed is not None:
                sums = [[[zero, zero], *small] for _, *small in sums]
            for number, step in enumerate(steps[begin : begin + together], begin):
                columns = [self._columns(first, step, part) for part in range(self._schedule.parts)]
                sums = [
                    _multiplied(rows[number], columns, each)
                    for rows, each in zip(fragments, sums, strict=True)
                ]
            if summed is not None and (begin or channel_block):
                sums = [
                    [[arith.addf(*pair) for pair in zip(old[0], new[0], strict=True)], *new[1:]]
                    for old, new in zip(before, sums, strict=True)
                ]
        return sums

    def _columns(self, first: Index, step: int, part: int) -> list[ir.Value]:
        """Fragments of eight columns, of 16 from the first on."""
        packing, schedule = self._packing, self._schedule
        unit = schedule.unit
        row, matrix = self._lane % SQUARE, self._lane // SQUARE
        per_stage = schedule.block_reduction // MATRIX_ROWS
        stage, within = divmod(step, per_stage)
        line = matrix // 2 * SQUARE + row
        chunk = (matrix % 2 + 2 * within) ^ (row % unit.row_chunks)
        place = (line * unit.stage_row + chunk * COPIED) ^ (part * packing.low_part)
        behind = stage * schedule.block_columns * unit.stage_row
        at = place + self._place * packing.group_elements + first * unit.stage_row + behind
        return mma.column_fragments(self._shared.fragment(at))


def _multiplied(rows: list[ir.Value], columns: list[list[ir.Value]], sums: Sums) -> Sums:
    """The sums with the products of a step: large ones, and two small ones for each of these."""

    def add(row: ir.Value, halves: list[ir.Value], to: list[ir.Value]) -> list[ir.Value]:
        return [mma.multiply(row, half, each) for half, each in zip(halves, to, strict=True)]

    large = add(rows[0], columns[0], sums[0])
    if len(rows) == 1:
        return [large]
    return [large, add(rows[1], columns[0], add(rows[0], columns[1], sums[1]))]


def _rescaled(
    sums: list[Sums], before: Sequence[RowScale | None], scales: Sequence[RowScale | None]
) -> list[Sums]:
    """The sums, by 16 rows, for other scales of rows."""
    ratios = [
        None if old is None or new is None else arith.mulf(old.scale, new.inverse)
        for old, new in zip(before, scales, strict=True)
    ]
    rescaled = []
    for tile, parts in enumerate(sums):
        upper, lower = ratios[2 * tile : 2 * tile + 2]
        if upper is None or lower is None:
            rescaled.append(parts)
            continue
        factor = mma.sums_of_rows(upper, lower)
        rescaled.append([[arith.mulf(half, factor) for half in part] for part in parts])
    return rescaled
