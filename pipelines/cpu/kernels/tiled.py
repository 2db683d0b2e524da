"""What kernels on matrix units share: which outputs a workgroup computes, block after block of registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_LANES
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.matrix_unit import TileSchedule, input_step, split_chunks
from iree.winograd.pipelines.cpu.tiles.touched_pixels import TouchedPixels, read_pixels
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import DirectKernel
from .staging import OutputBlock
from .store import RegisterBlockStore

ScheduleType = TypeVar("ScheduleType", bound=TileSchedule)


@dataclass(frozen=True)
class TiledKernel(Generic[ScheduleType]):
    """A kernel whose workgroups compute `row_block` rows of `pixel_block` outputs.

    Register blocks overlap rather than be cut short, and so do workgroups: what is computed twice is computed
    alike.
    """

    shape: ConvolutionShape
    """`in_lines`."""
    schedule: ScheduleType
    target: CpuTarget

    @property
    def without_unit(self) -> DirectKernel:
        """The direct kernel of the same workgroups and blocks of channels."""
        return DirectKernel(self.shape, self.schedule.without_unit, self.target)

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the pixels, one per block of output channels."""
        return self.without_unit.blocks

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x 1 x (taps, row-major, times input channels) x channel_block."""
        return self.without_unit.packed_filter_shape

    @property
    def filter_part(self) -> int:
        """Elements of the packed filters that a part of the output channels has."""
        return self.without_unit.filter_part

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return self.without_unit.view_order

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of outputs of all images, and parts of the output channels."""
        return self.without_unit.workgroups(sizes)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate, with the unit or without it."""
        with_unit = self._outputs(Index(number)).pixels(self.shape, self.schedule.pixel_block)
        without = self.without_unit.touched_pixels(number).written
        written = range(min(with_unit.start, without.start), max(with_unit.stop, without.stop))
        return TouchedPixels(read_pixels(self.shape, written), written)

    def _outputs(self, number: Index) -> OutputBlock:
        """The outputs of a workgroup; the last ones of an image overlap their neighbours."""
        schedule, shape = self.schedule, self.shape
        pixel_blocks = ceil_div(shape.output_size[-1], schedule.pixel_block)
        row_blocks = ceil_div(shape.output_rows, schedule.row_block)
        image = Index(0) if shape.batch == 1 else number // (row_blocks * pixel_blocks)
        first_row = number // pixel_blocks % row_blocks * schedule.row_block
        first_pixel = number % pixel_blocks * schedule.pixel_block
        return OutputBlock(
            image,
            first_row.minimum(shape.output_rows - schedule.row_block),
            Index(schedule.row_block),
            first_pixel.minimum(shape.output_size[-1] - schedule.pixel_block),
        )

    def _input_row(self, outputs: OutputBlock, row: Index) -> tuple[list[Index], Condition]:
        """The outer coordinates of a row that is split, and whether it is one of the image."""
        shape = self.shape
        if shape.spatial_rank == 1:
            return [], Condition(True)
        coordinate = (
            outputs.first_row * shape.strides[-2] - shape.padding_low[-2] + row * input_step(shape, -2)
        )
        outer = [Index(0)] * (shape.spatial_rank - 2)
        return [*outer, coordinate], coordinate.within(shape.input_size[-2])

    def _fetch_outputs(
        self,
        store: RegisterBlockStore,
        outputs: OutputBlock,
        channel_block: Index,
        place: tuple[Index, Index],
        step: Index,
    ) -> None:
        """Fetches, for a tile of the reduction, a part of what the register block at a row and pixel writes.

        Its lines lie as far apart as pixels, so that the processor doesn't foresee them.
        """
        schedule = self.schedule
        vectors, pixels = schedule.channel_tiles, schedule.pixel_tiles * schedule.tile_pixels
        count = schedule.row_tiles * pixels * vectors
        of_step = ceil_div(count, self._steps)
        for number in range(of_step):
            vector = (step * of_step + number).minimum(count - 1)
            row, pixel = place[0] + vector // (vectors * pixels), place[1] + vector // vectors % pixels
            position = self._position(outputs, row, pixel)
            store.prefetch(outputs.number, position, self.blocks.first(channel_block), vector % vectors)

    def _finish(
        self,
        sums: Buffer,
        store: RegisterBlockStore,
        outputs: OutputBlock,
        channel_block: Index,
        place: tuple[Index, Index],
    ) -> None:
        """Makes outputs of a register block of sums at a row and pixel, one pixel after the other."""
        rows, pixels, _ = sums.extents
        with loop(rows, name="finished_row") as r, loop(pixels, name="finished_pixel") as p:
            values = [
                sums.load(sums.offset([r, p, v * TILE_LANES]), TILE_LANES)
                for v in range(self.schedule.channel_tiles)
            ]
            row, pixel = place[0] + r, place[1] + p
            position = self._position(outputs, row, pixel)
            store.emit(values, outputs.number, position, self.blocks.first(channel_block), pixel)

    def _position(self, outputs: OutputBlock, row: Index, pixel: Index) -> tuple[Index, ...]:
        """Of an output of the workgroup in its image."""
        outer = (Index(0),) * (self.shape.spatial_rank - 2)
        position = (*outer, outputs.first_row + row, outputs.first_pixel + pixel)
        return position[-self.shape.spatial_rank :]

    @property
    def _taps(self) -> int:
        return prod(self.shape.kernel_size)

    @property
    def _chunks(self) -> int:
        return split_chunks(self.shape)

    @property
    def _steps(self) -> int:
        """Tiles of the reduction."""
        return self._taps * self._chunks

    @property
    def _blocks_of_row(self) -> int:
        return ceil_div(self.schedule.pixel_block, self.schedule.pixel_tiles * self.schedule.tile_pixels)

    @property
    def _register_blocks(self) -> int:
        """Of a workgroup, for one block of channels."""
        return ceil_div(self.schedule.row_block, self.schedule.row_tiles) * self._blocks_of_row
