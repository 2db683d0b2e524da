"""Transforms on the GPU: one tile and quad of channels per thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Protocol

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, ceildiv
from iree.winograd.pipelines.emission.recipe import Load, Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import (
    Positions,
    Tile,
    clamped_element,
    input_positions,
    locate_tile,
    output_positions,
)
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.instruction_order import kept_here
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
    HalfQuads,
    lane,
    quad_of,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.predicated_load import load_where
from iree.winograd.pipelines.gpu.packing.convolution import ConvolutionPacking
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking, ProductPacking

TRANSFORM_THREADS = 128
WORKGROUP_QUADS = 16
"""Neighbouring quads of channels that a workgroup of a transform takes: 256 bytes, whole cache lines."""
CHANNELS_FIRST_QUADS = 4
"""The same where channels of an image lie far apart: neighbouring tiles are what shares its cache lines."""

MAX_BRANCHING_TILE = 96
"""Elements of a tile of unknown sizes whose outputs may be computed where each is stored: of larger ones what
they are of is spilled. Of smaller ones more is requested before the first sum."""
OPERAND_REGISTERS = 64
"""Of a thread, for what an epilogue reads of images before any of its results is stored."""


class Epilogue(Protocol):
    """What is computed of quads of sums, or of halves of them, as `VectorEpilogue` does."""

    @property
    def image_operands(self) -> int:
        """How many operands have a value for each output."""

    def load(
        self, image: Index, position: tuple[Index, ...], channel: Index, width: int
    ) -> Sequence[ir.Value]:
        """What the output at a position reads, for so many channels from the first one on."""

    def applied(self, accumulated: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        """The finished quad, or half of one."""


@dataclass(frozen=True)
class ThreadGrid:
    """Threads over rows (tiles, say) and quads of columns, so many in a workgroup, which takes at most
    `workgroup_quads` neighbouring quads, a power of two; or over halves of quads in their place."""

    quads: int
    threads: int = TRANSFORM_THREADS
    workgroup_quads: int = WORKGROUP_QUADS

    @property
    def quads_per_workgroup(self) -> int:
        """A power of two."""
        return min(self.workgroup_quads, 1 << (self.quads - 1).bit_length())

    @property
    def rows_per_workgroup(self) -> int:
        return self.threads // self.quads_per_workgroup

    def workgroups(self, rows: Index) -> tuple[Index, Index]:
        """The extent of the grid along rows, and along quads."""
        return ceildiv(rows, self.rows_per_workgroup), ceildiv(self.quads, self.quads_per_workgroup)

    def place(self, workgroup: tuple[Index, ...], rows: Index) -> tuple[Index, Index, Condition]:
        """This thread's row and quad, and whether they exist."""
        thread = thread_id()
        row = workgroup[0] * self.rows_per_workgroup + thread // self.quads_per_workgroup
        quad = workgroup[1] * self.quads_per_workgroup + thread % self.quads_per_workgroup
        exists = Condition(True)
        if rows.known is None or rows.known % self.rows_per_workgroup:
            exists = row.less_than(rows)
        if self.quads % self.quads_per_workgroup:
            exists = exists & quad.less_than(self.quads)
        return row, quad, exists


def transform_grid(
    quads: int, *, channels_first: bool, threads: int = TRANSFORM_THREADS, channels: int = QUAD
) -> ThreadGrid:
    """The threads of a transform of so many quads of channels, for an image of either layout.

    A thread takes so many `channels`: a quad, or half of one.
    """
    parts = QUAD // channels
    neighbours = CHANNELS_FIRST_QUADS if channels_first else WORKGROUP_QUADS
    return ThreadGrid(quads * parts, threads, neighbours * parts)


def _quads_of(part: Index, channels: int, *buffers: GlobalBuffer) -> tuple[Index, Sequence[GlobalBuffer]]:
    """The quad that a thread has all of, or half, and the arrays as it loads and stores them."""
    if channels == QUAD:
        return part, buffers
    return part // (QUAD // channels), [HalfQuads.of(each, part % (QUAD // channels)) for each in buffers]


