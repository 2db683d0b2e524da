"""Programs whose times show what a CPU can do, one figure each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from iree.winograd.dialect.bindings import arith, func, ir, tensor, vector
from iree.winograd.passes.build.tensors import index_constant
from iree.winograd.pipelines.cpu.lowering import translation
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_dispatch, emit_executable
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.signature import DispatchSignature, stated_batch
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes

ITERATIONS = 200_000
"""Of the loop of multiply-adds."""
CLOCK_ITERATIONS = 250_000
"""Of the loop of integer operations that wait for each other."""
CLOCK_CYCLES = 4 * CLOCK_ITERATIONS
"""Of that loop: one for each addition and each exclusive or, on all processors that there are kernels for."""
BYTES_READ = 256 << 20
"""About as many a call of a reading program reads, whatever the size of its buffer."""
DISPATCHES = (1, 257)
"""Of a short and a long chain; their difference in time is free of what a call costs."""
WOKEN_DISPATCHES = (1, 4)
"""As `DISPATCHES`, of workgroups that take long enough for other threads to wake up meanwhile."""

_BLOCK_VECTORS = 16
"""Of a block of the buffer that is read, and of one step of the loop over it."""
_READ_SUMS = 8
"""Independent, so that additions don't wait for each other rather than for the memory."""
_WAITING_ITERATIONS = 400_000
"""Of additions that wait for each other, some 0.3 ms: threads of one core don't slow each other down."""


def sums_in_registers(target: CpuTarget) -> int:
    """Independent sums of multiply-adds: more than two units times four cycles each, fewer than registers."""
    return 20 if target.vector_registers == 32 else 12


def multiply_adds(target: CpuTarget) -> int:
    """Floating-point operations of one workgroup of `multiply_add`."""
    return 2 * target.vector_width * sums_in_registers(target) * ITERATIONS


def block_bytes(target: CpuTarget) -> int:
    """Bytes of a row of the argument of the reading functions."""
    return 4 * _block_elements(target)


