"""What callers and helpers do alike: workgroups of a job, until all are taken."""

from __future__ import annotations

from .calls import Call, Grid, Place
from .functions import Function, branch, branch_if, call, leave
from .mailbox import Job
from .values import Atomic, Integer, Ordering, Pointer

_WORK = "winograd.work"


def emit_work() -> None:
    """Emits the function that does workgroups of a job until all are taken, and tells whether one failed."""
    function = Function.emit(_WORK, 5, 3)
    counter, workgroup, *called = function.entry.pointers
    taken, call_, grid = Atomic(counter, 64), Call(*called), Grid(*function.entry.integers)
    take, work, end = function.add_block(1, bits=32), function.add_block(), function.add_block()
    with function.entry.at_end():
        one, none = Integer.of(1), Integer.of(0, 32)
        place = Place.of(call_.state)
        branch(take, none)
    (errors,) = take.integers
    with take.at_end():
        number = taken.add(one, Ordering.ACQUIRE_RELEASE)
        branch_if(number.is_below(grid.count), work, end)
    with work.at_end():
        place.store(number, grid)
        branch(take, errors | call(workgroup, *call_.operands))
    with end.at_end():
        leave(errors)


def call_work(taken: Pointer, job: Job, state: Pointer) -> Integer:
    """Calls it, with where it counts what is taken, and with memory of this thread's for its workgroups."""
    operands = job.call.of(state).operands
    return call(_WORK, taken, job.workgroup, *operands, job.grid.count, job.grid.row, job.grid.plane)
