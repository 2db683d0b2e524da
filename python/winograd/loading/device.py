"""Devices of IREE's runtime: opening them, copying arrays to and from them, and calling functions on them."""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime

# The runtime's own extension: `iree.runtime` doesn't export the function that creates a driver anew.
from iree.runtime import _binding as binding
from iree.winograd.cuda.driver import CudaError, cuda_driver
from iree.winograd.cuda.thread_context import context_of_this_thread
from iree.winograd.errors import InvalidOptionError, LoadError
from iree.winograd.loading.caller_scheduling import CallerScheduling
from iree.winograd.loading.calls_at_exit import CALLS
from iree.winograd.loading.element_types import ElementType, type_of_dtype
from iree.winograd.loading.helpers import Helpers
from iree.winograd.loading.kept_objects import keep_for_good
from iree.winograd.loading.process_changes import ProcessChange, allowed_changes
from iree.winograd.loading.staging_memory import StagingMemory
from iree.winograd.pipelines.machines.host import WORKER_MEMORY, available_processors, physical_cores
from iree.winograd.pipelines.machines.units import GIBIBYTE
from iree.winograd.pipelines.problems.helpers import MOST_THREADS
from iree.winograd.targets import driver_name

BUFFER_ALIGNMENT = 64
"""Bytes; compiled code relies on it."""

RUNTIME_ERRORS = (IndexError, RuntimeError, ValueError)
"""What the runtime's Python package raises, by the status that its C API returns."""

_HOST_DRIVERS = ("local-sync", "local-task")
_CUDA = "cuda"

# Of `mallopt`, in glibc's malloc.h.
_MALLOC_TRIM_THRESHOLD = -1
_MALLOC_MMAP_THRESHOLD = -3

_HOST_MEMORY = int(runtime.MemoryType.DEVICE_LOCAL) | int(runtime.MemoryType.HOST_VISIBLE)
_ANY_USE = int(runtime.BufferUsage.DEFAULT)


