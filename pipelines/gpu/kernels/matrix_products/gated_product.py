"""Products whose results are multiplied by each other: half of the columns gate the other half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir, memref
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.memory import PAIR, QUAD, GlobalBuffer, lane, quad_of

from .products import Block, BlockedProductKernel, BlockOutputs, ResultRow, Results


@dataclass(frozen=True)
class Gate:
    """What is computed of an element of each half of a pixel's channels, to one of half as many.

    Columns of the halves alternate in the product, so that each quad of sums has two of both.
    """

    function: VectorFunction
    halves: tuple[int, ...]
    """For each operand of the function the half that it is of, 0 or 1."""

    def applied(self, alternating: ir.Value, epilogue: VectorEpilogue) -> ir.Value:
        """The pair that two of both halves, which alternate in a quad, give; of an octet a quad."""
        width = ir.VectorType(alternating.type).shape[0]
        halves = [quad_of([lane(alternating, i) for i in range(half, width, PAIR)]) for half in range(PAIR)]
        elements = [halves[half] for half in self.halves]
        return self.function.emit(elements, epilogue.fused_multiply_add, epilogue.numbers)


@dataclass(frozen=True)
class GatedProductKernel(BlockedProductKernel):
    """As `DirectProductKernel`, of whose finished outputs those of alternating columns become one."""

    gate: Gate

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """From `image`, N x H... x C, to N x OH... x K/2, by filters and an epilogue of K channels."""
        packing, pairs = self.product.packing, output.viewed_as(output.element, PAIR)
        if packing.neighbouring_columns > QUAD:
            epilogue = by_channels(epilogue, packing.neighbouring_columns)
        tiles, sized = packing.tiles(work.sizes), SizedShape.of(packing.shape, work.sizes)

        def storing(block: Block) -> Results:
            return GatedOutputs(packing, output, epilogue, block, tiles, sized, self.gate, pairs)

        self.product.emit(self._blocks(work), work.sizes, image, filters, storing)


@dataclass(frozen=True)
class GatedOutputs(BlockOutputs):
    """Those of a block of tiles, of columns of halves that alternate, in pairs."""

    gate: Gate
    pairs: ir.Value = field(compare=False)
    """The output's memory as pairs."""

    @property
    def row_bytes(self) -> int | None:
        """Pairs leave by stores: rows have half as many."""
        return None

    @property
    def stored_bytes(self) -> int | None:
        return self.packing.neighbouring_columns // PAIR * self.output.number.bytes

    def finished(self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value]) -> ir.Value:
        del row, column
        gated = self.gate.applied(self.epilogue.applied(value, loaded), self.epilogue)
        return self.output.number.narrowed(gated)

    def row(self, row: Index) -> ResultRow:
        image, position = self._located(row, existing=True)
        first = self.output.offset([image, *position, self._channel(self.block.first_column) // PAIR])
        width, columns = self.output.number.bytes, self._columns() // PAIR
        return ResultRow(self._exists(row), self.output.address + first * width, columns * width)

    def _write(
        self, finished: ir.Value, image: Index, position: Sequence[Index], channel: Index, count: Index
    ) -> None:
        assert count.known == QUAD, "channels are whole quads"
        pair = self.gate.applied(finished, self.epilogue)
        place = self.output.offset([image, *position, channel // PAIR]) // PAIR
        memref.store(self.output.number.narrowed(pair), self.pairs, [place.value])
