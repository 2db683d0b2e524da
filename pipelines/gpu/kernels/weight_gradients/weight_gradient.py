"""The gradient of a filter on the GPU: tiles of images times tiles of gradients, summed over tiles.

Transformed tiles lie with their channels side by side, so that of both operands of a product the reduction
dimension is the outermost one. Blocks of tiles are summed by workgroups of their own, then added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    clamped_element,
    input_positions,
    locate_tile,
    output_positions,
)
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemm import LoadRows, emit_product
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid, transform_grid
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking
from iree.winograd.pipelines.gpu.schedules.weight_gradient import MultiplyAddWeightGradientSchedule

from .tile_product import PackedTileProductKernel, Panel


@dataclass(frozen=True)
class TileKernel(ABC):
    """packed[b, a*g + group, t, c] = the transform of a tile, whose channels are `c`; zeros for no tile."""

    packing: WeightGradientPacking

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Tiles, channels, views."""
        return (*self._grid.workgroups(self.packing.padded_tiles(sizes)), Index(self.views))

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is N x H... x C."""
        number, quad, exists = self._grid.place(work.workgroup, self.packing.padded_tiles(work.sizes))
        view = work.workgroup[2] if self.views > 1 else Index(0)
        when(exists, lambda: self._transform(number, quad, view, work.sizes, source, packed))

    @property
    @abstractmethod
    def channels_first(self) -> bool:
        """Whether the channels of the source lie before its spatial dimensions."""

    @property
    @abstractmethod
    def views(self) -> int:
        """Of the source, whose channels lie behind each other."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Of a group."""

    @property
    @abstractmethod
    def recipes(self) -> Sequence[Recipe]:
        """The transform, for each dimension."""

    @abstractmethod
    def positions(self, shape: SizedShape, tile: Tile, view: Index) -> list[Positions]:
        """Where the elements of a tile lie in the source."""

    @property
    def _quads(self) -> int:
        """Of the channels of a group."""
        return ceil_div(self.channels, QUAD)

    @property
    def _grid(self) -> ThreadGrid:
        quads = self.packing.shape.groups * self._quads
        return transform_grid(quads, channels_first=self.channels_first)

    def _transform(
        self,
        number: Index,
        quad: Index,
        view: Index,
        sizes: Sizes,
        source: GlobalBuffer,
        packed: GlobalBuffer,
    ) -> None:
        packing, groups = self.packing, self.packing.shape.groups
        tiles, shape = packing.tiles(sizes), SizedShape.of(packing.shape, sizes)
        is_tile = Condition(True) if packing.are_whole(sizes) else number.less_than(tiles)
        tile = locate_tile(shape, number.minimum(tiles - 1))
        positions = self.positions(shape, tile, view)
        group, first = quad // self._quads, quad % self._quads * QUAD
        block, place = packing.tile_place(number)
        origin = packed.offset([block, group, place, view * (self._quads * QUAD) + first])

        def load(element: Position) -> ir.Value:
            position, exists = clamped_element(positions, element)
            offset = source.offset([tile.image, *position, group * self.channels + first])
            return source.load_first(offset, Index(self.channels) - first, exists & is_tile)

        def store(element: Position, value: ir.Value) -> None:
            point = flattened(element, packing.shape.decomposition.alpha)
            packed.store(value, origin + point * (groups * packed.stride(1)))

        emit_unrolled(self.recipes, load, store, True)


@dataclass(frozen=True)
class ImageTileKernel(TileKernel):
    """packed[b, a*g + group, t, r] = (B^T d)[a] of a view of a tile of the images."""

    @property
    def channels_first(self) -> bool:
        return self.packing.shape.input_channels_first

    @property
    def views(self) -> int:
        return self.packing.views

    @property
    def channels(self) -> int:
        return self.packing.group_channels

    @property
    def recipes(self) -> Sequence[Recipe]:
        return [each.input for each in self.packing.shape.decomposition.gradient_transforms]

    def positions(self, shape: SizedShape, tile: Tile, view: Index) -> list[Positions]:
        return input_positions(shape, tile, self.packing.view_offsets(view))


@dataclass(frozen=True)
class GradientTileKernel(TileKernel):
    """packed[b, a*g + group, t, k] = (A y)[a] of the gradients y of the outputs of a tile."""

    @property
    def channels_first(self) -> bool:
        return self.packing.shape.output_channels_first

    @property
    def views(self) -> int:
        return 1

    @property
    def channels(self) -> int:
        return self.packing.group_outputs

    @property
    def recipes(self) -> Sequence[Recipe]:
        return [each.filter for each in self.packing.shape.decomposition.gradient_transforms]

    def positions(self, shape: SizedShape, tile: Tile, view: Index) -> list[Positions]:
        return output_positions(shape, tile)


