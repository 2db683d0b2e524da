"""What epilogues read, by as many neighbouring channels as a thread finishes at once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, reads_along_channels
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import vector_type

from .memory import GlobalBuffer, numbers_of_thread
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

    @staticmethod
    def of(source: GlobalBuffer, memory: SharedBytes) -> SharedChannels:
        """The array as it lies in `memory` once it is copied there."""
        known = {each.name: getattr(source, each.name) for each in fields(GlobalBuffer)}
        return SharedChannels(**known, memory=memory, source=source)

    def _load(self, place: Index) -> ir.Value:
        return self.memory.load(vector_type(self.together, self.element), place * self.memref_element_bytes)

    def copy(self, thread: Index, threads: int) -> None:
        """Starts to copy it, by all threads of a workgroup."""
        (channels,) = self.known_extents
        width = self.memref_element_bytes
        count, address = channels // self.together, self.source.address
        for number, exists in numbers_of_thread(thread, threads, count):
            place = number * width
            when(exists, partial(self.memory.copy_chunk, place, address + place, Condition(True), width))


def with_shared_channels(epilogue: VectorEpilogue, memory: SharedBytes, size: int) -> VectorEpilogue:
    """The epilogue that reads operands of one number for each channel from shared memory, those that fit."""
    operands: list[Buffer] = []
    at = 0
    for operand, indexing_map in zip(epilogue.operands, epilogue.transform.indexing_maps, strict=True):
        taken = _bytes_of_channels(operand, indexing_map)
        if taken is None or at + taken > size:
            operands.append(operand)
            continue
        assert isinstance(operand, GlobalBuffer)
        operands.append(SharedChannels.of(operand, SharedBytes(memory.address + at)))
        at += ceil_div(taken, COPIED_BYTES) * COPIED_BYTES
    return replace(epilogue, operands=operands)


def _bytes_of_channels(operand: Buffer, indexing_map: ir.AffineMap) -> int | None:
    """Of an operand that is read by this map; None where it isn't an array of whole vectors of channels."""
    if not isinstance(operand, GlobalBuffer) or not operand.by_quads or operand.strides is not None:
        return None
    is_vector = len(operand.extents) == 1 and operand.origin == 0 and reads_along_channels(indexing_map)
    channels = operand.extents[-1] if is_vector else None
    return channels * operand.number.bytes if isinstance(channels, int) else None
