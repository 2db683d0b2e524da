"""The stage between the transforms: the kernels that multiply, and what they ask of each kind of product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import locate_tile, output_positions
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.packing.products import ProductPacking

from .transforms import Epilogue, OperandKernel

StoreQuad = Callable[[Index, Index, ir.Value], None]
"""Takes a row and a column within the block, and a quad of sums from there on."""


@dataclass(frozen=True)
class Block:
    """What one workgroup computes: a block of tiles and of columns of one product, over one part of it."""

    row_block: Index
    first_column: Index
    product: Index
    part: Index


Storing = Callable[[Block], StoreQuad]
"""From a block to what stores its sums."""


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
        products = Index(packing.products * packing.schedule.reduction_parts)
        return packing.row_blocks(sizes), self._column_blocks, products

    @property
    def _column_blocks(self) -> Index:
        packing = self.product.packing
        return ceildiv(packing.group_outputs, packing.schedule.block_columns)

    def _block_count(self, sizes: Sizes) -> Index:
        packing = self.product.packing
        products = packing.products * packing.schedule.reduction_parts
        return packing.row_blocks(sizes) * self._column_blocks * products

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
        packing, parts = self.product.packing, self.product.packing.schedule.reduction_parts
        first_column = workgroup[1] * packing.schedule.block_columns
        if packing.padded_filters == packing.schedule.block_columns:
            first_column = Index(0)
        product = workgroup[2] // parts if packing.products > 1 else Index(0)
        part = workgroup[2] % parts if parts > 1 else Index(0)
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

        def storing(block: Block) -> StoreQuad:
            numbered = block.product * self.product.packing.schedule.reduction_parts + block.part
            origin = products.offset([block.row_block, numbered, 0, block.first_column])
            return lambda row, column, value: products.store(
                value, origin + row * products.stride(2) + column
            )

        self.product.emit(self._blocks(work), work.sizes, left, filters, storing)


@dataclass(frozen=True)
class DirectProductKernel(BlockedProductKernel):
    """A convolution of output tile 1. Its products are its results, finished and written in place."""

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        """Emits a direct convolution: from `image`, N x H... x C, to finished outputs, N x OH... x K."""
        packing = self.product.packing
        if packing.shape.transform_size != 1 or packing.schedule.reduction_parts != 1:
            raise ValueError(f"{packing.schedule} leaves no results of {packing.shape.decomposition}")
        tiles, sized = packing.tiles(work.sizes), SizedShape.of(packing.shape, work.sizes)
        whole_rows = tiles.known is not None and tiles.known % packing.schedule.block_rows == 0

        def store(block: Block, row: Index, column: Index, value: ir.Value) -> None:
            tile_number = block.row_block * packing.schedule.block_rows + row
            exists = Condition(True) if whole_rows else tile_number.less_than(tiles)
            first = block.first_column + column
            if packing.group_outputs != packing.padded_filters:
                exists = exists & first.less_than(packing.group_outputs)

            def finish() -> None:
                tile = locate_tile(sized, tile_number)
                position = tuple(each.first for each in output_positions(sized, tile))
                channel = block.product * packing.group_outputs + first
                finished = epilogue(value, tile.image, position, channel)
                output.store_first(
                    finished,
                    output.offset([tile.image, *position, channel]),
                    Index(packing.group_outputs) - first,
                    Condition(True),
                )

            when(exists, finish)

        blocks = self._blocks(work)
        self.product.emit(blocks, work.sizes, image, filters, lambda block: partial(store, block))
