"""The CPU kernel on matrix units for half precision: the direct convolution, with sums in f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.pipelines.cpu.processor.emulated_matrix_unit import EmulatedBlock
from iree.winograd.pipelines.cpu.processor.matrix_unit import TileBlock, permitted
from iree.winograd.pipelines.cpu.schedules.matrix_unit import Bf16MatrixUnitSchedule, F16MatrixUnitSchedule
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Work

from .bf16_tiled import Bf16TiledKernel, address_of
from .tiled import BlockOutputs, PlacedBlock, TiledInput

FETCHED_VECTORS = 4
"""Of outputs, for each tile of the reduction, up to which they are fetched while these are multiplied: more
take longer than they gain, and are fetched while those of the register block before are finished."""


@dataclass(frozen=True)
class HalfMatrixUnitKernel(Bf16TiledKernel[Bf16MatrixUnitSchedule | F16MatrixUnitSchedule]):
    """One kernel on the matrix unit. A process that may not use the unit does the same on vectors."""

    def emit(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K.
        """
        outputs = self._outputs(work)
        image, output, epilogue = self.without_unit.in_lines(image, output, epilogue, outputs.sized)
        rows = self._rows(image, outputs)
        results = self._block_outputs(outputs, output, epilogue)
        emulated = EmulatedBlock(outputs.tiles, results.sums.buffer, self.target.fused_multiply_add)

        def multiply_by(block: TileBlock) -> Callable[[], None]:
            return lambda: self._emit_by(block, work.workgroup, rows, filters, results)

        when(permitted(), multiply_by(outputs.tiles), multiply_by(emulated))

    def _emit_by(
        self,
        block: TileBlock,
        workgroup: tuple[Index, ...],
        rows: TiledInput,
        filters: Buffer,
        results: BlockOutputs,
    ) -> None:
        """Emits the passes of a workgroup, on the unit or as it does."""

        fetches_meanwhile = self._output_vectors <= FETCHED_VECTORS * self._steps

        def compute(placed: PlacedBlock) -> None:
            def meanwhile(tile_step: Index) -> None:
                if not block.works_beside:
                    return
                if fetches_meanwhile:
                    self._fetch_outputs(results, placed, tile_step)
                self._fetch_filters(filters, placed, tile_step)

            panel = filters.offset([placed.channel_block, 0, 0, 0, 0]) * filters.number.bytes
            self._multiply(block, rows, address_of(filters) + panel, results.outputs, placed, meanwhile)
            block.store(results.sums.address)
            fetches_next = block.works_beside and not fetches_meanwhile
            self._finish(block, results, placed, fetches_next=fetches_next)

        block.configure()
        self._emit_passes(workgroup, results.outputs, lambda channel_block: None, compute)
        block.release()

    @property
    def _output_vectors(self) -> int:
        """Of a register block."""
        block = self.schedule.block
        return block.row_tiles * block.tile_rows * block.channel_tiles
