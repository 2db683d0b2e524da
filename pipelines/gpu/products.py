"""The kernels that multiply packed operands, or images in place for output tile 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.tiles import (
    clamped_element,
    input_positions,
    locate_tile,
    output_positions,
)
from iree.winograd.pipelines.emission.vocabulary import Condition, Index, ceildiv, when

from .gemm import LoadRows, StoreQuad, emit_product
from .memory import QUAD, GlobalBuffer
from .packing import Packing
from .transforms import Epilogue


@dataclass(frozen=True)
class ProductKernel:
    """products[b, a*g + group, t, k] = sum over r of transformed[b, a*g + group, t, r] * filters[..., r, k].

    A workgroup computes a block of tiles and channels of one product, over one part of the reduction. A
    convolution of output tile 1 has one product per group, and its input is read in place; `emit_direct`
    writes its result in place, too.
    """

    packing: Packing

    def workgroups(self, batch: Index) -> tuple[Index, Index, Index]:
        """Blocks of tiles, blocks of output channels, products and their parts."""
        packing = self.packing
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
        """Emits the kernel that leaves its products packed; `left` is the image if the output tile is 1."""

        def store(row: Index, column: Index, value: ir.Value) -> None:
            products.store(value, origin + row * products.stride(2) + column)

        def packed_rows(row: Index) -> LoadRows:
            first = left.offset([block, product, row, 0])
            return lambda r: [left.load(first + r + i * left.stride(2)) for i in range(QUAD)]

        def image_rows(row: Index) -> LoadRows:
            return self._image_rows(left, batch, product, block * packing.schedule.block_rows + row)

        packing = self.packing
        block, first_column, product = self._place(workgroup)
        numbered = product * packing.schedule.reduction_parts + self._part(workgroup)
        origin = products.offset([block, numbered, 0, first_column])
        rows = image_rows if packing.shape.transform_size == 1 else packed_rows
        self._emit(workgroup, rows, filters, store)

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
        packing = self.packing
        if packing.shape.transform_size != 1 or packing.schedule.reduction_parts != 1:
            raise ValueError(f"{packing.schedule} leaves no results of {packing.shape.decomposition}")
        block, first_column, group = self._place(workgroup)
        tiles = packing.tiles(batch)
        whole_rows = tiles.known is not None and tiles.known % packing.schedule.block_rows == 0

        def store(row: Index, column: Index, value: ir.Value) -> None:
            tile_number = block * packing.schedule.block_rows + row
            exists = Condition(True) if whole_rows else tile_number.less_than(tiles)
            first = first_column + column
            if packing.group_filters != packing.padded_filters:
                exists = exists & first.less_than(packing.group_filters)

            def finish() -> None:
                tile = locate_tile(packing.shape, tile_number)
                position = tuple(each.first for each in output_positions(packing.shape, tile))
                channel = group * packing.group_filters + first
                finished = epilogue(value, tile.image, position, channel)
                output.store_first(
                    finished,
                    output.offset([tile.image, *position, channel]),
                    Index(packing.group_filters) - first,
                    Condition(True),
                )

            when(exists, finish)

        def image_rows(row: Index) -> LoadRows:
            return self._image_rows(image, batch, group, block * packing.schedule.block_rows + row)

        self._emit(workgroup, image_rows, filters, store)

    def _emit(
        self,
        workgroup: tuple[Index, ...],
        left_rows: Callable[[Index], LoadRows],
        filters: GlobalBuffer,
        store: StoreQuad,
    ) -> None:
        packing = self.packing
        _, first_column, product = self._place(workgroup)
        first = self._part(workgroup) * packing.part_reduction
        filter_origin = filters.offset([product, first, first_column])

        def part_rows(row: Index) -> LoadRows:
            load = left_rows(row)
            return lambda r: load(r + first)

        emit_product(
            packing.schedule,
            packing.part_reduction,
            part_rows,
            lambda r, column: filters.load(filter_origin + r * packing.padded_filters + column),
            store,
        )

    def _image_rows(self, image: GlobalBuffer, batch: Index, group: Index, first: Index) -> LoadRows:
        """What loads the inputs of four outputs, from the given one on; those past the last repeat it."""
        packing, shape = self.packing, self.packing.shape
        last = packing.tiles(batch) - 1
        tiles = [locate_tile(shape, (first + i).minimum(last)) for i in range(QUAD)]

        def load(r: Index) -> list[ir.Value]:
            is_tap = Condition(True)
            if packing.reduction != packing.padded_reduction:
                is_tap = r.less_than(packing.reduction)
                r = r.minimum(packing.reduction - QUAD)
            padded_channels = packing.channel_quads * QUAD
            view = r // padded_channels if packing.views > 1 else Index(0)
            channel = r % padded_channels if packing.views > 1 else r
            offsets = packing.view_offsets(view)
            quads = []
            for tile in tiles:
                origin = (Index(0),) * shape.decomposition.spatial_rank
                position, exists = clamped_element(input_positions(shape, tile, offsets), origin)
                offset = image.offset([tile.image, *position, group * packing.group_channels + channel])
                remaining = Index(packing.group_channels) - channel
                quads.append(image.load_first(offset, remaining, exists & is_tap))
            return quads

        return load

    def _place(self, workgroup: tuple[Index, ...]) -> tuple[Index, Index, Index]:
        """This workgroup's block of tiles, first column, and product."""
        packing = self.packing
        first_column = workgroup[1] * packing.schedule.block_columns
        if packing.padded_filters == packing.schedule.block_columns:
            first_column = Index(0)
        product = workgroup[2] // packing.schedule.reduction_parts
        return workgroup[0], first_column, product if packing.products > 1 else Index(0)

    def _part(self, workgroup: tuple[Index, ...]) -> Index:
        """The part of the reduction that this workgroup sums."""
        parts = self.packing.schedule.reduction_parts
        return workgroup[2] % parts if parts > 1 else Index(0)
