"""The functions that IREE calls in programs whose callers share workgroups."""

from __future__ import annotations

from .calls import emit_kernel, kernel_call, load_first_binding, load_state, local_memory_place, new_state
from .functions import branch_if, call, leave
from .help import HELP, emit_help
from .join import JOIN, emit_join
from .mailbox import emit_addresses, helper_function, join_address, mailbox_address
from .memories import emit_memories, take_memory
from .values import Integer, Pointer
from .work import emit_work


def emit_shared_kernel(name: str, workgroup: str, memory: int, *, uses_memory: bool) -> None:
    """Emits kernel `name`, which shares calls of the function `workgroup` with helpers, if any.

    Workgroups of the program have up to so many bytes of `memory`; this one's may have none.
    """
    _emit_globals(memory)
    kernel = emit_kernel(name)
    called = kernel_call(kernel)
    joined, alone = kernel.add_block(), kernel.add_block()
    with kernel.entry.at_end():
        null, place, function = Pointer.null(), join_address(), Pointer.to(workgroup)
        join = place.load_pointer()
        branch_if(join.equals(null), alone, joined)
    with joined.at_end():
        leave(call(join, function, *called.operands))
    with alone.at_end():
        if not uses_memory:
            leave(call(workgroup, *called.operands))
            return
        state = new_state(Integer.of(1))
        local = local_memory_place(state)
        state.store(load_state(called.state))
        own_memory = take_memory(kernel, memory, local)
    with own_memory.held.at_end():
        error = call(workgroup, *called.of(state).operands)
        own_memory.give_back()
        leave(error)


def emit_mailbox_kernel(name: str, memory: int) -> None:
    """Emits the kernel `name` that takes the mailbox, its first binding, and what it tells of."""
    _emit_globals(memory)
    kernel = emit_kernel(name)
    with kernel.entry.at_end():
        none = Integer.of(0, 32)
        box = load_first_binding(kernel_call(kernel).dispatch)
        mailbox_address().store(box)
        join = Pointer.to(JOIN)
        join_address().store(join)
        help_ = Pointer.to(HELP)
        helper_function(box).store(help_)
        leave(none)
    emit_work()
    emit_join(memory)
    emit_help()


def _emit_globals(memory: int) -> None:
    """One each of a program: IREE links kernels, and joins what is equal."""
    emit_addresses()
    emit_memories(memory)
