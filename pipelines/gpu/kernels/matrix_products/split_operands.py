"""The kernels that write split operands: transformed, scaled by powers of two, as high and low parts.

Or rounded, to bf16 without scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product

from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Tile, clamped_element, input_positions, locate_tile
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    barrier,
    lane,
    quad_type,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import TRANSFORM_THREADS, filter_taps
from iree.winograd.pipelines.gpu.packing.split import SPLIT, SplitPacking, filter_growth, input_growth

from .splitting import (
    integer_type,
    integers,
    largest_of,
    largest_of_quad,
    magnitude,
    parts_of,
    scales_for,
)

Elements = dict[tuple[int, ...], ir.Value]


@dataclass(frozen=True)
class SplitInputKernel:
    """transformed[b, a*g + group, t, r] = split((B^T d)[a] / scale[t]), r over views and channels of a group.

    The threads of one tile find its scale together, from the largest element of the image that it reads.
    """

    packing: SplitPacking

    @property
    def threads(self) -> int:
        return max(TRANSFORM_THREADS, self.packing.tile_threads)

    @property
    def _tiles(self) -> int:
        """Of a workgroup."""
        return self.threads // self.packing.tile_threads

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Tiles, groups."""
        return ceildiv(self.packing.tiles(sizes), self._tiles), Index(self.packing.shape.groups)

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the image, N x H... x C."""
        packing, count = self.packing, self.packing.tiles(work.sizes)
        thread = thread_id()
        number = work.workgroup[0] * self._tiles + thread // self.packing.tile_threads
        group = work.workgroup[1] if packing.shape.groups > 1 else Index(0)
        quad = thread % self.packing.tile_threads
        is_whole = count.known is not None and count.known % self._tiles == 0
        exists = Condition(True) if is_whole else number.less_than(count)
        # Threads without a tile take part in finding the scale of their neighbours'.
        sized = SizedShape.of(packing.shape, work.sizes)
        tile = locate_tile(sized, number.minimum(count - 1))
        block, row = number // packing.schedule.block_rows, number % packing.schedule.block_rows
        rounds = packing.input_rounds
        once = self._load(source, sized, tile, group, quad) if rounds == 1 else None
        inverse = None
        if packing.schedule.scales_operands:

            def larger(i: Index, found: list[ir.Value]) -> list[ir.Value]:
                loaded = once or self._load(source, sized, tile, group, quad + i * self.packing.tile_threads)
                return [largest_of([*found, *map(magnitude, loaded.values())])]

            (largest,) = loop_carried(rounds, 1, [integers(0)], larger, "round")
            largest = self._over_tile(largest_of_quad(largest))
            scale, inverse = scales_for(largest, input_growth(packing.shape))
            writes_scale = exists & quad.less_than(1)
            scales = packed.viewed_as(SPLIT.type)
            place = packing.input_scale(block, group, row)
            when(writes_scale, lambda: _store(scale, scales, place))
        halves = packed.viewed_as(packing.schedule.factors.type, QUAD)
        with loop(rounds, 1, "round") as i:
            own = quad + i * self.packing.tile_threads
            loaded = once or self._load(source, sized, tile, group, own)
            written = exists & own.less_than(packing.padded_reduction // QUAD)

            def write(loaded: Elements = loaded, own: Index = own) -> None:
                self._transform(loaded, inverse, block, row, group, own, halves)

            when(written, write)

    def _load(
        self, image: GlobalBuffer, sized: SizedShape, tile: Tile, group: Index, quad: Index
    ) -> Elements:
        """A tile's elements of a quad of the reduction dimension; zeros behind its end."""
        packing, quads = self.packing, self.packing.reduction // QUAD
        exists = Condition(True) if packing.reduction == packing.padded_reduction else quad.less_than(quads)
        quad = quad.minimum(quads - 1)
        view = quad // packing.channel_quads if packing.views > 1 else Index(0)
        channel = (quad % packing.channel_quads if packing.views > 1 else quad) * QUAD
        positions = input_positions(sized, tile, packing.view_offsets(view))
        remaining = Index(packing.group_channels) - channel
        loaded = {}
        for element in product(*map(range, packing.shape.decomposition.alpha)):
            position, inside = clamped_element(positions, tuple(map(Index, element)))
            offset = image.offset([tile.image, *position, group * packing.group_channels + channel])
            loaded[element] = image.load_first(offset, remaining, inside & exists)
        return loaded

    def _over_tile(self, largest: ir.Value) -> ir.Value:
        """The largest of all threads of the tile."""
        threads = self.packing.tile_threads
        largest = over_threads(largest, min(threads, WARP_THREADS), arith.maxui)
        if threads <= WARP_THREADS:
            return largest
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        warps = threads // WARP_THREADS
        type_ = ir.MemRefType.get([self.threads // WARP_THREADS], integer_type(), memory_space=space)
        with ir.Location.name("largest_of_warp"):
            shared = memref.AllocOp(type_, [], []).result
        warp = thread_id() // WARP_THREADS
        # All threads of a warp have the same.
        memref.store(largest, shared, [warp.value])
        barrier()
        first = warp // warps * warps
        return reduce(arith.maxui, [memref.load(shared, [(first + i).value]) for i in range(warps)])

    def _transform(
        self,
        loaded: Elements,
        inverse: ir.Value | None,
        block: Index,
        row: Index,
        group: Index,
        quad: Index,
        halves: ir.Value,
    ) -> None:
        packing, shape = self.packing, self.packing.shape
        factor = None if inverse is None else broadcast(inverse, QUAD)
        per_stage = packing.schedule.block_reduction // QUAD
        line = quad // per_stage * packing.schedule.block_rows + row
        place = packing.stage_place(line, quad % per_stage * QUAD)

        def load(element: Position) -> ir.Value:
            # Scaled before, transforms don't overflow.
            return _scaled(loaded[tuple(i.known or 0 for i in element)], factor)

        def store(element: Position, value: ir.Value) -> None:
            number = flattened(element, shape.decomposition.alpha) * shape.groups + group
            origin = packing.input_stage(block, number)
            parts = parts_of(value, packing.schedule)
            for part, at in zip(parts, (place, place ^ packing.low_part), strict=False):
                _store(part, halves, (origin + at) // QUAD)

        recipes = [each.input for each in shape.decomposition.transforms]
        emit_unrolled(recipes, load, store, True)


@dataclass(frozen=True)
class SplitFilterKernel:
    """packed[a*g + group, k, r] = split((G g)[a] / scale[k]): a workgroup for each quad of channels k."""

    packing: SplitPacking
    layout: FilterLayout
    threads: int = TRANSFORM_THREADS

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Output channels, groups."""
        del sizes
        return Index(self.packing.padded_filters // QUAD), Index(self.packing.shape.groups)

    def emit(self, work: Work, source: GlobalBuffer, packed: GlobalBuffer) -> None:
        """`source` is the filters, as the layout has them."""
        packing, shape = self.packing, self.packing.shape
        column, thread = work.workgroup[0] * QUAD, thread_id()
        group = work.workgroup[1] if shape.groups > 1 else Index(0)
        taps = [tuple(map(Index, each)) for each in product(*map(range, shape.decomposition.part_size))]
        inverse = None
        if packing.schedule.scales_operands:

            def larger(i: Index, found: list[ir.Value]) -> list[ir.Value]:
                load = filter_taps(packing, self.layout, i + thread, column, group, source)
                return [largest_of([*found, *(magnitude(load(tap)) for tap in taps)])]

            (largest,) = loop_carried(packing.padded_reduction, self.threads, [integers(0)], larger, "row")
            scale, inverse = scales_for(self._over_workgroup(largest), filter_growth(shape))
            place = packing.filter_scale(group, column)
            when(thread.less_than(1), lambda: packed.store(scale, place))
        halves = packed.viewed_as(packing.schedule.factors.type)
        with loop(packing.padded_reduction, self.threads, "row") as i:
            row = i + thread
            exists = row.less_than(packing.padded_reduction)
            when(exists, lambda: self._transform(row, column, group, inverse, source, halves))

    def _over_workgroup(self, largest: ir.Value) -> ir.Value:
        """The largest of all threads, per channel."""
        quads = SharedBuffer.allocate((self.threads,), "largest_of_thread", SPLIT.type)
        quads.store(arith.bitcast(quad_type(SPLIT.type), largest), [thread_id()])
        barrier()

        def larger(i: Index, found: list[ir.Value]) -> list[ir.Value]:
            return [arith.maxui(found[0], arith.bitcast(largest.type, quads.load([i])))]

        return loop_carried(self.threads, 1, [largest], larger, "thread")[0]

    def _transform(
        self,
        row: Index,
        column: Index,
        group: Index,
        inverse: ir.Value | None,
        source: GlobalBuffer,
        halves: ir.Value,
    ) -> None:
        packing, shape, block = self.packing, self.packing.shape, self.packing.schedule.block_columns
        taps = filter_taps(packing, self.layout, row, column, group, source)
        lines = packing.stage_lines(column % block)
        reduction = packing.schedule.block_reduction
        stage = row // reduction * block
        places = [packing.stage_place(stage + line, row % reduction) for line in lines]

        def load(element: Position) -> ir.Value:
            return _scaled(taps(element), inverse)

        def store(element: Position, value: ir.Value) -> None:
            number = flattened(element, shape.decomposition.alpha) * shape.groups + group
            origin = packing.filter_stage(column, number)
            parts = parts_of(value, packing.schedule)
            for part, other in zip(parts, (0, packing.low_part), strict=False):
                for i, place in enumerate(places):
                    _store(lane(part, i), halves, origin + (place ^ other))

        recipes = [each.filter for each in shape.decomposition.transforms]
        emit_unrolled(recipes, load, store, True)


@dataclass(frozen=True)
class OfSplitOperands:
    """A product of what the kernels here write."""

    packing: SplitPacking

    @property
    def input_kernel(self) -> SplitInputKernel | None:
        return None if self.packing.reads_image else SplitInputKernel(self.packing)

    def filter_kernel(self, layout: FilterLayout) -> SplitFilterKernel:
        return SplitFilterKernel(self.packing, layout)


def _scaled(value: ir.Value, factor: ir.Value | None) -> ir.Value:
    return value if factor is None else arith.mulf(value, factor)


def _store(value: ir.Value, target: ir.Value, index: Index) -> None:
    memref.store(value, target, [index.value])