@dataclass(frozen=True)
class Device:
    """A device: `hal` is the runtime's own object, `uri` its name of it."""

    uri: str
    hal: Any
    in_host_memory: bool
    """Whether programs can use the memory of arrays."""
    workers: int
    """Threads of its own that programs run on; 0 where they run on their caller's, or on a GPU."""
    caller: CallerScheduling = CallerScheduling.UNCHANGED
    """What threads ask of the system while they wait for a call."""
    helpers: Helpers | None = None
    """What takes workgroups of the caller's kernels, in programs that share them."""
    with_helpers: Callable[[], Device] | None = None
    """Opens that with helpers in place of workers; None where there are none."""
    enter: Callable[[], None] | None = None
    """Has the calling thread use it, before it calls the runtime; None where any thread may. Raises
    `CudaError`."""
    reopen: Callable[[], Device] | None = None
    """Opens it anew in a process that was forked; None where nothing of it can be used there."""
    staging: StagingMemory = field(init=False, compare=False)
    import_memory: Callable[[npt.NDArray[Any]], Any] = field(init=False, compare=False, repr=False)
    """A buffer of the runtime on the memory of a writable array; in host memory only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "staging", StagingMemory(self.hal))
        import_memory = self.hal.allocator.import_host_allocation
        kind = {"memory_type": _HOST_MEMORY, "allowed_usage": _ANY_USE}
        object.__setattr__(self, "import_memory", partial(import_memory, **kind))

    @property
    def threads(self) -> int | None:
        """That programs run on; None on a GPU."""
        if self.helpers is not None:
            return 1 + self.helpers.count
        return max(1, self.workers) if self.in_host_memory else None

    def _suited_to(self, module: Any) -> Device:
        """That for a module of the runtime's: with helpers in place of few workers, where kernels admit them.

        Not where there is no processor for each, since who waits for a helper keeps its own.
        """
        if self.with_helpers is None or self.workers > min(MOST_THREADS, available_processors()):
            return self
        return self.with_helpers() if Helpers.are_admitted(module) else self

    def open_context(self, holder: object, instance: Any, module: Any) -> tuple[Device, Any]:
        """A context of the runtime's in which functions of `module` are called, which `holder` keeps.

        With the device that they run on: this one, or that with helpers in place of few workers. Raises one
        of `RUNTIME_ERRORS` when it can't run there.
        """
        self.enter_thread()
        suited = self._suited_to(module)
        context = suited._new_context(instance, module)
        if suited.helpers is None or suited.helpers.attach(holder, context, module, suited.import_in_place):
            return suited, context
        return self, self._new_context(instance, module)

    def _new_context(self, instance: Any, module: Any) -> Any:
        return runtime.VmContext(instance, [runtime.create_hal_module(instance, self.hal), module])

    def enter_thread(self) -> None:
        """Have the calling thread use it: all that asks the device for something does this before."""
        if self.enter is not None:
            self.enter()

    def trim(self) -> None:
        """Give back what is kept for allocations of the same size, on a device in host memory.

        IREE's cache keeps the first 64 blocks that are freed, and none after these: sizes of programs that
        are gone would keep others from having theirs.
        """
        if self.in_host_memory:
            self.hal.allocator.trim()

    def invoke(self, context: Any, function: Any, arguments: Any) -> Any:
        """Call a function of a `VmContext` on this device; returns the list of its results.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        self.enter_thread()
        results = runtime.VmVariantList(1)
        call = CALLS.begin()
        try:
            if self.caller is CallerScheduling.UNCHANGED:
                context.invoke(function, arguments, results)
            else:
                with self.caller.applied():
                    context.invoke(function, arguments, results)
        finally:
            CALLS.end(call)
        return results

    def copy_from_host(self, array: npt.NDArray[Any], element_type: ElementType | None = None) -> Any:
        """A buffer view of the runtime in memory of the device; `array` holds elements of `element_type`."""
        self.enter_thread()
        with CALLS.one():
            return self.hal.allocator.allocate_buffer_copy(
                memory_type=runtime.MemoryType.DEVICE_LOCAL,
                allowed_usage=runtime.BufferUsage.DEFAULT,
                device=self.hal,
                buffer=array,
                element_type=runtime.HalElementType(_number(array, element_type)),
            )

    def import_in_place(self, array: npt.NDArray[Any], element_type: ElementType | None = None) -> Any:
        """A buffer view of the runtime on the memory of a writable `array`, at whatever address.

        The array has to live until nothing uses the view any more. Code that IREE generates would rely on
        alignment; in host memory only.
        """
        return runtime.HalBufferView(self.import_memory(array), array.shape, _number(array, element_type))

    def copy_to_host(self, view: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """What a buffer view of the runtime holds on the device, which need not be host memory."""
        self.enter_thread()
        source = view.get_buffer()
        with self.staging.buffer(source.byte_length()) as target:
            self._copy(source, target)
            # The array doesn't keep the memory of a buffer that was mapped without a view.
            result: npt.NDArray[Any] = np.array(target.map().asarray(view.shape, dtype))
        return result

    def copy(self, view: Any) -> Any:
        """A copy of a buffer view of the runtime, in memory of the device that programs may write to."""
        self.enter_thread()
        source = view.get_buffer()
        target = self.hal.allocator.allocate_buffer(
            memory_type=int(runtime.MemoryType.DEVICE_LOCAL),
            allowed_usage=_ANY_USE,
            allocation_size=source.byte_length(),
        )
        self._copy(source, target)
        return runtime.HalBufferView(target, view.shape, view.element_type)

    def _copy(self, source: Any, target: Any) -> None:
        """Has one buffer of the runtime hold what another one of its size does."""
        with CALLS.one():
            semaphore = self.hal.create_semaphore(0)
            done = runtime.HalFence.create_at(semaphore, 1)
            self.hal.queue_copy(
                source,
                target,
                wait_semaphores=runtime.HalFence.create_at(semaphore, 0),
                signal_semaphores=done,
            )
            done.wait()


def _number(array: npt.NDArray[Any], element_type: ElementType | None) -> int:
    known = element_type or type_of_dtype(array.dtype)
    assert known is not None
    return known.hal


class BorrowedArrays:
    """The arrays that a device in host memory uses in place for one call.

    IREE waits for a call's results, not for all that the call has begun: what a program keeps for later calls
    may be computed from the arguments while they are the caller's again.
    """

    def __init__(self) -> None:
        self._borrowed: list[weakref.ref[npt.NDArray[Any]]] = []

    def borrow(self, device: Device, array: npt.NDArray[Any], element_type: ElementType | None = None) -> Any:
        """A buffer view of the runtime on the memory of `array`, which lives as long as the buffer."""
        # The runtime holds what it was handed by DLPack until it lets go of the buffer. An array of our own
        # tells when, whoever else holds `array`.
        loan = array.view()
        self._borrowed.append(weakref.ref(loan, self._returned.put))
        view = device.hal.from_dlpack_capsule(loan.__dlpack__())
        number = _number(array, element_type)
        # DLPack has no names of some types.
        return (
            view
            if view.element_type == number
            else runtime.HalBufferView(view.get_buffer(), array.shape, number)
        )

    @cached_property
    def _returned(self) -> queue.SimpleQueue[object]:
        # Weak references may call `put` at any time.
        return queue.SimpleQueue()

    def wait(self) -> None:
        """Return when the device uses none of the arrays any more; all buffer views have to be gone."""
        for _ in self._borrowed:
            self._returned.get()


_OPENED: list[weakref.ref[Device]] = []
"""The devices that were opened."""

_OPENING = threading.Lock()
"""Held while a device is opened: flags of the process say how many workers the next one gets."""


def open_device(
    device: str, threads: int | None = None, *, caching: bool = True, alone: bool = True
) -> Device:
    """The runtime's device for a URI, the same for each call. Raises `LoadError` if there is none.

    What it may change in the process is in `process_changes.py`; raises `InvalidOptionError` as that does.

    One in host memory keeps what programs free for allocations of the same size, or, without `caching`,
    returns it to the C library: other libraries of the process, torch for one, can use it then. Their threads
    need the cores between calls where programs are not `alone`: workers don't spin on all of them.
    """
    with _OPENING, _reporting(device):
        if driver_name(device) == _CUDA:
            return _open_cuda_gpu(device)
        if driver_name(device) not in _HOST_DRIVERS:
            return _open_gpu(device)
        workers = (threads or physical_cores()) if driver_name(device) == "local-task" else 1
        if workers == 1:
            # A single worker would be woken for every call, and may have to share a core with its caller.
            return _open_host_device("local-sync", 1, caching, spin=0)
        return _open_host_device(device, workers, caching, _spin_microseconds(workers, alone))


@contextmanager
def _reporting(device: str) -> Iterator[None]:
    """Raises what the runtime raises as `LoadError`."""
    try:
        yield
    except InvalidOptionError:
        raise
    except RUNTIME_ERRORS as error:
        drivers = ", ".join(sorted(runtime.query_available_drivers()))
        raise LoadError(f"no device {device!r} (drivers: {drivers}): {error}") from error


KEPT_MEMORY_VARIABLES = {"MALLOC_TRIM_THRESHOLD_": str(GIBIBYTE), "MALLOC_MMAP_THRESHOLD_": str(GIBIBYTE)}
"""Of the environment of a process that is to keep freed memory as programs do: glibc's."""

_FEW_CORES = 4
"""Cores up to which no worker is likely to sleep already when the caller is woken."""
_LARGE_BLOCK = 8 << 20
"""Bytes from which on blocks go back to the system where memory is shared: kept, they would lie between
others, where seldom one as large fits again."""
_SPIN_MICROSECONDS = 1000
"""That workers spin which leave their caller a core.

It is more than the slowest worker of a layer takes, and the caller to be woken, hand over the result, and
begin the next call. Waking workers up takes 50 to 100."""
_SHORT_SPIN_MICROSECONDS = 100
"""That workers spin which take all cores: about what a caller takes to begin the next call."""


def _is_crowded(workers: int) -> bool:
    """Whether so many may have no core left for their caller, nor one that it could take."""
    available = available_processors()
    return workers > available or workers == available <= _FEW_CORES


def _caller_scheduling(workers: int) -> CallerScheduling:
    if _is_crowded(workers):
        return CallerScheduling.BATCH_WORK
    return CallerScheduling.SHORT_SLICES if workers == available_processors() else CallerScheduling.UNCHANGED


def _spin_microseconds(workers: int, alone: bool) -> int:
    """That so many wait for the next dispatch or call before they sleep."""
    if workers < available_processors():
        return _SPIN_MICROSECONDS
    # Of few cores their caller would wait for the one that it needs.
    return _SHORT_SPIN_MICROSECONDS if alone and not _is_crowded(workers) else 0


@cache
def _open_host_device(device: str, threads: int, caching: bool, spin: int) -> Device:
    workers = threads if driver_name(device) == "local-task" else 0
    available = available_processors()
    allowed = allowed_changes()
    if ProcessChange.MALLOC in allowed and (workers or not caching):
        _keep_freed_memory(GIBIBYTE if caching else _LARGE_BLOCK)
    # Without a number IREE keeps a worker on each core of the machine: systems may leave two that work for
    # microseconds on the same one. Where many take all there is, a caller has to find its way between them.
    all_cores = threads == physical_cores() and available == os.cpu_count()
    is_taken = all_cores and (_is_crowded(workers) or threads < available)
    pinned = is_taken and ProcessChange.AFFINITY in allowed
    # The workers are created with the driver, as many and with as much memory as flags of the process say.
    runtime.flags.parse_flags(
        f"--task_topology_group_count={0 if pinned else threads}",
        f"--task_worker_local_memory={WORKER_MEMORY}",
        f"--task_worker_spin_us={spin}",
    )
    # With a cache results aren't mapped, and faulted in, anew on each call, however large.
    allocators = ["caching"] if caching else []
    hal = binding.create_hal_driver(device).create_default_device(allocators=allocators)
    opened = Device(
        device,
        hal,
        in_host_memory=True,
        workers=workers,
        caller=_caller_scheduling(workers)
        if ProcessChange.SCHEDULING in allowed
        else CallerScheduling.UNCHANGED,
        with_helpers=partial(_with_helpers, threads, caching) if workers > 1 else None,
        reopen=partial(_reopen_host_device, device, threads, caching, spin),
    )
    return _noted(opened)


@cache
def _open_with_helpers(threads: int, caching: bool) -> Device:
    """That of the calling thread, with helpers for the others."""
    alone = _open_host_device("local-sync", 1, caching, spin=0)
    helpers = Helpers(threads - 1)
    reopen = partial(_with_helpers, threads, caching)
    return _noted(replace(alone, uri="local-task", helpers=helpers, reopen=reopen))


def _with_helpers(threads: int, caching: bool) -> Device:
    with _OPENING, _reporting("local-sync"):
        return _open_with_helpers(threads, caching)


def _noted(device: Device) -> Device:
    _OPENED.append(weakref.ref(device))
    return device


def _reopen_host_device(device: str, threads: int, caching: bool, spin: int) -> Device:
    with _OPENING, _reporting(device):
        return _open_host_device(device, threads, caching, spin)


def _keep_freed_memory(limit: int) -> None:
    """Has the C library keep freed blocks of less than `limit` bytes, up to a gibibyte of them at the end.

    What a program computes between its arguments and its results, the device with workers allocates for each
    call, past 64 MiB directly from the C library. Without a cache all devices do, results too. Memory from
    the system comes a page at a time, each of which the first access faults in: a tenth of the time of a
    network with a batch of images.
    """
    if sys.platform != "linux":
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MALLOC_TRIM_THRESHOLD, GIBIBYTE)
        set_option(_MALLOC_MMAP_THRESHOLD, limit)


