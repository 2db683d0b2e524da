"""Direct convolutions as implicit matrix products on matrix units, which split or round the image on the way.

A workgroup copies all filters of its output channels to shared memory once. Then its warpgroups, each on
its own, take one tile of 64 outputs after the other. A warpgroup loads the patch of the image that the tile
reads, scales it by a power of two, leaves it in shared memory as high and low parts, and has matrix units
multiply it, for each tap from where that is in the patch. Images of half precision are left there as they
are. While one warpgroup loads or stores, others multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    GlobalBuffer,
    barrier,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Operand,
    SharedBytes,
    publish,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.matrix_sums import MatrixSums
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import Block, Outputs
from iree.winograd.pipelines.gpu.kernels.matrix_products.running_sums import RunningSums, Step
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_operands import SplitFilterKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup_results import WarpgroupResults
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .patches import CopiedPatches, LoadedPatches, Patches, Position, ScaledSums

_INTEGER_BYTES = 4


@dataclass(frozen=True)
class ImplicitGemmKernel:
    """output[n, o..., k] = epilogue(sum over taps and c of image[n, o + tap, c] * filters[tap, c, k])."""

    packing: ImplicitGemmPacking

    def filter_kernel(self, layout: FilterLayout) -> SplitFilterKernel:
        return SplitFilterKernel(self.packing, layout)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Those that walk over tiles, blocks of output channels."""
        packing = self.packing
        walking = packing.tile_count(sizes).minimum(packing.schedule.walking_workgroups)
        return walking, ceildiv(packing.group_outputs, packing.schedule.block_columns)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """`image` is N x H... x C, `filters` is packed, `output` is N x OH... x K."""
        _Workgroup(self.packing, work, image, filters).emit(output, epilogue)


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(
        self,
        packing: ImplicitGemmPacking,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
    ) -> None:
        schedule = packing.schedule
        self._packing, self._schedule = packing, schedule
        self._filters = filters
        self._sized = SizedShape.of(packing.shape, work.sizes)
        self._tiles = packing.tile_count(work.sizes)
        self._workgroup = work.workgroup[0]
        first_column = work.workgroup[1] * schedule.block_columns
        if packing.padded_filters == schedule.block_columns:
            first_column = Index(0)
        self._block = Block(Index(0), first_column, Index(0), Index(0))
        thread = thread_id()
        self._thread, self._warpgroup = thread % WARPGROUP_THREADS, thread // WARPGROUP_THREADS
        self._lane, self._warp = self._thread % WARP_THREADS, self._thread // WARP_THREADS
        self._shared = SharedBytes.allocate(packing.barrier_begin + BARRIER_BYTES, "filters_and_patches")
        self._filters_are_there = self._shared.barrier(packing.barrier_begin)
        patches = CopiedPatches if packing.patch.is_copied else LoadedPatches
        self._patches: Patches = patches(
            packing, work.sizes, image, self._shared, self._warpgroup, self._thread
        )

    def emit(self, output: GlobalBuffer, epilogue: VectorEpilogue) -> None:
        is_first = (self._warpgroup * WARPGROUP_THREADS + self._thread).less_than(1)
        when(is_first, self._initialize)
        barrier()
        when(is_first, self._copy_filters)
        schedule = self._schedule
        first = self._warpgroup * schedule.walking_workgroups + self._workgroup
        self._patches.begin_ahead(Position(first, Index(0), 0))
        with loop(self._tiles - first, schedule.tile_step, "tile") as ahead:
            position = Position(first + ahead, ahead // schedule.tile_step, 0)
            results = self._results(position.tile, output, epilogue)
            sums = ScaledSums.none()
            for block in range(schedule.channel_blocks):
                self._patches.begin(position)
                sums = self._patches.end(sums)
                if block == 0:
                    self._filters_are_there.wait(Index(0))
                # It comes while matrix units multiply.
                following = position.following(schedule)
                self._patches.begin_ahead(following)
                sums = self._multiply(position, sums)
                position = following
            self._store(results, sums)

    def _initialize(self) -> None:
        self._filters_are_there.initialize(arrivals=1)
        publish()

    def _copy_filters(self) -> None:
        packing = self._packing
        self._filters_are_there.arrive_expecting(packing.patches_begin)
        stage = packing.filter_stage(self._block.first_column, Index(0))
        source = self._filters.address + stage * HALF_BYTES
        for offset in range(0, packing.patches_begin, packing.stage_bytes):
            self._shared.copy(offset, source + offset, packing.stage_bytes, self._filters_are_there)

    # The products

    def _multiply(self, position: Position, before: ScaledSums) -> ScaledSums:
        packing, schedule, geometry = self._packing, self._schedule, self._packing.patch
        distances = geometry.pair_bytes, geometry.line_bytes
        patch = self._shared.gathered_operand(self._patches.place(position), *distances, schedule.factors)
        filters = self._shared.operand(0, schedule.factors)
        per_stage, parts = schedule.block_reduction // REDUCTION, range(schedule.parts)

        def operands(step: int, place: int, patch: Operand, filters: Operand) -> Step:
            stage, within = divmod(step, per_stage)
            rows, columns = patch.behind(place), filters.behind(stage * packing.stage_bytes)
            return Step(
                [rows.behind(part * geometry.part_bytes) for part in parts],
                [columns.step(part * per_stage + within) for part in parts],
            )

        steps = geometry.steps(position.block)
        sums = RunningSums.of(schedule, before.scalars) if before.scalars else RunningSums.none(schedule)
        summed = schedule.summed_steps or len(steps)
        for first in range(0, len(steps), summed):
            here = patch.here(), filters.here()
            sums = sums.add([operands(*step, *here) for step in steps[first : first + summed]])
        return ScaledSums(sums.landed(), before.largest)

    # The results

    def _results(self, tile: Index, output: GlobalBuffer, epilogue: VectorEpilogue) -> WarpgroupResults:
        image, *origin = self._patches.origin(tile)
        if numbers_pixels := self._numbers_pixels(output):
            epilogue = replace(epilogue, lined_up=self._sized.output_size)
        outputs = _TileOutputs(
            self._packing, output, epilogue, self._block, image, origin, self._sized, numbers_pixels
        )
        sums = MatrixSums(self._packing, self._block, self._filters)
        results = WarpgroupResults(sums, outputs, self._thread, self._schedule.registers)
        results.prefetch(WARPGROUP_ROWS, self._thread, WARPGROUP_THREADS)
        return results

    def _numbers_pixels(self, output: GlobalBuffer) -> bool:
        """Whether pixels of unknown sizes are addressed by their numbers, for which nothing is divided."""
        is_pointwise, is_open = self._packing.patch.is_pointwise, self._packing.shape.unknown_sizes
        return bool(is_open) and is_pointwise and output.has_pixels_in_order

    def _store(self, results: WarpgroupResults, sums: ScaledSums) -> None:
        row_scale = sums.scale if self._schedule.scales_operands else None
        results.begin()
        results.store(sums.scalars, [row_scale for _ in results.rows])


@dataclass(frozen=True)
class _TileOutputs(Outputs):
    """Those of a tile of an image, from its first one on."""

    packing: ImplicitGemmPacking
    image: Index
    origin: Sequence[Index]
    sized: SizedShape
    numbers_pixels: bool
    """Whether the position of an output of an image that is a line is its number in that."""

    def _exists(self, row: Index) -> Condition:
        exists = Condition(True)
        for index, size, is_whole in self._dimensions(row):
            exists = exists & (Condition(True) if is_whole else index.less_than(size))
        return exists

    def _located(self, row: Index, *, existing: bool) -> tuple[Index, tuple[Index, ...]]:
        down, across = (
            index.minimum(size - 1) if existing and not is_whole else index
            for index, size, is_whole in self._dimensions(row)
        )
        if not self.packing.patch.is_pointwise or self.numbers_pixels:
            return self.image, (down, across)
        return self.image, unflatten(across, self.sized.output_size)

    def _dimensions(self, row: Index) -> Iterator[tuple[Index, Index, bool]]:
        """Of both the position of a row, outputs, and whether tiles divide these."""
        patch = self.packing.patch
        within, plane = unflatten(row, patch.tile), patch.plane(self.sized.output_size)
        for begin, i, size, extent in zip(self.origin, within, plane, patch.tile, strict=True):
            yield begin + i, size, size.known is not None and size.known % extent == 0
