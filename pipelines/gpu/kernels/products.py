"""The stage between the transforms: the kernels that multiply, and what they ask of each kind of product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.tiles import locate_tile, output_positions
from iree.winograd.pipelines.emission.vocabulary import Condition, Index, ceildiv, when
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
    def input_kernel(self) -> OperandKernel | None:
        """What writes its left operand; None where that is the image itself."""

    @property
    def filter_kernel(self) -> OperandKernel:
        """What writes its right operand from filters known only at run time."""

    def emit(
        self, block: Block, batch: Index, left: GlobalBuffer, filters: GlobalBuffer, store: StoreQuad
    ) -> None:
        """Emits what a workgroup does for its block."""


@dataclass(frozen=True)
class ProductKernel:
    """products[b, a*g + group, t, k] = sum over r of transformed[b, a*g + group, t, r] * filters[..., r, k].

    A workgroup computes a block of tiles and channels of one product, over one part of the reduction. A
    convolution of output tile 1 has one product per group, and its input is read in place; `emit_direct`
    writes its result in place, too.
    """

    product: Product

    def workgroups(self, batch: Index) -> tuple[Index, Index, Index]:
        """Blocks of tiles, blocks of output channels, products and their parts."""
        packing = self.product.packing
        columns = ceildiv(packing.group_filters, packing.schedule.block_columns)
        return packing.row_blocks(batch), columns, Index(packing.products * packing.schedule.reduction_parts)

    def emit(
        self,
        workgroup: tuple[Index, ...],
        batch: Index,
        left: GlobalBuffer,
        filters: GlobalBuffer,
        products: GlobalBuffer,
    ) -> None:
        """Emits the kernel that leaves its products packed."""

        def store(row: Index, column: Index, value: ir.Value) -> None:
            products.store(value, origin + row * products.stride(2) + column)

        block = self._place(workgroup)
        numbered = block.product * self.product.packing.schedule.reduction_parts + block.part
        origin = products.offset([block.row_block, numbered, 0, block.first_column])
        self.product.emit(block, batch, left, filters, store)

    def emit_direct(
        self,
        workgroup: tuple[Index, ...],
        batch: Index,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        """Emits a direct convolution: from `image`, N x H... x C, to finished outputs, N x OH... x K."""
        packing = self.product.packing
        if packing.shape.transform_size != 1 or packing.schedule.reduction_parts != 1:
            raise ValueError(f"{packing.schedule} leaves no results of {packing.shape.decomposition}")
        block = self._place(workgroup)
        tiles = packing.tiles(batch)
        whole_rows = tiles.known is not None and tiles.known % packing.schedule.block_rows == 0

        def store(row: Index, column: Index, value: ir.Value) -> None:
            tile_number = block.row_block * packing.schedule.block_rows + row
            exists = Condition(True) if whole_rows else tile_number.less_than(tiles)
            first = block.first_column + column
            if packing.group_filters != packing.padded_filters:
                exists = exists & first.less_than(packing.group_filters)

            def finish() -> None:
                tile = locate_tile(packing.shape, tile_number)
                position = tuple(each.first for each in output_positions(packing.shape, tile))
                channel = block.product * packing.group_filters + first
                finished = epilogue(value, tile.image, position, channel)
                output.store_first(
                    finished,
                    output.offset([tile.image, *position, channel]),
                    Index(packing.group_filters) - first,
                    Condition(True),
                )

            when(exists, finish)

        self.product.emit(block, batch, image, filters, store)

    def _place(self, workgroup: tuple[Index, ...]) -> Block:
        packing, parts = self.product.packing, self.product.packing.schedule.reduction_parts
        first_column = workgroup[1] * packing.schedule.block_columns
        if packing.padded_filters == packing.schedule.block_columns:
            first_column = Index(0)
        product = workgroup[2] // parts if packing.products > 1 else Index(0)
        part = workgroup[2] % parts if parts > 1 else Index(0)
        return Block(workgroup[0], first_column, product, part)
