"""How a caller shares the workgroups of its kernels with other threads, on x86-64 under Linux.

IREE's runtime calls a kernel for each workgroup. Instead the call for the first one does them all: it puts
into the mailbox what IREE has called it with, and takes workgroup after workgroup, as do helpers that see it
there, until none is left. Then it takes the job back, and waits for who is still at work.
"""

from __future__ import annotations

from string import Template

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.problems import helpers
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .processor.arrivals import PATIENT_LOOKS
from .processor.x86 import X86_64

_MAILBOX, _JOIN, _HELP = "winograd.mailbox", "winograd.join", "winograd.help"

_DISPATCH = (
    '!llvm.struct<"iree_hal_executable_dispatch_state_v0_t", '
    "(i32, i32, i16, i16, i32, i32, i16, i8, i8, ptr, ptr, ptr)>"
)
"""What IREE calls a workgroup with: its extents are fields 4 to 6, the addresses of bindings field 10."""
_WORKGROUP = "!llvm.struct<(i32, i32, i16, i16, i32, ptr, i32, i32)>"
"""The same of one workgroup: its place are the first three fields, memory of its own the sixth."""
_FUTEX, _SCHED_YIELD = 202, 24
"""Numbers of system calls."""
_WAIT, _WAKE = 128, 129
"""What is asked of a futex that no other process has."""
_MEMORIES = 16
"""Threads that have memory for a workgroup at a time, a power of two: more than call a program for few, but
workers of IREE's may be more, and then wait."""
_RESTLESS_LOOKS = 4096
"""Pauses after which a helper sleeps: 0.1 to 0.2 ms, more than a caller needs to begin the next call."""

_PARAMETER = "{llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.noundef}"
_CHANGED = ",".join(X86_64.changed)
_SYSTEM_CALL = (
    f'llvm.inline_asm has_side_effects "syscall", '
    f'"={{rax}},{{rax}},{{rdi}},{{rsi}},{{rdx}},{{r10}},~{{rcx}},~{{r11}},~{{memory}},{_CHANGED}"'
)
_PAUSE = f'llvm.inline_asm has_side_effects "{X86_64.pause}", "~{{memory}},{_CHANGED}" : () -> ()'


def shared_kernel(name: str, workgroup: str, memory: int, *, uses_memory: bool) -> str:
    """A module with kernel `name`, which shares calls of the function `workgroup` with helpers, if any.

    Workgroups of the program have up to so many bytes of `memory`; this one's may have none.
    """
    alone = _ALONE_WITH_MEMORY if uses_memory else _ALONE
    return _filled(_SHARED_KERNEL + alone, memory, name=name, workgroup=workgroup)


def mailbox_kernel(name: str, memory: int) -> str:
    """A module with the kernel `name` that takes the mailbox, its first binding, and what it tells of."""
    return _filled(_MAILBOX_KERNEL, memory, name=name)


def _filled(text: str, memory: int, **names: str) -> str:
    places = {name: str(value) for name, value in vars(helpers).items() if name.isupper()}
    # The memory of a workgroup begins a line.
    place = max(1, ceil_div(memory, CACHE_LINE_BYTES)) * CACHE_LINE_BYTES
    return Template(_GLOBALS + text).substitute(
        names,
        **places,
        memory=str(place),
        memories=str(_MEMORIES),
        last_memory=str(_MEMORIES - 1),
        all_memory=str(_MEMORIES * place),
        take_memory=Template(_TAKE_MEMORY).substitute(
            memory=str(place), last_memory=str(_MEMORIES - 1), pause=_PAUSE
        ),
        mailbox=_MAILBOX,
        join=_JOIN,
        help=_HELP,
        dispatch=_DISPATCH,
        state=_WORKGROUP,
        parameter=_PARAMETER,
        kernel="(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32",
        system_call=_SYSTEM_CALL,
        pause=_PAUSE,
        futex=str(_FUTEX),
        sched_yield=str(_SCHED_YIELD),
        wait=str(_WAIT),
        wake=str(_WAKE),
        patient=str(PATIENT_LOOKS),
        restless=str(_RESTLESS_LOOKS),
        line=str(CACHE_LINE_BYTES),
    )