@cache
def _open_gpu(device: str) -> Device:
    # IREE's own cache would keep it open.
    hal = runtime.get_device(device, cache=False)
    return _noted(Device(device, hal, in_host_memory=False, workers=0))


@cache
def _open_cuda_gpu(device: str) -> Device:
    # Other libraries of the process use results and constants where they are, and the runtime exports no
    # memory of CUDA's own pools. Without a cache it would ask CUDA for memory, and wait, in every call.
    runtime.flags.parse_flags("--cuda_async_allocations=false")
    try:
        hal = binding.create_hal_driver(device).create_device_by_uri(device, allocators=["caching"])
    finally:
        runtime.flags.parse_flags("--cuda_async_allocations=true")
    try:
        enter = context_of_this_thread(cuda_driver())
    except CudaError:
        # IREE's runtime works with drivers that are older than what `CudaDriver` needs.
        enter = None
    return _noted(Device(device, hal, in_host_memory=False, workers=0, enter=enter))


def close_gpus() -> None:
    """Close GPUs of `open_device`, those that programs are still loaded on when the last of these is gone.

    While one is open, threads of IREE's wait for it, and each takes a core where a Vulkan driver polls.
    """
    _open_gpu.cache_clear()


# A Vulkan driver of NVIDIA's crashes on a device that is freed with the modules of the interpreter. Those of
# the host, and those that share results, have to stay: results are in their memory, and may live as long.
atexit.register(close_gpus)


def _forget_devices() -> None:
    """Have a forked process open devices anew: it has none of the threads, and locks may be held by them."""
    global _OPENING
    _OPENING = threading.Lock()
    for opened in _OPENED:
        device = opened()
        if device is not None:
            # Its threads stayed behind: to free it would be to wait for them for ever.
            keep_for_good(device)
    for opening in (_open_host_device, _open_with_helpers, _open_gpu, _open_cuda_gpu):
        opening.cache_clear()
    CALLS.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)
