"""Where outputs of a block of streamed pixels go: quads side by side, pairs, or a piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, llvm, memref, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import PAIR, QUAD, lane, quad_of
from iree.winograd.pipelines.gpu.device.pointers import GLOBAL, pointer
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES, SharedBytes, synchronize_warp
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import BlockOutputs

Operands = Sequence[ir.Value]
"""What an epilogue reads for some neighbouring channels, a vector of each operand."""


@dataclass(frozen=True)
class StreamedOutputs(BlockOutputs):
    """Those of a block, for which all rows have operands of a column that were loaded once."""

    def operands_from(self, column: Index, width: int) -> Operands | None:
        """What the epilogue reads for columns from one on; None where each row has its own.

        For columns behind the last one it is what others have.
        """
        if self.epilogue.image_operands > 0:
            return None
        outputs, first = self.packing.group_outputs, self.block.first_column + column
        if outputs != self.packing.padded_filters:
            first = first.minimum(outputs - width)
        position = (Index(0),) * len(self.shape.output_size)
        return self.epilogue.load(Index(0), position, self._channel(first), width)

    def _finished(self, sums: ir.Value, row: Index, channel: Index, operands: Operands | None) -> ir.Value:
        if operands is not None:
            return self.epilogue.applied(sums, operands)
        image, position = self._located(row, existing=False)
        return self.epilogue.emit(sums, image, position, channel)


@dataclass(frozen=True)
class OctetOutputs(StreamedOutputs):
    """Those of a block, by octets, as which all of them lie in memory."""

    octets: ir.Value

    def store_octet(
        self, row: Index, column: Index, quads: Sequence[ir.Value], loaded: Sequence[Operands | None]
    ) -> None:
        """Writes two quads of sums, finished with what was `loaded` for each, or else is loaded by this."""
        outputs, first, octets = self.packing.group_outputs, self.block.first_column + column, self.octets
        exists = self._exists(row)
        if outputs != self.packing.padded_filters:
            exists = exists & first.less_than(outputs)

        def finish() -> None:
            image, position = self._located(row, existing=False)
            channel = self._channel(first)
            finished = [
                self.output.number.narrowed(self._finished(quad, row, channel + number * QUAD, of_quad))
                for number, (quad, of_quad) in enumerate(zip(quads, loaded, strict=True))
            ]
            type_ = vector_type(2 * QUAD, self.output.element)
            octet = vector.shuffle(*finished, list(range(2 * QUAD)), results=[type_])
            place = self.output.offset([image, *position, channel]) // (2 * QUAD)
            memref.store(octet, octets, [place.value])

        when(exists, finish)


@dataclass(frozen=True)
class PairOutputs(BlockOutputs):
    """Those of a block whose channels are no whole quads: a quad's halves are stored by themselves."""

    def store(
        self, row: Index, column: Index, value: ir.Value, loaded: Sequence[ir.Value] | None = None
    ) -> None:
        assert loaded is None
        first = self.block.first_column + column
        for begin in range(0, QUAD, PAIR):
            channel, pair = first + begin, quad_of([lane(value, begin + i) for i in range(PAIR)])

            def finish(channel: Index = channel, pair: ir.Value = pair) -> None:
                image, position = self._located(row, existing=False)
                finished = self.epilogue.emit(pair, image, position, channel)
                self._write(finished, image, position, channel, Index(PAIR))

            when(self._exists(row) & channel.less_than(self.packing.group_outputs), finish)


@dataclass(frozen=True)
class PieceOutputs(StreamedOutputs):
    """Those of a block that are one piece of memory: left in shared memory, then stored as that."""

    together: int
    """Elements that are finished and left at once."""
    memory: SharedBytes | None = None
    """The warp's."""

    def leave(self, row: Index, column: Index, value: ir.Value, operands: Sequence[Operands | None]) -> None:
        """Leaves a quad of sums, finished by operands of each of its parts, in shared memory."""
        assert self.memory is not None
        outputs, width, memory = self.packing.group_outputs, self.output.number.bytes, self.memory
        for number, begin in enumerate(range(0, QUAD, self.together)):
            channel = column + begin
            part = quad_of([lane(value, begin + i) for i in range(self.together)])

            def leave(channel: Index = channel, part: ir.Value = part, number: int = number) -> None:
                finished = self._finished(part, row, channel, operands[number])
                narrowed = self.output.number.narrowed(finished)
                memory.store(narrowed, (row * outputs + channel) * width)

            exists = Condition(True)
            if outputs != self.packing.padded_filters:
                exists = channel.less_than(outputs)
            when(exists, leave)

    def copy_out(self, thread: Index) -> None:
        """Stores all of them, 16 bytes of each of the warp's threads beside each other."""
        assert self.memory is not None
        synchronize_warp()
        rows = self.packing.schedule.block_rows
        row_bytes = self.packing.group_outputs * self.output.number.bytes
        target = self.output.address + self.block.row_block * rows * row_bytes
        chunk = ir.VectorType.get([COPIED_BYTES // 4], ir.IntegerType.get_signless(32))
        for first in range(0, rows * row_bytes, WARP_THREADS * COPIED_BYTES):
            offset = thread * COPIED_BYTES + first

            def copy(offset: Index = offset) -> None:
                assert self.memory is not None
                llvm.StoreOp(self.memory.load(chunk, offset), pointer(target + offset, GLOBAL))

            is_all = first + WARP_THREADS * COPIED_BYTES <= rows * row_bytes
            when(Condition(True) if is_all else offset.less_than(rows * row_bytes), copy)
        # What is left there next may take the place of what others of the warp store now.
        synchronize_warp()