_GLOBALS = """
llvm.mlir.global internal @${mailbox}(0 : i64) {addr_space = 0 : i32} : i64
llvm.mlir.global internal @${join}.address(0 : i64) {addr_space = 0 : i32} : i64
llvm.mlir.global internal @winograd.is_taken(dense<0> : tensor<${memories}xi32>)
  {addr_space = 0 : i32, alignment = ${line} : i64} : !llvm.array<${memories} x i32>
llvm.mlir.global internal @winograd.memories(dense<0> : tensor<${all_memory}xi8>)
  {addr_space = 0 : i32, alignment = ${line} : i64} : !llvm.array<${all_memory} x i8>
"""
"""One each of a program: IREE links kernels, and joins what is equal. The first two are null without helpers.

Workgroups have their memory here. For the calling thread IREE's runtime would ask the C library for zeros,
for each kernel. What nobody has written to takes none of the machine."""

_TAKE_MEMORY = """
  %is_taken = llvm.mlir.addressof @winograd.is_taken : !llvm.ptr
  %memories = llvm.mlir.addressof @winograd.memories : !llvm.ptr
  %first_memory = llvm.mlir.constant(0 : i64) : i64
  %is_free = llvm.mlir.constant(0 : i32) : i32
  %takes = llvm.mlir.constant(1 : i32) : i32
  %next_memory = llvm.mlir.constant(1 : i64) : i64
  %last_memory = llvm.mlir.constant(${last_memory} : i64) : i64
  %memory_bytes = llvm.mlir.constant(${memory} : i64) : i64
  llvm.br ^try(%first_memory : i64)
^try(%number_of_memory: i64):
  %flag = llvm.getelementptr %is_taken[%number_of_memory] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %had = llvm.atomicrmw xchg %flag, %takes acq_rel : !llvm.ptr, i32
  %has = llvm.icmp "eq" %had, %is_free : i32
  llvm.cond_br %has, ^with_memory, ^try_next
^try_next:
  ${pause}
  %later = llvm.add %number_of_memory, %next_memory : i64
  %after_it = llvm.and %later, %last_memory : i64
  llvm.br ^try(%after_it : i64)
^with_memory:
  %memory_offset = llvm.mul %number_of_memory, %memory_bytes : i64
  %memory = llvm.getelementptr %memories[%memory_offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  llvm.store %memory, %local : !llvm.ptr, !llvm.ptr
"""
"""Takes memory that no other thread has, and puts its address to `local`. Who has it sets `flag` to zero."""

_SHARED_KERNEL = """
llvm.func @${workgroup}(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @${name}(%environment: !llvm.ptr ${parameter}, %dispatch: !llvm.ptr ${parameter},
                   %state: !llvm.ptr ${parameter}) -> i32 {
  %null = llvm.mlir.zero : !llvm.ptr
  %place = llvm.mlir.addressof @${join}.address : !llvm.ptr
  %workgroup = llvm.mlir.addressof @${workgroup} : !llvm.ptr
  %join = llvm.load %place : !llvm.ptr -> !llvm.ptr
  %alone = llvm.icmp "eq" %join, %null : !llvm.ptr
  llvm.cond_br %alone, ^alone, ^joined
^joined:
  %joined = llvm.call %join(%workgroup, %environment, %dispatch, %state)
    : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  llvm.return %joined : i32
^alone:
"""
_ALONE = """
  %error = llvm.call @${workgroup}(%environment, %dispatch, %state) : ${kernel}
  llvm.return %error : i32
}
"""
_ALONE_WITH_MEMORY = """
  %one = llvm.mlir.constant(1 : i64) : i64
  %copy = llvm.alloca %one x ${state} {alignment = ${line} : i64} : (i64) -> !llvm.ptr
  %local = llvm.getelementptr %copy[0, 5] : (!llvm.ptr) -> !llvm.ptr, ${state}
  %own = llvm.load %state : !llvm.ptr -> ${state}
  llvm.store %own, %copy : ${state}, !llvm.ptr
  ${take_memory}
  %error = llvm.call @${workgroup}(%environment, %dispatch, %copy) : ${kernel}
  llvm.store %is_free, %flag atomic release <{alignment = 4 : i64}> : i32, !llvm.ptr
  llvm.return %error : i32
}
"""

