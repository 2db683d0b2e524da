"""Memory of workgroups' own, which the program has for all of its kernels.

For the calling thread IREE's runtime would ask the C library for zeros, for each kernel. What nobody has
written to takes none of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.x86 import X86_64
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .functions import Block, Function, branch, branch_if, emit_global
from .values import Atomic, Integer, Ordering, Pointer, integer_type

_IS_TAKEN, _MEMORIES = "winograd.is_taken", "winograd.memories"
_COUNT = 16
"""Threads that have memory for a workgroup at a time, a power of two: more than call a program for few, but
workers of IREE's may be more, and then wait."""
_FLAG_BITS = 32


@dataclass(frozen=True)
class TakenMemory:
    """Memory that no other thread has, from a block on."""

    held: Block
    flag: Atomic
    is_free: Integer

    def give_back(self) -> None:
        self.flag.store(self.is_free, Ordering.RELEASE)


def emit_memories(size: int) -> None:
    """Emits memory of so many bytes for each thread, and what says whether it is taken."""
    _emit_zeros(_IS_TAKEN, _COUNT, _FLAG_BITS)
    _emit_zeros(_MEMORIES, _COUNT * _stride(size), 8)


def take_memory(function: Function, size: int, local: Pointer) -> TakenMemory:
    """Takes memory of so many bytes, puts its address to `local`, and ends the block that is emitted."""
    is_taken, memories = Pointer.to(_IS_TAKEN), Pointer.to(_MEMORIES)
    first, is_free, takes = Integer.of(0), Integer.of(0, _FLAG_BITS), Integer.of(1, _FLAG_BITS)
    one, last, stride = Integer.of(1), Integer.of(_COUNT - 1), Integer.of(_stride(size))
    attempt, next_one, held = function.add_block(1), function.add_block(), function.add_block()
    branch(attempt, first)
    (number,) = attempt.integers
    with attempt.at_end():
        flag = Atomic(is_taken.element(number, _FLAG_BITS), _FLAG_BITS)
        had = flag.exchange(takes, Ordering.ACQUIRE_RELEASE)
        branch_if(had.equals(is_free), held, next_one)
    with next_one.at_end():
        X86_64.emit_pause()
        branch(attempt, (number + one) & last)
    with held.at_end():
        local.store(memories.element(number * stride, 8))
    return TakenMemory(held, flag, is_free)


def _stride(size: int) -> int:
    """Bytes from one thread's to the next: each begins a line."""
    return max(1, ceil_div(size, CACHE_LINE_BYTES)) * CACHE_LINE_BYTES


def _emit_zeros(name: str, count: int, bits: int) -> None:
    type_ = ir.Type.parse(f"!llvm.array<{count} x i{bits}>")
    zero = ir.IntegerAttr.get(integer_type(bits), 0)
    zeros = ir.DenseElementsAttr.get_splat(ir.RankedTensorType.get([count], integer_type(bits)), zero)
    emit_global(name, type_, zeros, CACHE_LINE_BYTES)
