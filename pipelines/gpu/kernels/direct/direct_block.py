"""Direct convolutions whose threads compute blocks of outputs: what these share of an image is read once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.instruction_order import computed_here
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.device.predicated_load import load_where
from iree.winograd.pipelines.gpu.schedules.columns import (
    BlockSchedule,
    elements_read,
)

from .direct import DirectKernel
from .direct_columns import ColumnOperands
from .output_blocks import OutputBlock, OutputBlocks


@dataclass(frozen=True)
class DirectBlockKernel(DirectKernel):
    """output[n, o..., k] = epilogue(sum over taps and channels of k's group of image * filters).

    All of it is straight code, without a branch before the outputs are stored: assemblers request what is
    multiplied as early as there are registers for it.
    """

    schedule: BlockSchedule
    takes_ptx: bool = False
    """Whether the code may have instructions of NVIDIA's GPUs: loads where a condition holds."""
    float_register: str | None = None
    """As `GpuTarget` has it."""

    def __post_init__(self) -> None:
        if len(self.shape.kernel_size) != 2:
            raise ValueError(f"{self.shape} is no direct convolution of two dimensions")

    @abstractmethod
    def sums(self, block: OutputBlock, operands: ColumnOperands, computed: ir.Type) -> list[list[ir.Value]]:
        """Of all rows and columns of the block, in registers."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """All channels of all blocks, one after the other, or so many lanes of as many blocks as there are
        threads for: no thread of a workgroup but the last is idle."""
        blocks = ceildiv(self._blocks(sizes).count(sizes.batch) * self._lanes, self.schedule.threads)
        return (blocks * (self._channel_threads // self._lanes),)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        channels, lanes = self.schedule.channels, self._lanes
        image, filters, output = (each.by(channels) for each in (image, filters, output))
        epilogue = by_channels(epilogue, channels)
        blocks = self._blocks(work.sizes)
        count = blocks.count(work.sizes.batch)
        slices = self._channel_threads // lanes
        thread = work.workgroup[0] // slices * self.schedule.threads + thread_id()
        number = thread // lanes
        # Those behind the last block compute it, too, and don't store it.
        block = blocks.locate(number.minimum(count - 1))
        channel = (work.workgroup[0] % slices * lanes + thread % lanes) * channels
        operands = ColumnOperands(self.shape, self.layout, image, filters, channel)
        sums = self.sums(block, operands, output.computed)
        if self.float_register is not None:
            sums = [computed_here(row, self.float_register) for row in sums]
        when(number.less_than(count), lambda: self._store(sums, block, operands.channel, output, epilogue))

    def elements(
        self, block: OutputBlock, row: int, image: GlobalBuffer, channel: Index
    ) -> Mapping[int, ir.Value]:
        """Channels from one on of what the block reads of one of its rows, zeros where there is no pixel."""
        rows, columns = block.positions
        row_place, row_exists = rows.clamped(Index(row))
        values = {}
        for column in elements_read(self.shape.decomposition, self.schedule.columns):
            place, column_exists = columns.clamped(Index(column))
            exists = row_exists & column_exists
            if self.takes_ptx and image.by_quads:
                first = image.offset([block.image, rows.first, columns.first, channel])
                offset = first + image.distance([0, row, column, 0])
                values[column] = load_where(image, offset, exists)
            else:
                offset = image.pixel_offset([block.image, row_place, place], channel)
                values[column] = image.load(offset, image.together, exists)
        return values

    def _store(
        self,
        sums: Sequence[Sequence[ir.Value]],
        block: OutputBlock,
        channel: Index,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Finishes and writes the channels of those of the block's outputs that exist."""
        of_all = self._loaded_of_all(block, channel, epilogue)
        for row, column in product(range(self.schedule.rows), range(self.schedule.columns)):
            position = block.output(row, column)

            def store(sum_: ir.Value = sums[row][column], position: tuple[Index, ...] = position) -> None:
                if of_all is None:
                    finished = epilogue.emit(sum_, block.image, position, channel)
                else:
                    finished = epilogue.applied(sum_, of_all)
                offset = output.pixel_offset([block.image, *position], channel)
                remaining = Index(self.shape.output_channels) - channel
                output.store_first(finished, offset, remaining, Condition(True))

            when(block.exists(row, column), store)

    def _loaded_of_all(
        self, block: OutputBlock, channel: Index, epilogue: VectorEpilogue
    ) -> list[ir.Value] | None:
        """What all outputs are finished with, if that is the same for them; None where each has its own.

        Of unknown sizes each may not exist, and a thread would wait for the loads of one after the other.
        """
        if self.float_register is None or not self.shape.unknown_sizes or not epilogue.is_of_channels:
            return None
        loaded = epilogue.load(block.image, block.output(0, 0), channel, self.schedule.channels)
        return computed_here(loaded, self.float_register)

    @property
    def _channel_threads(self) -> int:
        """That compute all channels of a block."""
        return ceil_div(self.shape.output_channels, self.schedule.channels)

    @property
    def _lanes(self) -> int:
        """Those of them in a workgroup, side by side."""
        return self._channel_threads if self.schedule.lanes is None else self.schedule.lanes

    def _blocks(self, sizes: Sizes) -> OutputBlocks:
        """All outputs."""
        schedule = self.schedule
        return OutputBlocks(
            SizedShape.of(self.shape, sizes), schedule.rows, schedule.columns, schedule.beside
        )
