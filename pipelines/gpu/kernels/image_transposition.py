"""Images in the other layout: matrices that are transposed by blocks, which a workgroup's threads share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index, all_of, ceildiv
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, SharedScalars, barrier, thread_id

TRANSPOSITION_THREADS = 256
_BLOCK_ELEMENTS = WARP_THREADS**2


@dataclass(frozen=True)
class ImageTransposition:
    """`N x rows x columns` to `N x columns x rows`: of channels and pixels, one way or the other.

    A block has as many rows and columns as a warp has threads, or fewer of the one and more of the other
    where there are no more. It is read and written by whole rows of its own.
    """

    name: str
    rows: int
    columns: int

    @staticmethod
    def channels_last(channels: int, size: Sequence[int]) -> ImageTransposition:
        """`N x C x H...` to `N x H... x C`."""
        pixels = prod(size)
        return ImageTransposition(f"winograd_channels_last_{pixels}x{channels}", channels, pixels)

    @staticmethod
    def channels_first(channels: int, size: Sequence[int]) -> ImageTransposition:
        """`N x H... x C` to `N x C x H...`."""
        pixels = prod(size)
        return ImageTransposition(f"winograd_channels_first_{channels}x{pixels}", pixels, channels)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """Blocks of columns, blocks of rows, images."""
        rows, columns = self._block
        return ceildiv(self.columns, columns), ceildiv(self.rows, rows), sizes.batch

    def emit(self, work: Work, image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        rows, columns = self._block
        first_column, first_row = work.workgroup[0] * columns, work.workgroup[1] * rows
        origin = work.workgroup[2] * (self.rows * self.columns)
        # Behind each row is one element more: those of a column are in different banks.
        shared = SharedScalars.allocate((rows, columns + 1), "block", image.computed)
        thread = thread_id()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            row, column = (thread + first) // columns, (thread + first) % columns
            source = (first_row + row).minimum(self.rows - 1) * self.columns
            source = source + (first_column + column).minimum(self.columns - 1)
            shared.store(image.load_scalar(origin + source), [row, column])
        barrier()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            column, row = (thread + first) // rows, (thread + first) % rows
            target = first_column + column, first_row + row
            exists = all_of([target[0].less_than(self.columns), target[1].less_than(self.rows)])

            def write(
                element: tuple[Index, Index] = (row, column), target: tuple[Index, Index] = target
            ) -> None:
                place = origin + target[0] * self.rows + target[1]
                output.store_scalar(shared.load(element), place)

            when(exists, write)

    @property
    def _block(self) -> tuple[int, int]:
        """Rows and columns, powers of two."""
        rows, columns = (
            min(WARP_THREADS, 1 << (size - 1).bit_length()) for size in (self.rows, self.columns)
        )
        if columns < rows:
            return _BLOCK_ELEMENTS // columns, columns
        return rows, _BLOCK_ELEMENTS // rows
