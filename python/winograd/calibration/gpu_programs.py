"""Programs whose times show what a GPU can do, one figure each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, func, ir, tensor
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import multiply_add
from iree.winograd.pipelines.emission.work import BATCH, Sizes, Work
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.device.target import GpuTarget

MULTIPLY_ADD_DISPATCHES = (3, 7)
"""Of a short and a long chain; their difference in time is free of what a call costs.

Both allocate two arrays between their dispatches: Vulkan takes longer for that than for many a kernel.
"""
COPY_DISPATCHES = (3, 387)
"""As `MULTIPLY_ADD_DISPATCHES`; more, since a copy takes much less time."""

_ITERATIONS = 4096
_SUMS = 8
"""Quads that a thread sums, independent of each other."""
_QUADS_PER_THREAD = 4
"""That a thread copies."""
_COPY_THREADS = 256
SATURATING_THREADS = 1024
"""So many keep the units of a multiprocessor busy, also if their compiler has them wait for each result."""


@dataclass(frozen=True)
class _Kernel:
    """Workgroups of `threads` that make a row of `elements` of another one."""

    name: str
    threads: int
    elements: int
    emit_row: Callable[[GlobalBuffer, GlobalBuffer, Index, int], None]

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """One for each row."""
        return (sizes.batch,)

    def emit(self, work: Work, source: GlobalBuffer, target: GlobalBuffer) -> None:
        """Emits the making of one row."""
        self.emit_row(source, target, work.workgroup[0] * self.elements, self.elements)


def workgroup_multiply_adds(target: GpuTarget) -> int:
    """Floating-point operations of one workgroup of `multiply_add`."""
    return 2 * QUAD * _SUMS * _ITERATIONS * _multiply_add_threads(target)


def multiply_add_elements(target: GpuTarget) -> int:
    """Elements of one row of the argument of `multiply_add`, which has one per workgroup."""
    return QUAD * _multiply_add_threads(target)


def copy_elements(target: GpuTarget) -> int:
    """Elements of one row of the argument of `copy`."""
    return QUAD * _QUADS_PER_THREAD * _copy_threads(target)


def build_gpu_programs(target: GpuTarget) -> ir.Module:
    """A module of functions from arrays of any number of rows to arrays of the same size.

    In `multiply_add_short` and `multiply_add_long` each row has a workgroup that loops over multiply-adds; in
    `copy_short` and `copy_long` each has one that copies it.
    """
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        launcher = Launcher(module.operation, target)
        multiply_adds = _Kernel(
            "multiply_add", _multiply_add_threads(target), multiply_add_elements(target), _emit_multiply_adds
        )
        copy = _Kernel("copy", _copy_threads(target), copy_elements(target), _emit_copy)
        with ir.InsertionPoint(module.body):
            for number, length in enumerate(("short", "long")):
                _add_chain(launcher, length, multiply_adds, MULTIPLY_ADD_DISPATCHES[number])
                _add_chain(launcher, length, copy, COPY_DISPATCHES[number])
        return module


def _emit_multiply_adds(source: GlobalBuffer, target: GlobalBuffer, first: Index, elements: int) -> None:
    offset = first + thread_id() * QUAD
    factor = source.load(offset)
    sums = loop_carried(
        _ITERATIONS,
        1,
        [factor] * _SUMS,
        lambda _, sums: [multiply_add(each, factor, factor, fused=True) for each in sums],
    )
    target.store(reduce(arith.addf, sums), offset)


def _emit_copy(source: GlobalBuffer, target: GlobalBuffer, first: Index, elements: int) -> None:
    step = elements // _QUADS_PER_THREAD
    offsets = [first + thread_id() * QUAD + number * step for number in range(_QUADS_PER_THREAD)]
    for offset, value in [(offset, source.load(offset)) for offset in offsets]:
        target.store(value, offset)


def _add_chain(launcher: Launcher, suffix: str, kernel: _Kernel, dispatches: int) -> None:
    argument = TensorArgument((None, kernel.elements), F32.name, by_quads=True, dynamic=(BATCH,))
    threads = WorkgroupThreads(kernel.threads)
    function = func.FuncOp(f"{kernel.name}_{suffix}", ([argument.type], [argument.type]))
    with ir.InsertionPoint(function.add_entry_block()):
        (value,) = function.arguments
        sizes = {BATCH: tensor.dim(value, index_constant(0))}
        for _ in range(dispatches):
            value = launcher.launch(kernel, kernel.name, threads, [(value, argument)], argument, sizes)
        func.ReturnOp([value])


def _multiply_add_threads(target: GpuTarget) -> int:
    return min(target.max_threads, SATURATING_THREADS)


def _copy_threads(target: GpuTarget) -> int:
    return min(target.max_threads, _COPY_THREADS)
