"""The left operand of products that read the image: a stage's rows are gathered as they are multiplied.

An implicit matrix product (Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, 2014): what an
output multiplies by a tap is copied from the image to a row of a stage, which has 64 channels of one tap.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.emission.index import Condition, Index, all_of
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Tile, input_positions, locate_tile
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.device.warpgroup import (
    COPIED_BYTES,
    SWIZZLED_ROWS,
    SharedBytes,
)
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES

from .products import Block

_ROW_CHUNKS = STAGE_ROW_BYTES // COPIED_BYTES


@dataclass(frozen=True)
class _Row:
    """A row that a thread copies a chunk of: the output that it is for, and where its chunk lies."""

    output: Tile
    source: Index
    """In the image, of the first channel and of a tap without an offset, in bytes."""
    place: Index
    """Within a stage."""


class GatheredRows:
    """Those of one block, as one of so many threads sees them that copy them."""

    def __init__(
        self,
        packing: SplitPacking,
        image: GlobalBuffer,
        sizes: Sizes,
        block: Block,
        thread: Index,
        threads: int,
    ) -> None:
        self._packing, self._image = packing, image
        self._shape = SizedShape.of(packing.shape, sizes)
        last = packing.tiles(sizes) - 1
        first = block.row_block * packing.schedule.block_rows
        chunk, row = thread % _ROW_CHUNKS, thread // _ROW_CHUNKS
        channel = block.product * packing.group_channels + chunk * COPIED
        address = image.address
        self._rows = []
        for ahead in range(0, packing.schedule.block_rows, threads // _ROW_CHUNKS):
            # Rows behind the last output are those of the last one again, and aren't stored.
            output = locate_tile(self._shape, (first + row + ahead).minimum(last))
            origin = input_positions(self._shape, output, (0,) * len(output.first_output))
            offset = image.offset([output.image, *(each.first for each in origin), channel])
            swizzled = chunk ^ (row % SWIZZLED_ROWS)
            place = (row + ahead) * STAGE_ROW_BYTES + swizzled * COPIED_BYTES
            self._rows.append(_Row(output, address + offset * HALF_BYTES, place))

    def copy(self, stage: Index, shared: SharedBytes, to: Index) -> None:
        """Starts to copy this thread's chunks of a stage; zeros where the convolution pads."""
        packing = self._packing
        stages = packing.group_channels // packing.schedule.block_reduction
        view = stage // stages if packing.views > 1 else Index(0)
        offsets = packing.view_offsets(view)
        ahead = stage % stages * packing.schedule.block_reduction
        for dimension, offset in enumerate(offsets):
            ahead = ahead + offset * self._image.stride(1 + dimension)
        for row in self._rows:
            exists = self._exists(row.output, offsets)
            shared.copy_chunk(to + row.place, row.source + ahead * HALF_BYTES, exists)

    def _exists(self, output: Tile, offsets: tuple[Index, ...]) -> Condition:
        return all_of([each.inside() for each in input_positions(self._shape, output, offsets)])