def passes_over(blocks: int, target: CpuTarget) -> int:
    """How often a call of a reading function reads its argument of `blocks` rows."""
    return max(1, BYTES_READ // block_bytes(target) // blocks)


def build_multiply_add(target: CpuTarget) -> ir.Module:
    """A module with the function `multiply_add` of `build_cpu_programs` only."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _add_multiply_add(module.operation, target)
        return module


def build_cpu_programs(target: CpuTarget, threads: int) -> ir.Module:
    """A module with these functions, `lanes` being the target's vector width.

    multiply_add(W x lanes) -> W x lanes       a loop of multiply-adds in each of W workgroups
    clock(1 x lanes) -> 1 x lanes              a loop of one integer operation after another
    read_alone(B x block) -> 1 x lanes         one workgroup reads all blocks again and again
    read_together(B x block) -> threads x lanes      each of `threads` workgroups reads its share of them
    dispatch_short, dispatch_long(1 x lanes) -> 1 x lanes      chains of tiny dispatches
    alone_short, alone_long(1 x lanes) -> 1 x lanes      chains of dispatches of one slow workgroup
    woken_short, woken_long(threads x lanes) -> threads x lanes      the same of `threads` workgroups
    """
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _add_multiply_add(module.operation, target)
            _add_clock(module.operation, target)
            for name, workgroups in (("alone", 1), ("together", threads)):
                _add_read(module.operation, f"read_{name}", target, workgroups)
            _add_chains(module.operation, "dispatch", target, 1, 1, DISPATCHES)
            for name, workgroups in (("alone", 1), ("woken", threads)):
                _add_chains(module.operation, name, target, workgroups, _WAITING_ITERATIONS, WOKEN_DISPATCHES)
        return module


def _add_multiply_add(module: ir.Operation, target: CpuTarget) -> None:
    lanes = target.vector_width

    def body(function: KernelFunction[Buffer]) -> None:
        source, result = function.buffers
        offset = function.work.workgroup[0] * lanes
        factor = source.load(offset, lanes)
        sums = loop_carried(
            ITERATIONS,
            1,
            [factor] * sums_in_registers(target),
            lambda _, sums: [multiply_add(each, factor, factor, target.fused_multiply_add) for each in sums],
        )
        result.store(reduce(arith.addf, sums), offset)

    rows = _tensor(None, lanes)
    signature = DispatchSignature.of([rows], rows, stated_batch(None))
    _add_kernel(module, "multiply_add_kernel", signature, lambda sizes: (sizes.batch,), body)
    _add_function(module, "multiply_add", signature, "multiply_add_kernel")


def _add_clock(module: ir.Operation, target: CpuTarget) -> None:
    lanes, integer = target.vector_width, ir.IntegerType.get_signless(64)

    def body(function: KernelFunction[Buffer]) -> None:
        source, result = function.buffers
        first = source.load(Index(0), lanes)
        start = arith.fptosi(integer, vector.extract(first, [], [0]))
        # Too large for what processors add while they rename registers.
        mask, increment = (
            arith.constant(integer, value) for value in (6364136223846793005, 1442695040888963407)
        )

        def step(value: ir.Value) -> ir.Value:
            return arith.addi(arith.xori(value, mask), increment)

        (last,) = loop_carried(CLOCK_ITERATIONS, 1, [start], lambda _, values: [step(step(values[0]))])
        result.store(broadcast(arith.sitofp(ir.F32Type.get(), last), lanes), Index(0))

    rows = _tensor(1, lanes)
    signature = DispatchSignature.of([rows], rows)
    _add_kernel(module, "clock_kernel", signature, lambda _: (Index(1),), body)
    _add_function(module, "clock", signature, "clock_kernel")


def _add_read(module: ir.Operation, name: str, target: CpuTarget, workgroups: int) -> None:
    lanes, elements = target.vector_width, _block_elements(target)

    def body(function: KernelFunction[Buffer]) -> None:
        source, result = function.buffers
        (workgroup, _, _), blocks = function.work.workgroup, function.work.sizes.batch
        first = workgroup * blocks // workgroups
        count = (workgroup + 1) * blocks // workgroups - first
        all_blocks = Index(BYTES_READ // block_bytes(target))
        passes = Index(arith.divui(all_blocks.value, blocks.value)).maximum(1)

        def read_block(block: Index, sums: Sequence[ir.Value]) -> list[ir.Value]:
            sums, offset = list(sums), (first + block) * elements
            for number in range(_BLOCK_VECTORS):
                value = source.load(offset + number * lanes, lanes)
                sums[number % _READ_SUMS] = arith.addf(sums[number % _READ_SUMS], value)
            return sums

        sums = loop_carried(
            passes,
            1,
            [splat(0.0, lanes, ir.F32Type.get())] * _READ_SUMS,
            lambda _, sums: loop_carried(count, 1, sums, read_block, "block"),
            "pass",
        )
        result.store(reduce(arith.addf, sums), workgroup * lanes)

    signature = DispatchSignature.of(
        [_tensor(None, elements)], _tensor(workgroups, lanes), stated_batch(None)
    )
    _add_kernel(module, f"{name}_kernel", signature, lambda _: (Index(workgroups),), body)
    _add_function(module, name, signature, f"{name}_kernel")


def _add_chains(
    module: ir.Operation,
    name: str,
    target: CpuTarget,
    workgroups: int,
    iterations: int,
    lengths: tuple[int, int],
) -> None:
    lanes = target.vector_width

    def body(function: KernelFunction[Buffer]) -> None:
        source, result = function.buffers
        offset = function.work.workgroup[0] * lanes
        first, one = source.load(offset, lanes), splat(1.0, lanes, ir.F32Type.get())
        (last,) = loop_carried(iterations, 1, [first], lambda _, sums: [arith.addf(sums[0], one)])
        result.store(last, offset)

    rows = _tensor(workgroups, lanes)
    signature = DispatchSignature.of([rows], rows)
    _add_kernel(module, f"{name}_kernel", signature, lambda _: (Index(workgroups),), body)
    for length_name, length in zip(("short", "long"), lengths, strict=True):
        _add_function(module, f"{name}_{length_name}", signature, f"{name}_kernel", length)


def _add_kernel(
    module: ir.Operation,
    name: str,
    signature: DispatchSignature,
    workgroups: Callable[[Sizes], tuple[Index, ...]],
    body: Callable[[KernelFunction[Buffer]], None],
) -> None:
    emit_executable(module, name, signature, translation(), workgroups, body, signature.bindings())


def _add_function(
    module: ir.Operation, name: str, signature: DispatchSignature, kernel: str, dispatches: int = 1
) -> None:
    """A public function of the signature of a kernel that it launches again and again on its own result."""
    function = func.FuncOp(name, ([each.type for each in signature.operands], [signature.result.type]))
    with ir.InsertionPoint(function.add_entry_block()):
        (value,) = function.arguments
        sizes = [tensor.dim(value, index_constant(0))] if signature.dynamic_sizes else []
        for _ in range(dispatches):
            value = emit_dispatch(kernel, signature, [value], sizes)
        func.ReturnOp([value])


def _block_elements(target: CpuTarget) -> int:
    return _BLOCK_VECTORS * target.vector_width


def _tensor(rows: int | None, columns: int) -> ir.RankedTensorType:
    leading = ir.ShapedType.get_dynamic_size() if rows is None else rows
    return ir.RankedTensorType.get([leading, columns], ir.F32Type.get())
