"""Sums of pixels that stream through warps: their scales, and where they go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.gpu.device import mma
from iree.winograd.pipelines.gpu.device.instruction_order import kept_here
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, MATRIX_SUMS
from iree.winograd.pipelines.gpu.device.memory import QUAD, quad_type
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.device.warpgroup import SharedBytes
from iree.winograd.pipelines.gpu.kernels.matrix_products.matrix_sums import MatrixSums
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import BlockOutputs
from iree.winograd.pipelines.gpu.kernels.matrix_products.splitting import largest_magnitude, scales_for
from iree.winograd.pipelines.gpu.packing.streamed import StreamedPacking

from .streamed_outputs import OctetOutputs, Operands, PieceOutputs, StreamedOutputs

SQUARE = MATRIX_ROWS // 2
"""Rows and columns of the matrices that fragments consist of."""
Sums = list[list[ir.Value]]
"""Of 16 rows and columns, large products and then small ones if there are, by eight columns."""


@dataclass(frozen=True)
class SharedScaleSums(MatrixSums):
    """Those of a block whose columns' scales are in shared memory."""

    scales: SharedBytes

    def _loaded_scale(self, column: Index) -> ir.Value:
        return self.scales.load(quad_type(MATRIX_SUMS.type), column * MATRIX_SUMS.bytes)


@dataclass(frozen=True)
class RowScale:
    """That of a row of the image, by its largest magnitude so far."""

    largest: ir.Value

    @staticmethod
    def of(quads: list[ir.Value], before: RowScale | None) -> RowScale:
        """That of a row of which four threads have such quads each.

        Infinities may count: an output that one is multiplied for has no number, whatever the others are.
        """
        found = over_threads(largest_magnitude(quads), QUAD, arith.maxui)
        return RowScale(found if before is None else arith.maxui(found, before.largest))

    @property
    def scale(self) -> ir.Value:
        return scales_for(self.largest, 0)[0]

    @property
    def inverse(self) -> ir.Value:
        return scales_for(self.largest, 0)[1]


@dataclass(frozen=True)
class StreamedStoring:
    """Where a warp's sums of a block go."""

    sums: MatrixSums
    outputs: BlockOutputs
    lane: Index

    def store(self, first: Index, sums: Sequence[list[Sums]], scales: Sequence[RowScale | None]) -> None:
        """Finishes those of columns from the first on, by 16 columns and rows, for rows of such scales."""
        packing, outputs = self.outputs.packing, self.outputs
        assert isinstance(packing, StreamedPacking)
        together = 2 if packing.schedule.has_octets_of_results(packing.shape) else 1
        begins = range(0, len(sums), together)

        def restored(begin: int) -> tuple[list[Index], list[list[ir.Value]]]:
            column = first + begin * MATRIX_ROWS + self.lane % QUAD * (together * QUAD)
            columns = [column + number * QUAD for number in range(together)]
            of_block = zip(columns, sums[begin : begin + together], strict=True)
            return columns, [self._restored(*each, scales) for each in of_block]

        blocks: Iterable[tuple[list[Index], list[list[ir.Value]]]] = map(restored, begins)
        if packing.shape.unknown_sizes:
            # Before any is stored: a warp would wait for their scales behind each branch.
            blocks = list(blocks)
        for columns, quads in blocks:
            operands = [self._operands(each) for each in columns]
            places = [self.lane // QUAD + number * SQUARE for number in range(len(quads[0]))]
            loaded = [self._loaded(place, columns, operands) for place in places]
            for place, row, of_row in zip(places, zip(*quads, strict=True), loaded, strict=True):
                if isinstance(outputs, OctetOutputs):
                    outputs.store_octet(place, columns[0], row, of_row)
                    continue
                for each, quad, parts, of_quad in zip(columns, row, operands, of_row, strict=True):
                    if isinstance(outputs, PieceOutputs):
                        outputs.leave(place, each, quad, parts)
                    else:
                        outputs.store(place, each, quad, of_quad)

    def _operands(self, column: Index) -> list[Operands | None]:
        """What finishes a quad of columns of all rows, by those that are finished at once."""
        outputs = self.outputs
        if not isinstance(outputs, StreamedOutputs) or outputs.packing.shape.unknown_sizes:
            return [None]
        width = outputs.together if isinstance(outputs, PieceOutputs) else QUAD
        return [outputs.operands_from(column + begin, width) for begin in range(0, QUAD, width)]

    def _loaded(
        self, row: Index, columns: Sequence[Index], operands: Sequence[Sequence[Operands | None]]
    ) -> list[Operands | None]:
        """What quads of a row are finished with; None where that is loaded as they are.

        Of unknown sizes a row may not exist. A warp would wait for the loads of one row after the other.
        """
        if self.outputs.packing.shape.unknown_sizes:
            return [kept_here(self.outputs.load(row, each)) for each in columns]
        return [parts[0] for parts in operands]

    def _restored(self, column: Index, sums: list[Sums], scales: Sequence[RowScale | None]) -> list[ir.Value]:
        """A quad of a thread's row each, from a column on."""
        restored = []
        column_scale = self.sums.column_scale(column)
        for tile, parts in enumerate(sums):
            quads = [mma.sum_quads(halves) for halves in parts]
            for number, (large, *small) in enumerate(zip(*quads, strict=True), 2 * tile):
                joined = self.sums.joined(large, small[0] if small else None)
                scale = scales[number]
                row_scale = None if scale is None else broadcast(scale.scale, QUAD)
                restored.append(self.sums.restored(joined, row_scale, column_scale))
        return kept_here(restored) if self.outputs.packing.shape.unknown_sizes else restored
