"""What callers and helpers find in the mailbox, and where a program keeps its address."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.problems import helpers

from .calls import Call, Grid
from .functions import emit_global
from .system import load_floating_point, save_floating_point
from .values import Atomic, Pointer, integer_type, number_attribute

_MAILBOX, _JOIN_ADDRESS = "winograd.mailbox", "winograd.join.address"


@dataclass(frozen=True)
class Job:
    """The workgroups of a kernel, and what each is called by."""

    workgroup: Pointer
    call: Call
    grid: Grid


@dataclass(frozen=True)
class JobPlaces:
    """Where a job is written to by its caller, before others see its number, and read by helpers."""

    workgroup: Pointer
    environment: Pointer
    dispatch: Pointer
    state: Pointer
    count: Pointer
    row: Pointer
    plane: Pointer
    floating_point: Pointer

    @staticmethod
    def of(box: Pointer) -> JobPlaces:
        return JobPlaces(
            workgroup=box.byte(helpers.WORKGROUP_FUNCTION),
            environment=box.byte(helpers.ENVIRONMENT),
            dispatch=box.byte(helpers.DISPATCH_STATE),
            state=box.byte(helpers.WORKGROUP_STATE),
            count=box.byte(helpers.WORKGROUPS),
            row=box.byte(helpers.WORKGROUPS_OF_ROW),
            plane=box.byte(helpers.WORKGROUPS_OF_PLANE),
            floating_point=box.byte(helpers.FLOATING_POINT),
        )

    def write(self, job: Job) -> None:
        """Writes it, and the state in which this thread computes."""
        self.workgroup.store(job.workgroup)
        self.environment.store(job.call.environment)
        self.dispatch.store(job.call.dispatch)
        self.state.store(job.call.state)
        self.count.store(job.grid.count)
        self.row.store(job.grid.row)
        self.plane.store(job.grid.plane)
        save_floating_point(self.floating_point)

    def read(self) -> Job:
        """Reads it, and has this thread compute as its caller does."""
        workgroup, environment = self.workgroup.load_pointer(), self.environment.load_pointer()
        call = Call(environment, self.dispatch.load_pointer(), self.state.load_pointer())
        grid = Grid(self.count.load_integer(), self.row.load_integer(), self.plane.load_integer())
        load_floating_point(self.floating_point)
        return Job(workgroup, call, grid)


def job_number(box: Pointer) -> Atomic:
    """The number of the job that is shared, or 0."""
    # It is the first of what is in the mailbox.
    return Atomic(box, 64)


def taken_workgroups(box: Pointer) -> Atomic:
    """How many workgroups of the job somebody has taken."""
    return Atomic(box.byte(helpers.TAKEN), 64)


def active_helpers(box: Pointer) -> Atomic:
    """How many helpers look at the job."""
    return Atomic(box.byte(helpers.ACTIVE), 64)


def sleeping_helper(box: Pointer) -> Atomic:
    """Whether a helper sleeps: the futex that it sleeps by."""
    return Atomic(box.byte(helpers.SLEEPING), 32)


def stopped_helpers(box: Pointer) -> Atomic:
    """Whether helpers are to end."""
    return Atomic(box.byte(helpers.STOPPED), 32)


def sharing_caller(box: Pointer) -> Atomic:
    """Whether a caller shares jobs."""
    return Atomic(box.byte(helpers.SHARED), 32)


def last_job(box: Pointer) -> Pointer:
    """Where the number of the last job is."""
    return box.byte(helpers.LAST_JOB)


def helper_function(box: Pointer) -> Pointer:
    """Where the address of what a helper runs is put."""
    return box.byte(helpers.HELPER_FUNCTION)


def emit_addresses() -> None:
    """Emits where a program keeps the address of the mailbox and that of what shares workgroups by it.

    One each of a program: IREE links kernels, and joins what is equal. Both are null without helpers.
    """
    for name in (_MAILBOX, _JOIN_ADDRESS):
        emit_global(name, integer_type(64), number_attribute(0))


def mailbox_address() -> Pointer:
    """Where the first of these is."""
    return Pointer.to(_MAILBOX)


def join_address() -> Pointer:
    """Where the second one is."""
    return Pointer.to(_JOIN_ADDRESS)
