"""How threads of a process help a caller with its workgroups: what kernels and `load` agree on.

They share a mailbox, memory of `MAILBOX_BYTES`, in which lines are apart that one thread writes while others
look at them.
"""

from __future__ import annotations

HELPERS_FUNCTION = "__winograd_helpers"
"""The function of a program that is given a mailbox, as integers of 32 bits. Kernels share their workgroups
by it from then on."""

MAILBOX_KERNEL = "winograd_mailbox"
"""The kernel that takes it."""

MOST_THREADS = 4
"""Threads up to which a program's kernels can share their workgroups with helpers.

IREE's runtime has workers beside the caller, who waits for them. Of few threads that is one too many."""

FUTEX, WAIT, WAKE = 202, 128, 129
"""The system call by which helpers sleep, on x86-64, and what is asked of a futex of one process."""

MAILBOX_BYTES = 1024

JOB = 0
"""Where the number of the job is that the caller shares now, 0 if there is none."""
WORKGROUP_FUNCTION, ENVIRONMENT, DISPATCH_STATE, WORKGROUP_STATE = 8, 16, 24, 32
"""Of the job: what IREE calls a workgroup by."""
WORKGROUPS, WORKGROUPS_OF_ROW, WORKGROUPS_OF_PLANE = 40, 48, 56
"""Of the job: how many workgroups there are, also along x, and along x and y."""
FLOATING_POINT = 64
"""Of the job: the state in which the caller computes."""
TAKEN = 128
"""Where workgroups of the job are counted that somebody has taken."""
ACTIVE = 256
"""Where helpers are counted that look at the job."""
SLEEPING = 384
"""Not 0 if a helper sleeps."""
STOPPED = 388
"""Not 0 if helpers are to end."""
LAST_JOB = 512
"""The number of the last job."""
SHARED = 520
"""Not 0 while a caller shares jobs: another one works alone."""
HELPER_FUNCTION = 528
"""Where the program writes the address of what a helper runs: a function of the mailbox and of memory for
workgroups."""
