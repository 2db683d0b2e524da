"""Direct convolutions of narrow filters on matrix units: pixels stream through warps, each by itself.

A workgroup copies the filters of its output channels to shared memory once. Then each of its warps takes one
block of outputs after the other. A thread loads what it holds of fragments from the image itself, four
channels at a time, that of the next block while it multiplies and stores the one before. Nothing waits for
other warps.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.gated_product import Gate, GatedOutputs
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import BlockOutputs, finished_in_line
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_operands import SplitFilterKernel
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .streamed_outputs import OctetOutputs, PairOutputs, PieceOutputs
from .streamed_warpgroups import StreamedWarpgroups
from .streamed_workgroup import StoringOf, StreamedWorkgroup


@dataclass(frozen=True)
class StreamedKernel:
    """output[n, o..., k] = epilogue(sum over taps and c of image[n, o + tap, c] * filters[tap, c, k]).

    With a `gate` columns of two halves alternate, and the output is what becomes of these.
    """

    packing: StreamedPacking
    gate: Gate | None = None

    def filter_kernel(self, layout: FilterLayout) -> SplitFilterKernel:
        return SplitFilterKernel(self.packing, layout)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Those that walk over blocks of outputs, blocks of output channels, and of groups."""
        packing, schedule = self.packing, self.packing.schedule
        walking = ceildiv(packing.row_blocks(sizes), schedule.row_warps).minimum(schedule.walking_workgroups)
        groups = ceildiv(packing.shape.groups, schedule.groups)
        return walking, Index(packing.column_blocks), groups

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """`image` is N x H... x C, `filters` is packed, `output` is N x OH... x K, or K/2 with a gate.

        Channels that are no whole quads are loaded and stored by pairs.
        """
        if not self.packing.image_by_quads:
            image = image.by(PAIR)
        if not self.packing.output_by_quads:
            output, epilogue = output.by(PAIR), by_channels(epilogue, PAIR)
        workgroup = self._workgroup(self.packing, work, image, filters)
        if self.gate is None:
            epilogue = workgroup.with_shared_channels(epilogue)
        workgroup.emit(self._storing(work.sizes, output, epilogue))

    @property
    def _workgroup(self) -> type[StreamedWorkgroup]:
        is_alone = self.packing.schedule.warpgroup_columns is None
        return StreamedWorkgroup if is_alone else StreamedWarpgroups

    def _storing(self, sizes: Sizes, output: GlobalBuffer, epilogue: VectorEpilogue) -> StoringOf:
        packing, schedule, gate = self.packing, self.packing.schedule, self.gate
        tiles = packing.tiles(sizes)
        sized, epilogue = finished_in_line(packing, sizes, output, epilogue)
        if gate is not None:
            pairs = output.viewed_as(output.element, PAIR)
            return lambda block: GatedOutputs(packing, output, epilogue, block, tiles, sized, gate, pairs)
        together = QUAD if packing.output_by_quads else PAIR
        lie_together = output.by_quads and output.strides is None and output.origin == 0
        if lie_together and schedule.results_lie_together(packing.shape):
            return lambda block: PieceOutputs(packing, output, epilogue, block, tiles, sized, together)
        if not packing.output_by_quads:
            return lambda block: PairOutputs(packing, output, epilogue, block, tiles, sized)
        is_half = output.by_quads and output.number.bytes == HALF_BYTES and output.strides is None
        if is_half and schedule.has_octets_of_results(packing.shape):
            octets = output.viewed_as(output.element, 2 * QUAD)
            return lambda block: OctetOutputs(packing, output, epilogue, block, tiles, sized, octets)
        return lambda block: BlockOutputs(packing, output, epilogue, block, tiles, sized)
