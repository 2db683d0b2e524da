"""Images in the other layout: matrices that are transposed by blocks, which a workgroup's threads share."""

from __future__ import annotations

from dataclasses import dataclass, field

from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index, all_of, ceildiv
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, SharedScalars, barrier, thread_id

TRANSPOSITION_THREADS = 256
IMAGE = "image"
"""What the sizes are of that this kernel is told."""
_BLOCK_ELEMENTS = WARP_THREADS**2


@dataclass(frozen=True)
class ImageTransposition:
    """`N x C x H...` to `N x H... x C`, or back: matrices of channels and pixels, whose rows become columns.

    A block has as many rows and columns as a warp has threads, or fewer of the one and more of the other
    where there are no more. It is read and written by whole rows of its own. Where `pixels` is None, the
    sizes of the `IMAGE` say how many there are.
    """

    channels: int
    pixels: int | None
    to_channels_first: bool = field(kw_only=True)

    @property
    def name(self) -> str:
        pixels = "any" if self.pixels is None else self.pixels
        if self.to_channels_first:
            return f"winograd_channels_first_{self.channels}x{pixels}"
        return f"winograd_channels_last_{pixels}x{self.channels}"

    def _matrix(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows and columns of the matrix that is read."""
        channels = Index(self.channels)
        pixels = product(sizes.spatial(IMAGE)) if self.pixels is None else Index(self.pixels)
        return (pixels, channels) if self.to_channels_first else (channels, pixels)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of columns and of rows, images; along the first dimension those of any number of pixels."""
        rows, columns = self._blocks(sizes)
        if self.to_channels_first:
            return rows * columns, Index(1), sizes.batch
        return columns, rows, sizes.batch

    def emit(self, work: Work, image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        (all_rows, all_columns), (rows, columns) = self._matrix(work.sizes), self._block
        column_block, row_block, _ = work.workgroup
        if self.to_channels_first:
            of_row = self._blocks(work.sizes)[1]
            column_block, row_block = column_block % of_row, column_block // of_row
        first_column, first_row = column_block * columns, row_block * rows
        origin = work.workgroup[2] * (all_rows * all_columns)
        # Behind each row is one element more: those of a column are in different banks.
        shared = SharedScalars.allocate((rows, columns + 1), "block", image.computed)
        thread = thread_id()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            row, column = (thread + first) // columns, (thread + first) % columns
            source = (first_row + row).minimum(all_rows - 1) * all_columns
            source = source + (first_column + column).minimum(all_columns - 1)
            shared.store(image.load_scalar(origin + source), [row, column])
        barrier()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            column, row = (thread + first) // rows, (thread + first) % rows
            target = first_column + column, first_row + row
            exists = all_of([target[0].less_than(all_columns), target[1].less_than(all_rows)])

            def write(
                element: tuple[Index, Index] = (row, column), target: tuple[Index, Index] = target
            ) -> None:
                place = origin + target[0] * all_rows + target[1]
                output.store_scalar(shared.load(element), place)

            when(exists, write)

    def _blocks(self, sizes: Sizes) -> tuple[Index, Index]:
        """Along the rows and the columns of the matrix."""
        (all_rows, all_columns), (rows, columns) = self._matrix(sizes), self._block
        return ceildiv(all_rows, rows), ceildiv(all_columns, columns)

    @property
    def _block(self) -> tuple[int, int]:
        """Rows and columns, powers of two."""
        most = _BLOCK_ELEMENTS if self.pixels is None else self.pixels
        sizes = (most, self.channels) if self.to_channels_first else (self.channels, most)
        rows, columns = (min(WARP_THREADS, 1 << (size - 1).bit_length()) for size in sizes)
        if columns < rows:
            return _BLOCK_ELEMENTS // columns, columns
        return rows, _BLOCK_ELEMENTS // rows
