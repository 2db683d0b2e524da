"""Products of tiles of images and of gradients, summed over tiles: what all their kernels have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking


@dataclass(frozen=True)
class Panel:
    """Where a workgroup's block of an operand, or of the products, begins."""

    buffer: GlobalBuffer
    origin: Index

    @property
    def stride(self) -> IndexLike:
        """Elements from one tile, or one row of products, to the next."""
        return self.buffer.stride(2)


@dataclass(frozen=True)
class TileProductKernel(ABC):
    """products[b, a*g + group, r, k] = sum over t of images[b, ..., t, r] * gradients[b, ..., t, k]."""

    packing: WeightGradientPacking

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of rows, blocks of columns, products of all blocks of tiles."""
        packing = self.packing
        products = packing.tile_blocks(sizes) * packing.products
        return Index(packing.row_blocks), Index(packing.column_blocks), products

    @abstractmethod
    def emit(
        self,
        work: Work,
        images: GlobalBuffer,
        gradients: GlobalBuffer,
        products: GlobalBuffer,
    ) -> None:
        """Emits what a workgroup does for its block of one product."""


@dataclass(frozen=True)
class PackedTileProductKernel(TileProductKernel):
    """Those of operands that were packed, or are as they would be."""

    def emit(
        self,
        work: Work,
        images: GlobalBuffer,
        gradients: GlobalBuffer,
        products: GlobalBuffer,
    ) -> None:
        """Emits what a workgroup does for its block of one product; operands may be packed as they are."""
        packing, schedule = self.packing, self.packing.schedule
        blocks = packing.tile_blocks(work.sizes)
        images = replace(images, extents=(blocks, *packing.image_extents))
        gradients = replace(gradients, extents=(blocks, *packing.gradient_extents))
        row, column = work.workgroup[0] * schedule.block_rows, work.workgroup[1] * schedule.block_columns
        place = [work.workgroup[2] // packing.products, work.workgroup[2] % packing.products]
        self._multiply(
            Panel(images, images.offset([*place, 0, row])),
            Panel(gradients, gradients.offset([*place, 0, column])),
            Panel(products, products.offset([*place, row, column])),
        )

    @abstractmethod
    def _multiply(self, images: Panel, gradients: Panel, products: Panel) -> None:
        """Emits the product of a workgroup."""
