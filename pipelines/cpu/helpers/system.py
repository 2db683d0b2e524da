"""System calls of Linux on x86-64, and what of a thread the way it computes is kept in there."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.x86 import X86_64

from .values import Integer, Pointer, Value, emit, integer_type

SCHED_YIELD = 24
"""The number of a system call."""

_REGISTERS = ("={rax}", "{rax}", "{rdi}", "{rsi}", "{rdx}", "{r10}", "~{rcx}", "~{r11}", "~{memory}")
"""Of a system call: its result, its number, its arguments, and what it changes."""


def system_call(number: Integer, first: Value, second: Value, third: Value, fourth: Value) -> None:
    """Asks the system for something; whether it did that isn't looked at."""
    operands = [each.value for each in (number, first, second, third, fourth)]
    X86_64.emit("syscall", _REGISTERS, operands, integer_type(64))


def save_floating_point(place: Pointer) -> None:
    """Stores the state in which this thread computes."""
    _call_intrinsic("llvm.x86.sse.stmxcsr", place)


def load_floating_point(place: Pointer) -> None:
    """Has this thread compute in the state that is stored there."""
    _call_intrinsic("llvm.x86.sse.ldmxcsr", place)


def _call_intrinsic(name: str, operand: Pointer) -> None:
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0]),
    }
    emit("call_intrinsic", operands=[operand], attributes=attributes)
