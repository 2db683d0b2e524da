"""The left operand of products that read the image, where a stage's rows are rows of the image: pixels.

One thread has all rows of a stage copied at once, by a tensor map of the image (`device/tensor_map.py`). The
map lies in memory that nobody else uses meanwhile: where the first results of the workgroup's last block go
when all copies are done.
"""

from __future__ import annotations

from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.device.tensor_map import MAP_ALIGNMENT, MatrixRows, TensorMap
from iree.winograd.pipelines.gpu.device.warpgroup import SharedBytes
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES


def map_of_image(
    packing: SplitPacking,
    image: GlobalBuffer,
    sizes: Sizes,
    shared: SharedBytes,
    offset: int,
    results: Index,
    lane: Index,
) -> TensorMap:
    """The map that a warp makes of an image whose pixels lie in order, by way of shared memory at `offset`.

    `results` is the address of a row of results that the workgroup stores behind its last copy, of as many
    bytes as `schedules/fit.py` asks for.
    """
    matrix = MatrixRows(
        address=image.address + Index.of(image.offset([0] * len(image.extents))) * HALF_BYTES,
        rows=packing.tiles(sizes),
        columns=Index(packing.shape.input_channels),
        pitch=Index.of(image.stride(-2)) * HALF_BYTES,
        number=packing.schedule.factors,
    )
    box_rows = packing.schedule.box_rows
    assert box_rows is not None
    place = (results + (MAP_ALIGNMENT - 1)) // MAP_ALIGNMENT * MAP_ALIGNMENT
    return TensorMap.make(matrix, box_rows, shared, offset, place, lane)