@dataclass(frozen=True)
class _EpilogueOfHalves:
    """For one half of quads. What it reads are whole ones."""

    of_quads: VectorEpilogue
    half: Index

    @property
    def image_operands(self) -> int:
        return self.of_quads.image_operands

    def load(
        self, image: Index, position: tuple[Index, ...], channel: Index, width: int
    ) -> Sequence[ir.Value]:
        assert width == PAIR
        return [self._half(quad) for quad in self.of_quads.load(image, position, channel, QUAD)]

    def applied(self, accumulated: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        return self.of_quads.applied(accumulated, loaded)

    def _half(self, quad: ir.Value) -> ir.Value:
        low, high = (quad_of([lane(quad, first + i) for i in range(PAIR)]) for first in (0, PAIR))
        # Vulkan's SPIR-V before 1.4 selects vectors by vectors only.
        lanes = ir.VectorType.get([PAIR], ir.IntegerType.get_signless(1))
        return arith.select(vector.broadcast(lanes, self.half.less_than(1).value), low, high)


class OperandKernel(Protocol):
    """Writes an operand of the products as they read it."""

    @property
    def threads(self) -> int:
        """Of a workgroup."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """The extents of the grid."""

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the image, N x H... x C, or the filters in the layout that they have."""


@dataclass(frozen=True)
class InputTransformKernel:
    """transformed[b, a*g + group, t, view, c] = (B^T d)[a] of a view of a tile; zeros to the end of a row."""

    packing: MultiplyAddPacking
    channels: int = QUAD
    """Of a thread: a quad, or half of one."""
    threads: int = TRANSFORM_THREADS
    takes_ptx: bool = False
    """Whether the code may have instructions of NVIDIA's GPUs: loads where a condition holds."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Tiles, channels, views."""
        return (*self._grid.workgroups(self.packing.tiles(sizes)), Index(self.packing.views))

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the image, N x H... x C."""
        tile, part, exists = self._grid.place(work.workgroup, self.packing.tiles(work.sizes))
        view = work.workgroup[2] if self.packing.views > 1 else Index(0)
        is_open = bool(self.packing.shape.unknown_sizes)
        whole = source.by(self.channels) if self.takes_ptx and is_open and source.by_quads else None
        quad, (source, packed) = _quads_of(part, self.channels, source, packed)
        sized = SizedShape.of(self.packing.shape, work.sizes)
        when(exists, lambda: self._transform(sized, tile, quad, view, source, packed, whole))

    @property
    def _grid(self) -> ThreadGrid:
        shape, packing = self.packing.shape, self.packing
        quads = shape.groups * packing.channel_quads
        return transform_grid(
            quads,
            channels_first=shape.input_channels_first,
            threads=self.threads,
            channels=self.channels,
        )

    def _transform(
        self,
        sized: SizedShape,
        number: Index,
        quad: Index,
        view: Index,
        image: GlobalBuffer,
        transformed: GlobalBuffer,
        whole: GlobalBuffer | None,
    ) -> None:
        """`whole` is the image by what a thread has of a pixel, for loads where that exists."""
        packing, shape = self.packing, self.packing.shape
        decomposition = shape.decomposition
        tile = locate_tile(sized, number)
        positions = input_positions(sized, tile, packing.view_offsets(view))
        group, first = quad // packing.channel_quads, quad % packing.channel_quads * QUAD
        channel = group * packing.group_channels + first
        block_rows = packing.schedule.block_rows
        origin = transformed.offset([number // block_rows, group, number % block_rows, 0])
        column = origin + view * (packing.channel_quads * QUAD) + first
        stride = shape.groups * transformed.stride(1)

        def load(element: Position) -> ir.Value:
            position, exists = clamped_element(positions, element)
            offset = image.offset([tile.image, *position, channel])
            return image.load_first(offset, Index(packing.group_channels) - first, exists)

        def store(element: Position, value: ir.Value) -> None:
            transformed.store(value, column + flattened(element, decomposition.alpha) * stride)

        recipes = [each.input for each in decomposition.transforms]
        if whole is None:
            emit_unrolled(recipes, load, store, True)
        else:
            half = image.half * PAIR if isinstance(image, HalfQuads) else 0
            emit_unrolled(recipes, _loads_where(whole, tile, positions, channel + half), store, True)
        if packing.padded_reduction == packing.reduction:
            return

        def clear_padding() -> None:
            for a, c in product(
                range(shape.transform_size), range(packing.reduction, packing.padded_reduction, QUAD)
            ):
                zeros = splat(0.0, self.channels, transformed.computed)
                transformed.store(zeros, origin + (a * stride + c))

        is_first = all_of([first.less_than(1), view.less_than(1)])
        when(is_first, clear_padding)


def _loads_where(image: GlobalBuffer, tile: Tile, positions: list[Positions], channel: Index) -> Load:
    """What loads the elements of a tile that exist, zeros for others: of an image whose rows lie as far apart
    as they come, and the elements of one at known distances."""
    first = image.offset([tile.image, *(each.first for each in positions), channel])

    def load(element: Position) -> ir.Value:
        _, exists = clamped_element(positions, element)
        distances = [i * each.spacing for i, each in zip(element, positions, strict=True)]
        return load_where(image, first + image.distance([0, *distances, 0]), exists)

    return load


@dataclass(frozen=True)
class OutputTransformKernel:
    """output[n, o..., k] = epilogue((A^T M)[o, k]) for a tile and a quad of channels, M summed over parts."""

    packing: ProductPacking
    channels: int = QUAD
    """Of a thread: a quad, or half of one."""
    is_for_cuda: bool = False
    """Whether outputs of large tiles of unknown sizes, any of which may not exist, are all computed before
    one is stored."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Tiles, channels."""
        return self._grid.workgroups(self.packing.tiles(sizes))

    def emit(
        self,
        work: Work,
        products: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """`output` is N x OH... x K."""
        tile, part, exists = self._grid.place(work.workgroup, self.packing.tiles(work.sizes))
        quad, (products, output) = _quads_of(part, self.channels, products, output)
        finished = _EpilogueOfHalves(epilogue, output.half) if isinstance(output, HalfQuads) else epilogue
        sized = SizedShape.of(self.packing.shape, work.sizes)
        when(exists, lambda: self._transform(sized, tile, quad, products, output, finished))

    @property
    def _grid(self) -> ThreadGrid:
        quads = self.packing.shape.groups * self.packing.filter_quads
        return transform_grid(quads, channels_first=False, channels=self.channels)

    def _transform(
        self,
        sized: SizedShape,
        number: Index,
        quad: Index,
        products: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        packing, shape = self.packing, self.packing.shape
        tile = locate_tile(sized, number)
        group, first = quad // packing.filter_quads, quad % packing.filter_quads * QUAD
        channel = group * packing.group_outputs + first
        block_rows, parts = packing.schedule.block_rows, packing.schedule.reduction_parts
        whole = packing.whole_products // shape.groups

        def place(slot: Index) -> Index:
            return products.offset([number // block_rows, slot, number % block_rows, first])

        origin_of_whole = place(group) if whole else None
        origin = place(group * parts + whole * shape.groups)
        stride = shape.groups * products.stride(1)

        def load(element: Position) -> ir.Value:
            number = flattened(element, shape.decomposition.alpha)
            if origin_of_whole is not None and number.known is not None and number.known < whole:
                return products.load(origin_of_whole + number * stride)
            product = origin + (number - whole) * (stride * parts)
            summands = (products.load(product + part * products.stride(1)) for part in range(parts))
            return reduce(arith.addf, summands)

        is_large = shape.transform_size > MAX_BRANCHING_TILE
        are_kept = self.is_for_cuda and bool(shape.unknown_sizes) and is_large
        transform_output(packing, sized, tile, channel, first, load, output, epilogue, are_kept=are_kept)


def transform_output(
    packing: ConvolutionPacking,
    sized: SizedShape,
    tile: Tile,
    channel: Index,
    first: Index,
    load: Load,
    output: GlobalBuffer,
    epilogue: Epilogue,
    *,
    are_kept: bool = False,
) -> None:
    """output[n, o..., k] = epilogue((A^T M)[o, k]) for a tile and a quad of channels.

    The quad begins at `channel`, which is number `first` of its group. `load` gives quads of M, `output` is
    N x OH... x K. A kernel for CUDA may have all outputs of the tile computed, and kept, before the first of
    them is stored: where each may not exist LLVM otherwise keeps all that they are computed of.
    """
    decomposition = packing.shape.decomposition
    positions = output_positions(sized, tile)
    outputs: list[tuple[Position, ir.Value]] = []
    recipes = [each.output for each in decomposition.transforms]
    emit_unrolled(recipes, load, lambda element, value: outputs.append((element, value)), True)
    if are_kept:
        elements, values = zip(*outputs, strict=True)
        outputs = list(zip(elements, kept_here(values), strict=True))
    width = ir.VectorType(outputs[0][1].type).shape[0]
    together = max(OPERAND_REGISTERS // (width * max(epilogue.image_operands, 1)), 1)
    for begin in range(0, len(outputs), together):
        some = outputs[begin : begin + together]
        # A position that doesn't exist was moved to one that does, where the epilogue may read.
        places = [clamped_element(positions, element) for element, _ in some]
        # No compiler moves a load to before a store, and each would be waited for by itself.
        loaded = [epilogue.load(tile.image, position, channel, width) for position, _ in places]
        for (_, value), (position, exists), read in zip(some, places, loaded, strict=True):
            offset = output.offset([tile.image, *position, channel])
            finished = epilogue.applied(value, read)
            output.store_first(finished, offset, Index(packing.group_outputs) - first, exists)


@dataclass(frozen=True)
class FilterTransformKernel:
    """packed[a*g + group, view, c, k] = (G g)[a] of a view's taps; zeros where the layout is padded.

    That is the order for separate products; `packing` says where the fused kernel has what.
    """

    packing: MultiplyAddPacking | FusedPacking
    layout: FilterLayout
    threads: int = TRANSFORM_THREADS

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Positions along the reduction dimension, output channels, groups."""
        return (
            *self._grid.workgroups(Index(self.packing.padded_reduction)),
            Index(self.packing.shape.groups),
        )

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the filters, as the layout has them."""
        row, quad, exists = self._grid.place(work.workgroup, Index(self.packing.padded_reduction))
        group = work.workgroup[2] if self.packing.shape.groups > 1 else Index(0)
        when(exists, lambda: self._transform(row, quad * QUAD, group, source, packed))

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(self.packing.padded_filters // QUAD, self.threads)

    def _transform(
        self, row: Index, column: Index, group: Index, filters: GlobalBuffer, packed: GlobalBuffer
    ) -> None:
        packing, shape = self.packing, self.packing.shape
        load = filter_taps(packing, self.layout, row, column, group, filters)

        def store(element: Position, value: ir.Value) -> None:
            number = flattened(element, shape.decomposition.alpha)
            packed.store(value, packing.filter_offset(packed, number, group, row, column))

        recipes = [each.filter for each in shape.decomposition.transforms]
        emit_unrolled(recipes, load, store, True)


def filter_taps(
    packing: ProductPacking | FusedPacking,
    layout: FilterLayout,
    row: Index,
    column: Index,
    group: Index,
    filters: GlobalBuffer,
) -> Load:
    """What loads the taps for a position along the reduction dimension and a quad of a group's columns.

    Zeros where either is of the padding. `filters` lie as `layout` says.
    """
    decomposition = packing.shape.decomposition
    offsets, is_of_view = packing.offsets_of(row)
    channel = row % packing.padded_channels
    inside = is_of_view & channel.less_than(packing.group_channels)
    first = group * packing.group_outputs + column

    def load(element: Position) -> ir.Value:
        tap, exists = [], inside
        for d, i in enumerate(element):
            # Offsets of views meet the kernel's taps exactly.
            index = (offsets[d] + i * decomposition.spacing[d]) // decomposition.dilation[d]
            exists = exists & index.less_than(decomposition.kernel_size[d])
            tap.append(index.minimum(decomposition.kernel_size[d] - 1))
        channels = channel.minimum(packing.group_channels - 1), first
        offset = layout.place(filters, decomposition.kernel_size, tap, channels)
        # Columns of the padding would be behind the end of the array.
        safe = offset.minimum(filters.size - (QUAD if filters.by_quads else 1))
        remaining, stride = Index(packing.group_outputs) - column, layout.output_stride(filters)
        return filters.load_first(safe, remaining, exists & column.less_than(packing.group_outputs), stride)

    return load
