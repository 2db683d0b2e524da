"""The stage between the transforms: the kernels that multiply, and what they ask of each kind of product."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import locate_tile, output_positions
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import OperandKernel
from iree.winograd.pipelines.gpu.packing.products import ProductPacking


@dataclass(frozen=True)
class Block:
    """What one workgroup computes: a block of tiles and of columns of one product, or over one part of it."""

    row_block: Index
    first_column: Index
    product: Index
    part: Index


@dataclass(frozen=True)
class ResultRow:
    """A row of a block where it belongs in memory."""

    exists: Condition
    address: Index
    """Of its first byte."""
    size: Index
    """Bytes."""


class Results(ABC):
    """Where the sums of a block go, by quads: each begins at a row and a column within the block."""

    @abstractmethod
    def store(
        self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value] | None = None
    ) -> None:
        """Writes a quad of sums, finished with what was `loaded` for it, or else is loaded by this."""

    @property
    def row_bytes(self) -> int | None:
        """For each column of a block in a row of results, of those whose rows are whole chunks; else None.

        Rows of such results begin and end at multiples of 16 bytes.
        """
        return None

    @property
    def stored_bytes(self) -> int | None:
        """Up to as many bytes a thread may store at once from the address of a row on; None where rows have
        none that tells where all of their neighbours are."""
        return None

    def finished(self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        """What is written for a quad, or more neighbours, of a row of `row`, or of one that doesn't exist."""
        raise NotImplementedError

    def row(self, row: Index) -> ResultRow:
        """Where a row is, of one that doesn't exist the last one."""
        raise NotImplementedError

    @property
    def operands(self) -> int:
        """Quads that `load` returns."""
        return 0

    def load(self, row: Index, column: Index, width: int = QUAD) -> Sequence[ir.Value]:
        """What a quad, or so many columns, is finished with, which may be one that isn't written."""
        del row, column, width
        return ()

    def prefetch(self, row: Index, column: Index) -> None:
        """Brings near what `load` reads there for these outputs alone."""
        del row, column