_MAILBOX_KERNEL = """
llvm.func @${name}(%environment: !llvm.ptr ${parameter}, %dispatch: !llvm.ptr ${parameter},
                   %state: !llvm.ptr ${parameter}) -> i32 {
  %done = llvm.mlir.constant(0 : i32) : i32
  %fields = llvm.load %dispatch : !llvm.ptr -> ${dispatch}
  %bindings = llvm.extractvalue %fields[10] : ${dispatch}
  %box = llvm.load %bindings : !llvm.ptr -> !llvm.ptr
  %box_place = llvm.mlir.addressof @${mailbox} : !llvm.ptr
  llvm.store %box, %box_place : !llvm.ptr, !llvm.ptr
  %join = llvm.mlir.addressof @${join} : !llvm.ptr
  %join_place = llvm.mlir.addressof @${join}.address : !llvm.ptr
  llvm.store %join, %join_place : !llvm.ptr, !llvm.ptr
  %help = llvm.mlir.addressof @${help} : !llvm.ptr
  %help_place = llvm.getelementptr %box[${HELPER_FUNCTION}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %help, %help_place : !llvm.ptr, !llvm.ptr
  llvm.return %done : i32
}

// Does workgroups of a job, of which there are `count`, until all are taken. Tells whether one failed.
llvm.func internal @winograd.work(%taken: !llvm.ptr, %workgroup: !llvm.ptr, %environment: !llvm.ptr,
                                  %dispatch: !llvm.ptr, %state: !llvm.ptr, %count: i64, %row: i64,
                                  %plane: i64) -> i32 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %place_y = llvm.getelementptr %state[0, 1] : (!llvm.ptr) -> !llvm.ptr, ${state}
  %place_z = llvm.getelementptr %state[0, 2] : (!llvm.ptr) -> !llvm.ptr, ${state}
  llvm.br ^take(%none : i32)
^take(%errors: i32):
  %number = llvm.atomicrmw add %taken, %one acq_rel : !llvm.ptr, i64
  %is_left = llvm.icmp "ult" %number, %count : i64
  llvm.cond_br %is_left, ^work, ^end
^work:
  %z = llvm.udiv %number, %plane : i64
  %in_plane = llvm.urem %number, %plane : i64
  %y = llvm.udiv %in_plane, %row : i64
  %x = llvm.urem %in_plane, %row : i64
  %x32 = llvm.trunc %x : i64 to i32
  %y32 = llvm.trunc %y : i64 to i32
  %z16 = llvm.trunc %z : i64 to i16
  llvm.store %x32, %state : i32, !llvm.ptr
  llvm.store %y32, %place_y : i32, !llvm.ptr
  llvm.store %z16, %place_z : i16, !llvm.ptr
  %error = llvm.call %workgroup(%environment, %dispatch, %state) : !llvm.ptr, ${kernel}
  %after = llvm.or %errors, %error : i32
  llvm.br ^take(%after : i32)
^end:
  llvm.return %errors : i32
}

// What a kernel does for the first workgroup, all of them, and for the others.
llvm.func internal @${join}(%workgroup: !llvm.ptr, %environment: !llvm.ptr, %dispatch: !llvm.ptr,
                            %state: !llvm.ptr) -> i32 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %zero = llvm.mlir.constant(0 : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %yes = llvm.mlir.constant(1 : i32) : i32
  %copy = llvm.alloca %one x ${state} {alignment = ${line} : i64} : (i64) -> !llvm.ptr
  %own_taken = llvm.alloca %one x i64 : (i64) -> !llvm.ptr
  %own = llvm.load %state : !llvm.ptr -> ${state}
  %x = llvm.extractvalue %own[0] : ${state}
  %y = llvm.extractvalue %own[1] : ${state}
  %z16 = llvm.extractvalue %own[2] : ${state}
  %z = llvm.zext %z16 : i16 to i32
  %xy = llvm.or %x, %y : i32
  %xyz = llvm.or %xy, %z : i32
  %is_first = llvm.icmp "eq" %xyz, %none : i32
  llvm.cond_br %is_first, ^first, ^done
^done:
  llvm.return %none : i32
^first:
  %fields = llvm.load %dispatch : !llvm.ptr -> ${dispatch}
  %row32 = llvm.extractvalue %fields[4] : ${dispatch}
  %rows32 = llvm.extractvalue %fields[5] : ${dispatch}
  %planes16 = llvm.extractvalue %fields[6] : ${dispatch}
  %row = llvm.zext %row32 : i32 to i64
  %rows = llvm.zext %rows32 : i32 to i64
  %planes = llvm.zext %planes16 : i16 to i64
  %plane = llvm.mul %row, %rows : i64
  %count = llvm.mul %plane, %planes : i64
  %box_place = llvm.mlir.addressof @${mailbox} : !llvm.ptr
  %box = llvm.load %box_place : !llvm.ptr -> !llvm.ptr
  %shared = llvm.getelementptr %box[${SHARED}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %own, %copy : ${state}, !llvm.ptr
  %local = llvm.getelementptr %copy[0, 5] : (!llvm.ptr) -> !llvm.ptr, ${state}
  ${take_memory}
  %is_single = llvm.icmp "eq" %count, %one : i64
  llvm.cond_br %is_single, ^alone, ^claim
^claim:
  %was_shared = llvm.atomicrmw xchg %shared, %yes acq_rel : !llvm.ptr, i32
  %is_shared = llvm.icmp "ne" %was_shared, %none : i32
  llvm.cond_br %is_shared, ^alone, ^share
^alone:
  llvm.store %zero, %own_taken : i64, !llvm.ptr
  %errors_alone = llvm.call @winograd.work(
    %own_taken, %workgroup, %environment, %dispatch, %copy, %count, %row, %plane)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64) -> i32
  llvm.store %is_free, %flag atomic release <{alignment = 4 : i64}> : i32, !llvm.ptr
  llvm.return %errors_alone : i32
^share:
  %workgroup_place = llvm.getelementptr %box[${WORKGROUP_FUNCTION}] : (!llvm.ptr) -> !llvm.ptr, i8
  %environment_place = llvm.getelementptr %box[${ENVIRONMENT}] : (!llvm.ptr) -> !llvm.ptr, i8
  %dispatch_place = llvm.getelementptr %box[${DISPATCH_STATE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %state_place = llvm.getelementptr %box[${WORKGROUP_STATE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %count_place = llvm.getelementptr %box[${WORKGROUPS}] : (!llvm.ptr) -> !llvm.ptr, i8
  %row_place = llvm.getelementptr %box[${WORKGROUPS_OF_ROW}] : (!llvm.ptr) -> !llvm.ptr, i8
  %plane_place = llvm.getelementptr %box[${WORKGROUPS_OF_PLANE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %floating_point = llvm.getelementptr %box[${FLOATING_POINT}] : (!llvm.ptr) -> !llvm.ptr, i8
  %taken = llvm.getelementptr %box[${TAKEN}] : (!llvm.ptr) -> !llvm.ptr, i8
  %active = llvm.getelementptr %box[${ACTIVE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %sleeping = llvm.getelementptr %box[${SLEEPING}] : (!llvm.ptr) -> !llvm.ptr, i8
  %last_place = llvm.getelementptr %box[${LAST_JOB}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %workgroup, %workgroup_place : !llvm.ptr, !llvm.ptr
  llvm.store %environment, %environment_place : !llvm.ptr, !llvm.ptr
  llvm.store %dispatch, %dispatch_place : !llvm.ptr, !llvm.ptr
  llvm.store %state, %state_place : !llvm.ptr, !llvm.ptr
  llvm.store %count, %count_place : i64, !llvm.ptr
  llvm.store %row, %row_place : i64, !llvm.ptr
  llvm.store %plane, %plane_place : i64, !llvm.ptr
  llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%floating_point) : (!llvm.ptr) -> ()
  llvm.store %zero, %taken : i64, !llvm.ptr
  %last = llvm.load %last_place : !llvm.ptr -> i64
  %number = llvm.add %last, %one : i64
  llvm.store %number, %last_place : i64, !llvm.ptr
  // Either a helper that is about to sleep sees the job, or the caller that it sleeps: both write before they
  // look.
  %no_job = llvm.atomicrmw xchg %box, %number seq_cst : !llvm.ptr, i64
  %asleep = llvm.load %sleeping atomic seq_cst <{alignment = 4 : i64}> : !llvm.ptr -> i32
  %sleeps = llvm.icmp "ne" %asleep, %none : i32
  llvm.cond_br %sleeps, ^wake, ^work
^wake:
  llvm.store %none, %sleeping atomic seq_cst <{alignment = 4 : i64}> : i32, !llvm.ptr
  %futex = llvm.mlir.constant(${futex} : i64) : i64
  %wake = llvm.mlir.constant(${wake} : i64) : i64
  %all = llvm.mlir.constant(${MOST_THREADS} : i64) : i64
  %woken = ${system_call} %futex, %sleeping, %wake, %all, %zero
    : (i64, !llvm.ptr, i64, i64, i64) -> i64
  llvm.br ^work
^work:
  %errors = llvm.call @winograd.work(
    %taken, %workgroup, %environment, %dispatch, %copy, %count, %row, %plane)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64) -> i32
  // Who comes now sees no job; who has seen one is counted.
  %job = llvm.atomicrmw xchg %box, %zero seq_cst : !llvm.ptr, i64
  llvm.br ^look(%zero : i64)
^look(%looks: i64):
  %helpers = llvm.load %active atomic seq_cst <{alignment = 8 : i64}> : !llvm.ptr -> i64
  %at_work = llvm.icmp "ne" %helpers, %zero : i64
  llvm.cond_br %at_work, ^await, ^finish
^await:
  %patient = llvm.mlir.constant(${patient} : i64) : i64
  %next_look = llvm.add %looks, %one : i64
  %is_long = llvm.icmp "ugt" %looks, %patient : i64
  llvm.cond_br %is_long, ^yield, ^pause
^pause:
  ${pause}
  llvm.br ^look(%next_look : i64)
^yield:
  // A helper may be without a processor.
  %sched_yield = llvm.mlir.constant(${sched_yield} : i64) : i64
  %yielded = ${system_call} %sched_yield, %box, %zero, %zero, %zero
    : (i64, !llvm.ptr, i64, i64, i64) -> i64
  llvm.br ^look(%next_look : i64)
^finish:
  llvm.store %none, %shared atomic release <{alignment = 4 : i64}> : i32, !llvm.ptr
  llvm.store %is_free, %flag atomic release <{alignment = 4 : i64}> : i32, !llvm.ptr
  llvm.return %errors : i32
}

// What a helper runs: it looks for jobs, works on each, and sleeps if there is none for long.
llvm.func internal @${help}(%box: !llvm.ptr, %memory: !llvm.ptr) -> i32 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %zero = llvm.mlir.constant(0 : i64) : i64
  %none = llvm.mlir.constant(0 : i32) : i32
  %yes = llvm.mlir.constant(1 : i32) : i32
  %restless = llvm.mlir.constant(${restless} : i64) : i64
  %copy = llvm.alloca %one x ${state} {alignment = ${line} : i64} : (i64) -> !llvm.ptr
  %local = llvm.getelementptr %copy[0, 5] : (!llvm.ptr) -> !llvm.ptr, ${state}
  %workgroup_place = llvm.getelementptr %box[${WORKGROUP_FUNCTION}] : (!llvm.ptr) -> !llvm.ptr, i8
  %environment_place = llvm.getelementptr %box[${ENVIRONMENT}] : (!llvm.ptr) -> !llvm.ptr, i8
  %dispatch_place = llvm.getelementptr %box[${DISPATCH_STATE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %state_place = llvm.getelementptr %box[${WORKGROUP_STATE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %count_place = llvm.getelementptr %box[${WORKGROUPS}] : (!llvm.ptr) -> !llvm.ptr, i8
  %row_place = llvm.getelementptr %box[${WORKGROUPS_OF_ROW}] : (!llvm.ptr) -> !llvm.ptr, i8
  %plane_place = llvm.getelementptr %box[${WORKGROUPS_OF_PLANE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %floating_point = llvm.getelementptr %box[${FLOATING_POINT}] : (!llvm.ptr) -> !llvm.ptr, i8
  %taken = llvm.getelementptr %box[${TAKEN}] : (!llvm.ptr) -> !llvm.ptr, i8
  %active = llvm.getelementptr %box[${ACTIVE}] : (!llvm.ptr) -> !llvm.ptr, i8
  %sleeping = llvm.getelementptr %box[${SLEEPING}] : (!llvm.ptr) -> !llvm.ptr, i8
  %stopped = llvm.getelementptr %box[${STOPPED}] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.br ^look(%zero, %zero : i64, i64)
^look(%last: i64, %looks: i64):
  %job = llvm.load %box atomic seq_cst <{alignment = 8 : i64}> : !llvm.ptr -> i64
  %is_there = llvm.icmp "ne" %job, %zero : i64
  %is_new = llvm.icmp "ne" %job, %last : i64
  %is_next = llvm.and %is_there, %is_new : i1
  llvm.cond_br %is_next, ^enter, ^idle
^idle:
  %stop = llvm.load %stopped atomic monotonic <{alignment = 4 : i64}> : !llvm.ptr -> i32
  %is_stopped = llvm.icmp "ne" %stop, %none : i32
  llvm.cond_br %is_stopped, ^end, ^pause
^pause:
  ${pause}
  %next_look = llvm.add %looks, %one : i64
  %is_long = llvm.icmp "ugt" %looks, %restless : i64
  llvm.cond_br %is_long, ^tire, ^look(%last, %next_look : i64, i64)
^tire:
  %awake = llvm.atomicrmw xchg %sleeping, %yes seq_cst : !llvm.ptr, i32
  %job_now = llvm.load %box atomic seq_cst <{alignment = 8 : i64}> : !llvm.ptr -> i64
  %stop_now = llvm.load %stopped atomic seq_cst <{alignment = 4 : i64}> : !llvm.ptr -> i32
  %is_same = llvm.icmp "eq" %job_now, %job : i64
  %goes_on = llvm.icmp "eq" %stop_now, %none : i32
  %may_sleep = llvm.and %is_same, %goes_on : i1
  llvm.cond_br %may_sleep, ^sleep, ^look(%last, %zero : i64, i64)
^sleep:
  %futex = llvm.mlir.constant(${futex} : i64) : i64
  %wait = llvm.mlir.constant(${wait} : i64) : i64
  %woken = ${system_call} %futex, %sleeping, %wait, %one, %zero
    : (i64, !llvm.ptr, i64, i64, i64) -> i64
  llvm.br ^look(%last, %zero : i64, i64)
^enter:
  %others = llvm.atomicrmw add %active, %one seq_cst : !llvm.ptr, i64
  %entered = llvm.load %box atomic seq_cst <{alignment = 8 : i64}> : !llvm.ptr -> i64
  %stays = llvm.icmp "ne" %entered, %zero : i64
  llvm.cond_br %stays, ^work, ^leave
^work:
  %workgroup = llvm.load %workgroup_place : !llvm.ptr -> !llvm.ptr
  %environment = llvm.load %environment_place : !llvm.ptr -> !llvm.ptr
  %dispatch = llvm.load %dispatch_place : !llvm.ptr -> !llvm.ptr
  %state = llvm.load %state_place : !llvm.ptr -> !llvm.ptr
  %count = llvm.load %count_place : !llvm.ptr -> i64
  %row = llvm.load %row_place : !llvm.ptr -> i64
  %plane = llvm.load %plane_place : !llvm.ptr -> i64
  llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%floating_point) : (!llvm.ptr) -> ()
  %of_caller = llvm.load %state : !llvm.ptr -> ${state}
  llvm.store %of_caller, %copy : ${state}, !llvm.ptr
  llvm.store %memory, %local : !llvm.ptr, !llvm.ptr
  %errors = llvm.call @winograd.work(
    %taken, %workgroup, %environment, %dispatch, %copy, %count, %row, %plane)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64) -> i32
  llvm.br ^leave
^leave:
  %fewer = llvm.mlir.constant(-1 : i64) : i64
  %before = llvm.atomicrmw add %active, %fewer seq_cst : !llvm.ptr, i64
  llvm.br ^look(%entered, %zero : i64, i64)
^end:
  llvm.return %none : i32
}
"""
