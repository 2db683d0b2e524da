"""The fused kernel: input transform, products and output transform of a block of tiles in one workgroup.

After Yan et al., "Optimizing Batched Winograd Convolution on GPUs", PPoPP 2020, and Castro et al., "OpenCNN:
A Winograd Minimal Filtering Algorithm Implementation in CUDA", Mathematics 2021. Only images and transformed
filters are in global memory. Per block of the reduction dimension a thread loads tiles of single channels,
transforms them in registers and leaves them in shared memory, beside a block of filters that was packed in
the order of reading; then it multiplies for the next few of the products. Their sums are exchanged through
the filters' memory, one quad of each thread's columns at a time, and transformed by whichever thread is next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, scf
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    clamped_element,
    input_positions,
    locate_tile,
)
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    SharedScalars,
    barrier,
    constant_quad,
    lane,
    thread_id,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.device.predicated_instruction import PREDICATE_BITS, condition_bits
from iree.winograd.pipelines.gpu.device.predicated_load import load_where
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemm import multiply_add_block, place_thread
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking

from .transforms import Epilogue, transform_output


@dataclass(frozen=True)
class _Input:
    """A tile of one channel that a thread transforms per block of the reduction."""

    number: Index
    tile: Tile
    tile_in_block: Index
    channel: Index


@dataclass(frozen=True)
class FusedKernel:
    """output[n, o..., k] = epilogue(A^T [sum over r of transformed filters[r, k] . (B^T d[r])] A)."""

    packing: FusedPacking
    takes_ptx: bool = False
    """Whether the code may have instructions of NVIDIA's GPUs: loads where a condition holds."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of tiles, blocks of output channels, groups."""
        packing = self.packing
        return (
            ceildiv(packing.tiles(sizes), packing.schedule.block_tiles),
            Index(packing.column_blocks),
            Index(packing.shape.groups),
        )

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """`image` is N x H... x C, bound by scalars, `filters` is packed, `output` is N x OH... x K."""
        _Workgroup(self.packing, work, image, filters, self.takes_ptx).emit(output, epilogue)


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self,
        packing: FusedPacking,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        takes_ptx: bool,
    ) -> None:
        schedule = packing.schedule
        self._is_open_for_cuda = takes_ptx and bool(packing.shape.unknown_sizes)
        self._packing, self._schedule = packing, schedule
        self._shape = SizedShape.of(packing.shape, work.sizes)
        self._first_tile = work.workgroup[0] * schedule.block_tiles
        self._column_block = work.workgroup[1] if packing.column_blocks > 1 else Index(0)
        self._group = work.workgroup[2] if packing.shape.groups > 1 else Index(0)
        self._tiles = packing.tiles(work.sizes)
        self._image, self._filters = image, filters
        self._thread = thread_id()
        buffers, products, reduction = schedule.buffers, schedule.products, schedule.block_reduction
        self._inputs = SharedScalars.allocate(
            (buffers, products, reduction, schedule.tile_stride), "transformed_inputs", filters.computed
        )
        self._filter_block = SharedBuffer.allocate(
            (buffers * schedule.filter_quads,), "filter_block", filters.computed
        )
        self._own_inputs = [
            self._place_input(self._thread + i * schedule.threads)
            for i in range(ceil_div(schedule.inputs, schedule.threads))
        ]
        self._filter_origin = filters.offset([self._group, self._column_block, 0]) + self._thread * QUAD
        self._slot = self._thread // schedule.product_threads
        self._row, self._column = place_thread(
            self._thread % schedule.product_threads, schedule.threads_down, schedule.threads_across
        )

    def emit(self, output: GlobalBuffer, epilogue: Epilogue) -> None:
        sums = self._multiply_all() if self._schedule.buffers == 2 else self._multiply_all_in_one_buffer()
        self._finish(sums, output, epilogue)

    def _place_input(self, number: Index) -> _Input:
        """The threads of a warp load neighbouring channels, then neighbouring tiles."""
        schedule = self._schedule
        wrapped = number if schedule.inputs % schedule.threads == 0 else number % schedule.inputs
        tile_in_block = wrapped // schedule.block_reduction
        tile = locate_tile(self._shape, (self._first_tile + tile_in_block).minimum(self._tiles - 1))
        return _Input(number, tile, tile_in_block, wrapped % schedule.block_reduction)

    # The main loop

    def _multiply_all_in_one_buffer(self) -> list[ir.Value]:
        """The next block waits in registers while the one in shared memory is multiplied."""
        blocks = self._packing.reduction_blocks
        sums, ahead = self._zeros(), self._load(Index(0))
        if blocks > 1:
            loop = scf.ForOp(Index(0).value, Index(blocks - 1).value, Index(1).value, [*sums, *ahead])
            with ir.InsertionPoint(loop.body):
                carried = list(loop.inner_iter_args)
                self._stage(carried[len(sums) :], Index(0))
                barrier()
                ahead = self._load(Index(loop.induction_variable) + 1)
                current = self._multiply(Index(0), carried[: len(sums)])
                barrier()
                scf.yield_([*current, *ahead])
            results = list(loop.results)
            sums, ahead = results[: len(sums)], results[len(sums) :]
        self._stage(ahead, Index(0))
        barrier()
        return self._multiply(Index(0), sums)

    def _multiply_all(self) -> list[ir.Value]:
        """The next block is loaded, and staged in the other buffer, while one is multiplied."""
        blocks = self._packing.reduction_blocks
        sums, final = self._zeros(), Index(0)
        self._stage(self._load(Index(0)), final)
        barrier()
        if blocks > 1:
            loop = scf.ForOp(Index(0).value, Index(blocks - 1).value, Index(1).value, [*sums, final.value])
            with ir.InsertionPoint(loop.body):
                *current, buffer = loop.inner_iter_args
                ahead = self._load(Index(loop.induction_variable) + 1)
                current = self._multiply(Index(buffer), current)
                other = Index(1) - Index(buffer)
                self._stage(ahead, other)
                barrier()
                scf.yield_([*current, other.value])
            *sums, last = loop.results
            final = Index(last)
        return self._multiply(final, sums)

    def _zeros(self) -> list[ir.Value]:
        return [constant_quad(0.0, self._filters.computed)] * (self._schedule.sums // QUAD)

    def _load(self, block: Index) -> list[ir.Value]:
        """What this thread loads of a block of the reduction: elements of its tiles, quads of filters."""
        packing, schedule = self._packing, self._schedule
        view = block // packing.view_blocks if packing.views > 1 else Index(0)
        first_channel = (
            block % packing.view_blocks if packing.views > 1 else block
        ) * schedule.block_reduction
        offsets = packing.view_offsets(view)
        elements = [
            element for each in self._own_inputs for element in self._load_tile(each, first_channel, offsets)
        ]
        origin = self._filter_origin + block * (schedule.filter_quads * QUAD)
        quads = [
            self._filters.load(origin + i * schedule.threads * QUAD)
            for i in range(schedule.filter_quads // schedule.threads)
        ]
        return elements + quads

    def _load_tile(self, own: _Input, first_channel: Index, view: tuple[Index, ...]) -> list[ir.Value]:
        packing, image = self._packing, self._image
        channel, is_channel = first_channel + own.channel, Condition(True)
        if packing.group_channels % self._schedule.block_reduction:
            is_channel = channel.less_than(packing.group_channels)
            channel = channel.minimum(packing.group_channels - 1)
        positions = input_positions(self._shape, own.tile, view)
        if self._is_open_for_cuda and self._schedule.products <= PREDICATE_BITS:
            return self._load_where(positions, own.tile.image, channel, is_channel)
        zero = zero_scalar(image.computed)
        elements = []
        for element in product(*map(range, self._shape.decomposition.alpha)):
            position, inside = clamped_element(positions, tuple(map(Index, element)))
            offset = image.offset([own.tile.image, *position, self._group * packing.group_channels + channel])
            value, exists = image.load_scalar(offset), inside & is_channel
            elements.append(value if exists.known else arith.select(exists.value, value, zero))
        return elements

    def _load_where(
        self, positions: Sequence[Positions], number: Index, channel: Index, is_channel: Condition
    ) -> list[ir.Value]:
        """The elements of a tile of an image of unknown size, whose rows lie as far apart as they come.

        Compilers compute what is the same in all turns of a loop before it: an address and a condition for
        each element were more than there are registers for.
        """
        image = self._image
        first = [
            number,
            *(each.first for each in positions),
            self._group * self._packing.group_channels + channel,
        ]
        origin = image.offset(first)
        exists = condition_bits(
            [[is_channel], *([each.clamped(Index(i))[1] for i in range(each.count)] for each in positions)]
        )
        elements = product(*(range(0, each.count * each.spacing, each.spacing) for each in positions))
        return [
            lane(load_where(image, origin + image.distance([0, *element, 0]), bit), 0)
            for element, bit in zip(elements, exists, strict=True)
        ]

    def _stage(self, loaded: Sequence[ir.Value], buffer: Index) -> None:
        """Transforms the tiles, and leaves them and the filters in shared memory."""
        schedule = self._schedule
        count = schedule.products
        for number, own in enumerate(self._own_inputs):
            elements = loaded[number * count : (number + 1) * count]
            is_own = (
                Condition(True)
                if schedule.inputs % schedule.threads == 0
                else own.number.less_than(schedule.inputs)
            )
            when(is_own, lambda own=own, elements=elements: self._transform(own, elements, buffer))  # type: ignore[misc]
        quads = loaded[len(self._own_inputs) * count :]
        for i, quad in enumerate(quads):
            place = buffer * schedule.filter_quads + self._thread + i * schedule.threads
            self._filter_block.store(quad, [place])

    def _transform(self, own: _Input, elements: Sequence[ir.Value], buffer: Index) -> None:
        decomposition = self._shape.decomposition

        def load(element: Position) -> ir.Value:
            number = flattened(element, decomposition.alpha).known
            assert number is not None
            return broadcast(elements[number], 1)

        def store(element: Position, value: ir.Value) -> None:
            number = flattened(element, decomposition.alpha)
            self._inputs.store(lane(value, 0), [buffer, number, own.channel, own.tile_in_block])

        recipes = [each.input for each in decomposition.transforms]
        emit_unrolled(recipes, load, store, True)

    def _multiply(self, buffer: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Adds the products of the block in a buffer of shared memory to the thread's sums."""
        schedule = self._schedule
        sums = list(sums)
        down, across = schedule.threads_down, schedule.threads_across
        column_quads = schedule.thread_columns // QUAD
        for r, own in product(range(schedule.block_reduction), range(schedule.thread_products)):
            number = self._product_number(own)
            tiles = [
                tile
                for i in range(schedule.thread_tiles // QUAD)
                for tile in self._inputs.load_quad([buffer, number, r, (self._row + i * down) * QUAD])
            ]
            line = buffer * schedule.filter_quads + (number * schedule.block_reduction + r) * (
                schedule.block_columns // QUAD
            )
            columns = [
                self._filter_block.load([line + self._column + j * across]) for j in range(column_quads)
            ]
            multiply_add_block(tiles, columns, sums, own * schedule.thread_tiles * column_quads)
        return sums

    def _product_number(self, own: int) -> Index:
        """Of the products that a thread has a share of, the number in the tile."""
        return self._slot + own * (self._schedule.products // self._schedule.thread_products)

    # The output transform

    def _finish(self, sums: Sequence[ir.Value], output: GlobalBuffer, epilogue: Epilogue) -> None:
        """Exchanges products between threads, in rounds that fit in shared memory, and transforms them."""
        schedule = self._schedule
        rounds = product(
            range(schedule.thread_columns // QUAD), range(0, schedule.thread_tiles, schedule.output_rows)
        )
        for column_quad, first_row in rounds:
            barrier()
            self._exchange(sums, column_quad, first_row)
            barrier()
            for i in range(ceil_div(self._round_size, schedule.threads)):
                self._finish_item(
                    self._thread + i * schedule.threads, column_quad, first_row, output, epilogue
                )

    @property
    def _round_size(self) -> int:
        """Tiles and quads of columns that are exchanged in one round."""
        return self._schedule.output_rows * self._schedule.product_threads

    def _exchange(self, sums: Sequence[ir.Value], column_quad: int, first_row: int) -> None:
        schedule, neighbours = self._schedule, self._schedule.neighbouring_quads
        rows = schedule.output_rows * schedule.threads_down
        for own, i in product(range(schedule.thread_products), range(schedule.output_rows)):
            position = own * schedule.thread_tiles + first_row + i
            value = sums[position * (schedule.thread_columns // QUAD) + column_quad]
            line = self._column // neighbours * rows + i * schedule.threads_down + self._row
            place = (
                self._product_number(own) * self._round_size + line * neighbours + self._column % neighbours
            )
            self._filter_block.store(value, [place])

    def _finish_item(
        self, item: Index, column_quad: int, first_row: int, output: GlobalBuffer, epilogue: Epilogue
    ) -> None:
        """Transforms a tile and a quad of columns of those that were exchanged."""
        packing, schedule, neighbours = self._packing, self._schedule, self._schedule.neighbouring_quads
        rows, down = schedule.output_rows * schedule.threads_down, schedule.threads_down
        exists = Condition(True)
        if self._round_size % schedule.threads:
            exists = item.less_than(self._round_size)
        line = item // neighbours
        row_of_thread, row = line % rows // down + first_row, line % rows % down
        tile_in_block = (row + row_of_thread // QUAD * down) * QUAD + row_of_thread % QUAD
        column = item % neighbours + line // rows * neighbours + column_quad * schedule.threads_across
        number = self._first_tile + tile_in_block
        first = self._column_block * schedule.block_columns + column * QUAD
        if self._tiles.known is None or self._tiles.known % schedule.block_tiles:
            # Of unknown sizes their number is kept through the main loop, by 32 bits.
            is_open = self._tiles.known is None
            exists = exists & (number.within if is_open else number.less_than)(self._tiles)
        if packing.group_outputs % schedule.block_columns:
            exists = exists & first.less_than(packing.group_outputs)
        when(exists, lambda: self._transform_output(item, number, first, output, epilogue))

    def _transform_output(
        self, item: Index, number: Index, first: Index, output: GlobalBuffer, epilogue: Epilogue
    ) -> None:
        packing, shape = self._packing, self._shape
        tile = locate_tile(shape, number)
        channel = self._group * packing.group_outputs + first

        def load(element: Position) -> ir.Value:
            place = flattened(element, shape.decomposition.alpha) * self._round_size + item
            return self._filter_block.load([place])

        transform_output(
            packing, shape, tile, channel, first, load, output, epilogue, are_kept=self._is_open_for_cuda
        )