@dataclass(frozen=True)
class Outputs(Results, ABC):
    """Those that are finished by an epilogue, and written where they belong in an image N x OH... x K."""

    packing: ProductPacking
    output: GlobalBuffer
    epilogue: VectorEpilogue
    block: Block

    @abstractmethod
    def _exists(self, row: Index) -> Condition:
        """Whether a row of the block is one of the image."""

    @abstractmethod
    def _located(self, row: Index, *, existing: bool) -> tuple[Index, tuple[Index, ...]]:
        """The image and the position of a row; some of one that exists, where the row's own has to or not."""

    def store(
        self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value] | None = None
    ) -> None:
        outputs, first = self.packing.group_outputs, self.block.first_column + column
        exists = self._exists(row)
        before = self._located(row, existing=loaded is not None) if self._locates_together else None
        if outputs != self.packing.padded_filters:
            exists = exists & first.less_than(outputs)

        def finish() -> None:
            # Where it was located for its loads, or by now.
            image, position = before or self._located(row, existing=loaded is not None)
            channel = self._channel(first)
            if loaded is None:
                finished = self.epilogue.emit(value, image, position, channel)
            else:
                finished = self.epilogue.applied(value, loaded)
            remaining = Index(QUAD) if outputs % QUAD == 0 else Index(outputs) - first
            self._write(finished, image, position, channel, remaining)

        when(exists, finish)

    @property
    def _locates_together(self) -> bool:
        """Whether rows are located beside each other, not each where it is known to exist.

        An output of unknown sizes lies where its number says, which compilers see, but between pixels of a
        larger tensor.
        """
        return bool(self.packing.shape.unknown_sizes) and not self.output.has_pixels_in_order

    @property
    def row_bytes(self) -> int | None:
        width, outputs = self.output.number.bytes, self.packing.group_outputs
        is_whole = outputs * width % COPIED_BYTES == 0 and self.output.begins_rows_at(COPIED_BYTES // width)
        return width if is_whole else None

    @property
    def stored_bytes(self) -> int | None:
        is_by_quads = self.packing.group_outputs % QUAD == 0 and self.output.by_quads
        if not (is_by_quads and self.packing.finds_rows_once):
            return None
        return COPIED_BYTES if self.row_bytes is not None else self.output.memref_element_bytes

    def finished(self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        del row, column
        return self.output.number.narrowed(self.epilogue.applied(value, loaded))

    def row(self, row: Index) -> ResultRow:
        image, position = self._located(row, existing=True)
        first = self.output.pixel_offset([image, *position], self._channel(self.block.first_column))
        width = self.output.number.bytes
        return ResultRow(self._exists(row), self.output.address + first * width, self._columns() * width)

    def _columns(self) -> Index:
        """Those of the block that are outputs."""
        columns = Index(self.packing.schedule.block_columns)
        if self.packing.group_outputs == self.packing.padded_filters:
            return columns
        return columns.minimum(Index(self.packing.group_outputs) - self.block.first_column)

    def _write(
        self, finished: ir.Value, image: Index, position: Sequence[Index], channel: Index, count: Index
    ) -> None:
        """Writes the first `count` elements of a quad of finished outputs, which exist."""
        offset = self.output.pixel_offset([image, *position], channel)
        self.output.store_first(finished, offset, count, Condition(True))

    @property
    def operands(self) -> int:
        return len(self.epilogue.operands)

    def load(self, row: Index, column: Index, width: int = QUAD) -> Sequence[ir.Value]:
        return self.epilogue.load(*self._place(row, column, width), width)

    def prefetch(self, row: Index, column: Index) -> None:
        self.epilogue.prefetch(*self._place(row, column, QUAD))

    def _place(self, row: Index, column: Index, width: int) -> tuple[Index, tuple[Index, ...], Index]:
        """That of so many columns, or of some that exist."""
        outputs, first = self.packing.group_outputs, self.block.first_column + column
        if outputs != self.packing.padded_filters:
            first = first.minimum((outputs - 1) // width * width)
        return *self._located(row, existing=True), self._channel(first)

    def _channel(self, first: Index) -> Index:
        return self.block.product * self.packing.group_outputs + first


Storing = Callable[[Block], Results]
"""From a block to where its sums go."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of one workgroup: one, or where it walks every `step`-th from `first` on of `count`."""

    place: Callable[[Index], Block]
    first: Index
    count: Index
    step: int | None

    def only(self) -> Block:
        """That of a workgroup that doesn't walk."""
        return self.place(self.first)

    def last(self) -> Block:
        """The last one of a workgroup, which has one at least."""
        if self.step is None:
            return self.only()
        return self.place(self.first + (self.count - 1 - self.first) // self.step * self.step)

    def of_turns(self, number: Index, turns: int) -> Blocks:
        """Every so many-th of those of a workgroup that walks, from that of a number on."""
        assert self.step is not None
        first = (self.first + number * self.step).minimum(self.count)
        return replace(self, first=first, step=self.step * turns)

    def walk(
        self, initial: list[ir.Value], body: Callable[[Block, list[ir.Value]], Sequence[ir.Value]]
    ) -> None:
        """Emits what is done for each block with the values that the one before it gave."""
        if self.step is None:
            body(self.only(), initial)
            return
        loop_carried(
            self.count - self.first,
            self.step,
            initial,
            lambda ahead, values: body(self.place(self.first + ahead), values),
            "block",
        )


class Product(Protocol):
    """A kind of product: the arithmetic by which transformed inputs and filters are multiplied.

    Which one it is, the class of the schedule says. `schedules/fit.py` knows for which targets and types it
    is, `choice/cost_model.py` its time, and the schedule itself how it sums, which its predicted error
    follows from: none of them emits code.
    """

    @property
    def packing(self) -> ProductPacking:
        """The layout of its operands, and of the products."""

    @property
    def walking_workgroups(self) -> int | None:
        """How many workgroups walk over all blocks; None where each has one of its own."""

    @property
    def input_kernel(self) -> OperandKernel | None:
        """What writes its left operand; None where that is the image itself."""

    def filter_kernel(self, layout: FilterLayout) -> OperandKernel:
        """What writes its right operand from filters known only at run time."""

    def emit(
        self, blocks: Blocks, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its blocks."""


@dataclass(frozen=True)
class BlockedProductKernel:
    """A product. A workgroup computes a block of tiles and channels, over one part of the reduction."""

    product: Product

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Blocks of tiles, blocks of output channels, products and their parts; or those that walk."""
        walking = self.product.walking_workgroups
        if walking is not None:
            return (self._block_count(sizes).minimum(walking),)
        packing = self.product.packing
        return packing.row_blocks(sizes), self._column_blocks, Index(packing.slots)

    @property
    def _column_blocks(self) -> Index:
        packing = self.product.packing
        return ceildiv(packing.group_outputs, packing.schedule.block_columns)

    def _block_count(self, sizes: Sizes) -> Index:
        packing = self.product.packing
        return packing.row_blocks(sizes) * self._column_blocks * packing.slots

    def _blocks(self, work: Work) -> Blocks:
        walking = self.product.walking_workgroups
        if walking is None:
            return Blocks(lambda _: self._place(work.workgroup), Index(0), Index(1), None)
        rows = self.product.packing.row_blocks(work.sizes)

        def place(number: Index) -> Block:
            # Neighbours share a block of tiles, which the cache then has for them.
            above = number // self._column_blocks
            return self._place((above % rows, number % self._column_blocks, above // rows))

        return Blocks(place, work.workgroup[0], self._block_count(work.sizes), walking)

    def _place(self, workgroup: tuple[Index, ...]) -> Block:
        packing = self.product.packing
        first_column = workgroup[1] * packing.schedule.block_columns
        if packing.padded_filters == packing.schedule.block_columns:
            first_column = Index(0)
        product, part = packing.of_slot(workgroup[2])
        if packing.products == 1:
            product = Index(0)
        return Block(workgroup[0], first_column, product, part)


@dataclass(frozen=True)
class ProductKernel(BlockedProductKernel):
    """products[b, a*g + group, t, k] = sum over r of transformed[b, a*g + group, t, r] * filters[..., r, k].

    A convolution of output tile 1 has one product per group, and its input is read in place.
    """

    def emit(
        self,
        work: Work,
        left: GlobalBuffer,
        filters: GlobalBuffer,
        products: GlobalBuffer,
    ) -> None:
        """Emits the kernel that leaves its products packed."""

        def storing(block: Block) -> Results:
            slot = self.product.packing.slot(block.product, block.part)
            origin = products.offset([block.row_block, slot, 0, block.first_column])
            return _PackedResults(products, origin, self.product.packing.schedule.block_columns)

        self.product.emit(self._blocks(work), work.sizes, left, filters, storing)


@dataclass(frozen=True)
class _PackedResults(Results):
    """Those of a block, as they are, from an origin on."""

    products: GlobalBuffer
    origin: Index
    columns: int

    def store(
        self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value] | None = None
    ) -> None:
        del loaded
        self.products.store(value, self.origin + row * self.products.stride(2) + column)

    def row(self, row: Index) -> ResultRow:
        width = self.products.number.bytes
        first = (self.origin + row * self.products.stride(2)) * width
        return ResultRow(Condition(True), self.products.address + first, Index(self.columns * width))


@dataclass(frozen=True)
class DirectProductKernel(BlockedProductKernel):
    """A convolution of output tile 1. Its products are its results, finished and written in place."""

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits a direct convolution: from `image`, N x H... x C, to finished outputs, N x OH... x K."""
        packing = self.product.packing
        if packing.shape.transform_size != 1 or packing.schedule.reduction_parts != 1:
            raise ValueError(f"{packing.schedule} leaves no results of {packing.shape.decomposition}")
        if packing.neighbouring_columns > QUAD:
            epilogue = by_channels(epilogue, packing.neighbouring_columns)
        tiles = packing.tiles(work.sizes)
        sized, epilogue = finished_in_line(
            packing, work.sizes, output, epilogue, of_known_sizes=packing.finds_rows_once
        )

        def storing(block: Block) -> Results:
            return BlockOutputs(packing, output, epilogue, block, tiles, sized)

        self.product.emit(self._blocks(work), work.sizes, image, filters, storing)


def finished_in_line(
    packing: ProductPacking,
    sizes: Sizes,
    output: GlobalBuffer,
    epilogue: VectorEpilogue,
    *,
    of_known_sizes: bool = False,
) -> tuple[SizedShape, VectorEpilogue]:
    """The shape by which outputs of a direct convolution are located, and its epilogue: as one row, if they
    can be, of known sizes where that is asked for."""
    sized = SizedShape.of(packing.shape, sizes)
    in_line = packing.outputs_in_line(sizes, output, of_known_sizes=of_known_sizes)
    if in_line is None:
        return sized, epilogue
    images = () if sizes.batch.known == 1 else (sizes.batch,)
    return in_line, replace(epilogue, lined_up=(*images, *sized.output_size))


@dataclass(frozen=True)
class BlockOutputs(Outputs):
    """Those of a block of tiles, by their numbers."""

    tiles: Index
    shape: SizedShape

    def _exists(self, row: Index) -> Condition:
        return Condition(True) if self._are_all else self._number(row).less_than(self.tiles)

    def _located(self, row: Index, *, existing: bool) -> tuple[Index, tuple[Index, ...]]:
        number = self._number(row)
        if existing and not self._are_all:
            number = number.minimum(self.tiles - 1)
        tile = locate_tile(self.shape, number, is_beside_others=self._locates_together)
        return tile.image, tuple(each.first for each in output_positions(self.shape, tile))

    def _number(self, row: Index) -> Index:
        return self.block.row_block * self.packing.schedule.block_rows + row

    @property
    def _are_all(self) -> bool:
        """Whether all tiles of blocks exist."""
        tiles = self.tiles.known
        return tiles is not None and tiles % self.packing.schedule.block_rows == 0