@dataclass(frozen=True)
class MultiplyAddTileProductKernel(PackedTileProductKernel):
    """The products by fused multiply-adds."""

    schedule: MultiplyAddWeightGradientSchedule
    """That of the packing."""

    def _multiply(self, images: Panel, gradients: Panel, products: Panel) -> None:
        def rows(row: Index) -> LoadRows:
            origin, stride = images.origin + row, images.stride
            return lambda t, own: [images.buffer.load(origin + (t + own + i) * stride) for i in range(QUAD)]

        emit_product(
            self.schedule.product,
            self.schedule.tile_block,
            rows,
            lambda t, column: gradients.buffer.load(gradients.origin + t * gradients.stride + column),
            lambda row, column, value: products.buffer.store(
                value, products.origin + row * products.stride + column
            ),
            gradients.buffer.computed,
            left_by_rows=False,
        )


@dataclass(frozen=True)
class TotalKernel:
    """total[0, ...] = sum over b of products[b, ...], in the order of the blocks of tiles."""

    packing: WeightGradientPacking

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of all products, columns."""
        return self._grid.workgroups(self._rows)

    def emit(self, work: Work, products: GlobalBuffer, total: GlobalBuffer) -> None:
        """Emits the sums of a workgroup, a quad for each thread."""
        row, quad, exists = self._grid.place(work.workgroup, self._rows)
        first = row * total.stride(2) + quad * QUAD

        def add() -> None:
            total.store(_sum_of_blocks(products, first, self.packing.tile_blocks(work.sizes)), first)

        when(exists, add)

    @property
    def _rows(self) -> Index:
        return Index(self.packing.products * self.packing.padded_rows)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(self.packing.padded_filters // QUAD)


@dataclass(frozen=True)
class FilterGradientKernel:
    """filter[taps of a view, c, k] = (G^T M G)[taps], M the products of the view and of `c` and `k`.

    Of direct convolutions these are sums over the blocks of tiles, in their order.
    """

    packing: WeightGradientPacking
    outputs_are_innermost: bool
    """Whether neighbouring output channels are neighbours in memory."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Input channels of a group, output channels of all groups, views."""
        return (*self._grid.workgroups(Index(self.packing.group_channels)), Index(self.packing.views))

    def emit(self, work: Work, products: GlobalBuffer, filters: GlobalBuffer) -> None:
        """`products` are of one block of tiles, or of those that are added, `filters` R... x C/g x K."""
        channel, quad, exists = self._grid.place(work.workgroup, Index(self.packing.group_channels))
        view = work.workgroup[2] if self.packing.views > 1 else Index(0)
        blocks = self.packing.tile_blocks(work.sizes) if self.packing.adds_blocks_last else Index(1)
        when(exists, lambda: self._transform(channel, quad, view, blocks, products, filters))

    @property
    def _quads(self) -> int:
        """Of the output channels of a group."""
        return ceil_div(self.packing.group_outputs, QUAD)

    @property
    def _grid(self) -> ThreadGrid:
        quads = self.packing.shape.groups * self._quads
        return transform_grid(quads, channels_first=not self.outputs_are_innermost)

    def _transform(
        self,
        channel: Index,
        quad: Index,
        view: Index,
        blocks: Index,
        products: GlobalBuffer,
        filters: GlobalBuffer,
    ) -> None:
        packing, decomposition = self.packing, self.packing.shape.decomposition
        group, first = quad // self._quads, quad % self._quads * QUAD
        origin = products.offset([0, group, view * packing.padded_channels + channel, first])
        stride = packing.shape.groups * products.stride(1)
        offsets = packing.view_offsets(view)
        remaining = Index(packing.group_outputs) - first

        def load(element: Position) -> ir.Value:
            place = origin + flattened(element, decomposition.alpha) * stride
            return _sum_of_blocks(products, place, blocks)

        def store(element: Position, value: ir.Value) -> None:
            tap, exists = [], Condition(True)
            for d, i in enumerate(element):
                # Offsets of views meet the kernel's taps exactly.
                index = (offsets[d] + i * decomposition.spacing[d]) // decomposition.dilation[d]
                exists = exists & index.less_than(decomposition.kernel_size[d])
                tap.append(index)
            offset = filters.offset([*tap, channel, group * packing.group_outputs + first])
            filters.store_first(value, offset, remaining, exists)

        recipes = [each.output for each in decomposition.gradient_transforms]
        emit_unrolled(recipes, load, store, True)


def _sum_of_blocks(products: GlobalBuffer, first: Index, blocks: Index) -> ir.Value:
    """Of a quad of each block of tiles, from that at `first` on."""

    def added(block: Index, sums: list[ir.Value]) -> list[ir.Value]:
        return [arith.addf(sums[0], products.load(first + block * products.stride(0)))]

    if blocks.known is None:
        # There may be none.
        (total,) = loop_carried(blocks, 1, [constant_quad(0.0, products.computed)], added, "block")
        return total
    if blocks.known == 1:
        return products.load(first)
    (total,) = loop_carried(
        blocks - 1, 1, [products.load(first)], lambda block, sums: added(block + 1, sums), "block"
    )
    return total
