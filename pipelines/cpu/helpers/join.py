"""What a kernel does where its program was given a mailbox: shares its workgroups with helpers."""

from __future__ import annotations

from iree.winograd.pipelines.cpu.processor.arrivals import PATIENT_LOOKS
from iree.winograd.pipelines.cpu.processor.x86 import X86_64
from iree.winograd.pipelines.problems.helpers import FUTEX, MOST_THREADS, WAKE

from . import mailbox
from .calls import Call, Grid, is_first, load_state, local_memory_place, new_state
from .functions import Function, branch, branch_if, leave
from .mailbox import Job, JobPlaces
from .memories import take_memory
from .system import SCHED_YIELD, system_call
from .values import Integer, Ordering, Pointer, integer_type
from .work import call_work

JOIN = "winograd.join"


def emit_join(memory: int) -> None:
    """Emits what a kernel does for the first workgroup, all of them, and for the others, nothing.

    Workgroups have up to so many bytes of `memory`.
    """
    function = Function.emit(JOIN, 4)
    workgroup, *called = function.entry.pointers
    call = Call(*called)
    done, first = function.add_block(), function.add_block()
    with function.entry.at_end():
        one, zero, none, yes = Integer.of(1), Integer.of(0), Integer.of(0, 32), Integer.of(1, 32)
        state, own_taken = new_state(one), Pointer.to_new(one, integer_type(64))
        given = load_state(call.state)
        branch_if(is_first(given, none), first, done)
    with done.at_end():
        leave(none)
    with first.at_end():
        job = Job(workgroup, call, Grid.load(call.dispatch))
        box = mailbox.mailbox_address().load_pointer()
        shared = mailbox.sharing_caller(box)
        state.store(given)
        own_memory = take_memory(function, memory, local_memory_place(state))
    claim, alone, share = function.add_block(), function.add_block(), function.add_block()
    wake, work = function.add_block(), function.add_block()
    look, wait = function.add_block(1), function.add_block()
    pause, yield_, finish = function.add_block(), function.add_block(), function.add_block()
    with own_memory.held.at_end():
        branch_if(job.grid.count.equals(one), alone, claim)
    with claim.at_end():
        was_shared = shared.exchange(yes, Ordering.ACQUIRE_RELEASE)
        branch_if(was_shared.differs(none), alone, share)
    with alone.at_end():
        own_taken.store(zero)
        errors_alone = call_work(own_taken, job, state)
        own_memory.give_back()
        leave(errors_alone)
    with share.at_end():
        number = mailbox.job_number(box)
        places, taken = JobPlaces.of(box), mailbox.taken_workgroups(box)
        active, sleeping = mailbox.active_helpers(box), mailbox.sleeping_helper(box)
        last = mailbox.last_job(box)
        places.write(job)
        taken.pointer.store(zero)
        next_number = last.load_integer() + one
        last.store(next_number)
        # Either a helper that is about to sleep sees the job, or the caller that it sleeps: both write before
        # they look.
        number.exchange(next_number)
        branch_if(sleeping.load().differs(none), wake, work)
    with wake.at_end():
        sleeping.store(none)
        system_call(Integer.of(FUTEX), sleeping.pointer, Integer.of(WAKE), Integer.of(MOST_THREADS), zero)
        branch(work)
    with work.at_end():
        errors = call_work(taken.pointer, job, state)
        # Who comes now sees no job; who has seen one is counted.
        number.exchange(zero)
        branch(look, zero)
    (looks,) = look.integers
    with look.at_end():
        branch_if(active.load().differs(zero), wait, finish)
    with wait.at_end():
        patient = Integer.of(PATIENT_LOOKS)
        next_look = looks + one
        branch_if(looks.is_above(patient), yield_, pause)
    with pause.at_end():
        X86_64.emit_pause()
        branch(look, next_look)
    with yield_.at_end():
        # A helper may be without a processor.
        system_call(Integer.of(SCHED_YIELD), box, zero, zero, zero)
        branch(look, next_look)
    with finish.at_end():
        shared.store(none, Ordering.RELEASE)
        own_memory.give_back()
        leave(errors)
