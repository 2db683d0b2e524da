"""What epilogues read, by as many neighbouring channels as a thread finishes at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, reads_along_channels
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import vector_type

from .memory import GlobalBuffer
from .warpgroup import COPIED_BYTES, SharedBytes


def by_channels(epilogue: VectorEpilogue, channels: int) -> VectorEpilogue:
    """The epilogue of vectors of so many channels, as which what it reads of neighbouring ones is loaded.

    Raises ValueError as `span` does.
    """
    operands = [
        operand.by(channels)
        if isinstance(operand, GlobalBuffer) and reads_along_channels(indexing_map)
        else operand
        for operand, indexing_map in zip(epilogue.operands, epilogue.transform.indexing_maps, strict=True)
    ]
    return replace(epilogue, operands=operands)


@dataclass(frozen=True)
class SharedChannels(GlobalBuffer):
    """An array of one number for each channel that workgroups copy to shared memory."""

    memory: SharedBytes = field(kw_only=True)
    source: GlobalBuffer = field(kw_only=True)

    def _load(self, place: Index) -> ir.Value:
        return self.memory.load(vector_type(self.together, self.element), place * self.memref_element_bytes)

    def copy(self, thread: Index, threads: int) -> None:
        """Starts to copy it, by all threads of a workgroup."""
        (channels,) = self.known_extents
        width = self.memref_element_bytes
        count, address = channels // self.together, self.source.address
        for begin in range(0, count, threads):
            number = thread + begin
            exists = Condition(True) if begin + threads <= count else number.less_than(count)

            def copy(place: Index = number * width) -> None:
                self.memory.copy_chunk(place, address + place, Condition(True), width)

            when(exists, copy)


def with_shared_channels(epilogue: VectorEpilogue, memory: SharedBytes, size: int) -> VectorEpilogue:
    """The epilogue that reads operands of one number for each channel from shared memory, those that fit."""
    operands: list[Buffer] = []
    at = 0
    for operand, indexing_map in zip(epilogue.operands, epilogue.transform.indexing_maps, strict=True):
        is_whole = isinstance(operand, GlobalBuffer) and operand.by_quads and operand.strides is None
        if is_whole and len(indexing_map.results) == 1 and reads_along_channels(indexing_map):
            (channels,) = operand.extents
            is_known = isinstance(channels, int) and operand.origin == 0
            if is_known and at + channels * operand.number.bytes <= size:
                known = {each.name: getattr(operand, each.name) for each in dataclasses.fields(GlobalBuffer)}
                place = SharedBytes(memory.address + at)
                operands.append(SharedChannels(**known, memory=place, source=operand))
                at += ceil_div(channels * operand.number.bytes, COPIED_BYTES) * COPIED_BYTES
                continue
        operands.append(operand)
    return replace(epilogue, operands=operands)
