"""How the threads of a workgroup bring stages of both operands to the memory that they share.

Stages lie there one behind the other, at multiples of `stage_size` of what this memory has for elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, memref
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES, GlobalBuffer, barrier, thread_id
from iree.winograd.pipelines.gpu.device.mma import StageMemory, commit_copies, wait_for_copies
from iree.winograd.pipelines.gpu.schedules.split import WarpSchedule


@dataclass(frozen=True)
class Operand:
    """An operand of a block in the device's memory: `stages` of so many `rows`, one behind the other."""

    buffer: GlobalBuffer
    first: Index
    """Of its stages, in numbers of half precision."""
    rows: int


class StageCopies(ABC):
    """Copies of the stages of two operands, which threads share equally."""

    def __init__(self, schedule: WarpSchedule, operands: Sequence[Operand], stages: int) -> None:
        self._schedule, self._operands, self._stages = schedule, operands, stages
        self._thread = thread_id()

    @property
    @abstractmethod
    def memory(self) -> ir.Value:
        """That which the workgroup shares."""

    @property
    @abstractmethod
    def row_size(self) -> int:
        """From a row to the next in this memory."""

    @property
    def stage_size(self) -> int:
        """From a stage to the next in this memory; the right operand's rows follow the left one's."""
        return self.row_size * sum(operand.rows for operand in self._operands)

    @abstractmethod
    def begin(self, stage: Index, place: Index) -> list[ir.Value]:
        """Begins to copy a stage, if there is such, to `place`; gives what `end` takes."""

    @abstractmethod
    def end(self, begun: Sequence[ir.Value], place: Index) -> None:
        """Ends what this thread has to do for the copies that it began last."""

    @abstractmethod
    def wait(self, pending: int) -> None:
        """Waits until the copies of all threads are in memory, but for those of the last `pending` stages."""


class CopiesBeside(StageCopies):
    """Copies that NVIDIA's GPUs do beside the computation."""

    def __init__(self, schedule: WarpSchedule, operands: Sequence[Operand], stages: int) -> None:
        super().__init__(schedule, operands, stages)
        element = schedule.factors.type
        self._shared = StageMemory.allocate(min(schedule.stages, stages) * self.stage_size, "stages", element)
        self._sources = [operand.buffer.viewed_as(element) for operand in operands]
        self._group: ir.Value | None = None

    @property
    def memory(self) -> ir.Value:
        return self._shared.memref

    @property
    def row_size(self) -> int:
        return self._schedule.unit.stage_row

    def begin(self, stage: Index, place: Index) -> list[ir.Value]:
        when(stage.less_than(self._stages), lambda: self._copy(stage, place))
        group = commit_copies()
        self._group = self._group or group
        return []

    def _copy(self, stage: Index, place: Index) -> None:
        first, step = self._thread * COPIED, self._schedule.threads * COPIED
        behind = 0
        for operand, source in zip(self._operands, self._sources, strict=True):
            size = operand.rows * self.row_size
            at = operand.first + stage * size + first
            for offset in range(0, size, step):
                self._shared.copy(place + first + (behind + offset), source, at + offset)
            behind += size

    def end(self, begun: Sequence[ir.Value], place: Index) -> None:
        pass

    def wait(self, pending: int) -> None:
        assert self._group is not None
        wait_for_copies(self._group, pending)


class CopiesThroughRegisters(StageCopies):
    """Quads that wait in registers while another stage is multiplied. Rows that aren't swizzled are apart."""

    def __init__(self, schedule: WarpSchedule, operands: Sequence[Operand], stages: int) -> None:
        super().__init__(schedule, operands, stages)
        integer = ir.IntegerType.get_signless(32)
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        type_ = ir.MemRefType.get(
            [schedule.stages * self.stage_size], vector_type(QUAD, integer), memory_space=space
        )
        with ir.Location.name("stages"):
            self._shared = memref.AllocOp(type_, [], []).result
        self._sources = [operand.buffer.viewed_as(integer, QUAD) for operand in operands]

    @property
    def memory(self) -> ir.Value:
        return self._shared

    @property
    def row_size(self) -> int:
        return self._schedule.unit.shared_row_bytes // QUAD_BYTES

    def begin(self, stage: Index, place: Index) -> list[ir.Value]:
        del place
        # Behind the last one it is loaded again, and never multiplied.
        stage = stage.minimum(self._stages - 1)
        loaded = []
        for operand, source in zip(self._operands, self._sources, strict=True):
            quads = operand.rows * self._schedule.unit.row_chunks
            at = operand.first // COPIED + stage * quads + self._thread
            loaded += [
                memref.load(source, [(at + offset).value])
                for offset in range(0, quads, self._schedule.threads)
            ]
        return loaded

    def end(self, begun: Sequence[ir.Value], place: Index) -> None:
        chunks = self._schedule.unit.row_chunks
        at = place + self._thread // chunks * self.row_size + self._thread % chunks
        step = self._schedule.threads // chunks * self.row_size
        # The shares of both operands are whole: the right one's begin where the left one's end.
        for number, quad in enumerate(begun):
            memref.store(quad, self._shared, [(at + number * step).value])

    def wait(self, pending: int) -> None:
        del pending
        barrier()
