"""What a helper runs."""

from __future__ import annotations

from iree.winograd.pipelines.cpu.processor.x86 import X86_64
from iree.winograd.pipelines.problems.helpers import FUTEX, WAIT

from . import mailbox
from .calls import load_state, local_memory_place, new_state
from .functions import Function, branch, branch_if, leave
from .mailbox import JobPlaces
from .system import system_call
from .values import Integer, Ordering
from .work import call_work

HELP = "winograd.help"

_RESTLESS_LOOKS = 4096
"""Pauses after which a helper sleeps: 0.1 to 0.2 ms, more than a caller needs to begin the next call."""


def emit_help() -> None:
    """Emits what looks for jobs, works on each, and sleeps if there is none for long."""
    function = Function.emit(HELP, 2)
    box, memory = function.entry.pointers
    look, idle, pause = function.add_block(2), function.add_block(), function.add_block()
    tire, sleep = function.add_block(), function.add_block()
    enter, work, leave_ = function.add_block(), function.add_block(), function.add_block()
    end = function.add_block()
    with function.entry.at_end():
        one, zero, none, yes = Integer.of(1), Integer.of(0), Integer.of(0, 32), Integer.of(1, 32)
        restless = Integer.of(_RESTLESS_LOOKS)
        state = new_state(one)
        local = local_memory_place(state)
        number = mailbox.job_number(box)
        places, taken = JobPlaces.of(box), mailbox.taken_workgroups(box)
        active, sleeping = mailbox.active_helpers(box), mailbox.sleeping_helper(box)
        stopped = mailbox.stopped_helpers(box)
        branch(look, zero, zero)
    last, looks = look.integers
    with look.at_end():
        seen = number.load()
        is_there, is_new = seen.differs(zero), seen.differs(last)
        branch_if(is_there & is_new, enter, idle)
    with idle.at_end():
        branch_if(stopped.load(Ordering.MONOTONIC).differs(none), end, pause)
    with pause.at_end():
        X86_64.emit_pause()
        next_look = looks + one
        branch_if(looks.is_above(restless), tire, look, last, next_look)
    with tire.at_end():
        sleeping.exchange(yes)
        seen_now, stopped_now = number.load(), stopped.load()
        is_same, goes_on = seen_now.equals(seen), stopped_now.equals(none)
        branch_if(is_same & goes_on, sleep, look, last, zero)
    with sleep.at_end():
        system_call(Integer.of(FUTEX), sleeping.pointer, Integer.of(WAIT), one, zero)
        branch(look, last, zero)
    with enter.at_end():
        active.add(one)
        entered = number.load()
        branch_if(entered.differs(zero), work, leave_)
    with work.at_end():
        job = places.read()
        state.store(load_state(job.call.state))
        local.store(memory)
        call_work(taken.pointer, job, state)
        branch(leave_)
    with leave_.at_end():
        active.add(Integer.of(-1))
        branch(look, entered, zero)
    with end.at_end():
        leave(none)
