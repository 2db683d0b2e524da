"""The GPU kernel that selects or blends rows and columns of an image, at positions in memory."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.selection import Selection, blended
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer

from .transforms import ThreadGrid

SELECTION_THREADS = 256
_NEIGHBOURS = 8
"""Quads of a pixel that neighbouring threads take, a cache line. Others take pixels beside theirs."""


@dataclass(frozen=True)
class SelectionKernel:
    """Sums of pixels whose positions and weights are in memory; a thread takes a quad of one of them."""

    selection: Selection

    @property
    def name(self) -> str:
        return self.selection.name

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels, channels."""
        return self._grid.workgroups(sizes.batch * product(sizes.spatial("output")))

    def emit(self, work: Work, image: GlobalBuffer, *tables_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x C to N x OH... x C.

        Tables are the positions of each tap, its weights, if it has some, next to them.
        """
        *tables, output = tables_and_output
        taps = self.selection.taps(tables)
        size = work.sizes.spatial("output")
        number, quad, exists = self._grid.place(work.workgroup, work.sizes.batch * product(size))
        if work.sizes.batch.known == 1:
            batch, position = Index(0), list(unflatten(number, size))
        else:
            batch, *position = unflatten(number, [work.sizes.batch, *size])
        channel = quad * QUAD
        remaining = Index(self.selection.channels) - channel

        def load(pixel: list[Index]) -> ir.Value:
            return image.load_first(image.offset([batch, *pixel, channel]), remaining, Condition(True))

        def select() -> None:
            places = [each.places(index, QUAD) for each, index in zip(taps, position, strict=True)]
            offset = output.offset([batch, *position, channel])
            output.store_first(blended(load, places), offset, remaining, Condition(True))

        when(exists, select)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(ceil_div(self.selection.channels, QUAD), SELECTION_THREADS, _NEIGHBOURS)
