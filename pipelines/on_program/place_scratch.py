"""Have scratch memory of kernels lie in the memory of a program, in programs for one thread on CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import (
    KERNEL,
    called_kernels,
    kernel_functions,
    operand_groups,
    operations_of,
    symbol_name,
    walk,
)
from iree.winograd.passes.match.values.kernels_of_constants import kernels_of_constants

from ..backends.module_backend import supported_backend
from ..emission.control_flow import loops
from ..emission.dispatch_operations import (
    UNTIED,
    binding_subspan,
    dispatch_kernel,
    operands_of_results,
    replace_dispatch,
)
from ..emission.grid import copied_grid, export_of
from ..emission.index import Index
from ..problems.cache_line import CACHE_LINE_BYTES
from ..selection.options import WinogradOptions

LEAST_BYTES = 16 << 10
"""Of a kernel: to set fewer to zero takes less than a microsecond."""


@register_pass("winograd-place-scratch")
@dataclass(frozen=True)
class PlaceScratch:
    """Have scratch memory of kernels lie in the memory of a program, in programs for one thread on CPUs.

    On the calling thread IREE's runtime has the scratch memory of each dispatch from the C library, set to
    zero: some hundred KiB for a small layer, which takes a tenth of its time and what is in the caches. Here
    it is one more result, that nothing reads: memory between a program's other tensors, which is kept. There
    is one for all workgroups, so the kernel becomes a single workgroup, with a loop over them: it is right on
    several workers, too.

        stream.executable.export public @k workgroups(%n) { stream.return %n, %c1, %c1 }
        func.func @k(%x: !stream.binding, %n: index, %y: !stream.binding) {
          %w = stream.dispatch.workgroup.id[0]
          %m = memref.alloc() : memref<131136xi8, #iree_codegen.workgroup_local>
          ...
        %y = flow.dispatch @k::@k[%n](%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
      becomes
        stream.executable.export public @k workgroups(%n) { stream.return %c1, %c1, %c1 }
        func.func @k(%x: !stream.binding, %n: index, %y: !stream.binding, %scratch: !stream.binding) {
          %s = stream.binding.subspan %scratch[%c0] : !stream.binding -> memref<131136xi8>
          scf.for %w = %c0 to %n step %c1 {
            ...
        %y:2 = flow.dispatch @k::@k[%n](%x, %n)
          : (tensor<?xf32>{%n}, index) -> (tensor<?xf32>{%n}, tensor<131136xi8>)

    Kernels with less than 16 KiB of it stay as they are, as do those that IREE may evaluate once, since all
    that they read comes of constants.
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        if self.threads > 1 or backend is None or not backend.uses_host_memory:
            return
        operations = list(walk(module))
        calls: dict[str, list[ir.Operation]] = {}
        for each in operations:
            if each.name == "flow.dispatch":
                for kernel in called_kernels(each):
                    calls.setdefault(kernel, []).append(each)
        evaluated = kernels_of_constants(module)
        kernels = [
            _Kernel(each, tuple(_scratch(each)), calls.get(symbol_name(each), []))
            for each in operations
            if each.name == KERNEL and symbol_name(each) not in evaluated
        ]
        rewrite_each(
            "kernel",
            [kernel for kernel in kernels if kernel.is_to_change],
            _place,
            operation_of=lambda kernel: kernel.executable,
        )


@dataclass(frozen=True)
class _Kernel:
    executable: ir.Operation
    scratch: tuple[ir.Operation, ...]
    """Its allocations of bytes that a workgroup has for its own."""
    calls: Sequence[ir.Operation]

    @property
    def is_to_change(self) -> bool:
        return self.bytes >= LEAST_BYTES and all(len(called_kernels(call)) == 1 for call in self.calls)

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Bytes of each allocation, as multiples of a cache line."""
        bytes_of = (ir.MemRefType(each.results[0].type).shape[0] for each in self.scratch)
        return [-(-each // CACHE_LINE_BYTES) * CACHE_LINE_BYTES for each in bytes_of]

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


def _scratch(executable: ir.Operation) -> Iterator[ir.Operation]:
    space = ir.Attribute.parse("#iree_codegen.workgroup_local")
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "memref.alloc":
            type_ = ir.MemRefType(operation.results[0].type)
            if type_.memory_space == space and type_.has_static_shape and type_.rank == 1:
                found.append(operation)
        return ir.WalkResult.ADVANCE

    for function in kernel_functions(executable):
        function.walk(visit, ir.WalkOrder.PRE_ORDER)
    return iter(found)


def _place(kernel: _Kernel) -> None:
    (function,) = kernel_functions(kernel.executable)
    block = function.regions[0].blocks[0]
    binding = ir.Type.parse("!stream.binding")
    with function.location:
        memory = block.add_argument(binding, function.location)
        types = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        with ir.InsertionPoint.at_block_begin(block):
            extents = copied_grid(kernel.executable, block)
            _view(kernel, memory)
        _loop_over(operations_of(function), extents)
    _have_one_workgroup(export_of(kernel.executable))
    for call in kernel.calls:
        _give_scratch(call, kernel.bytes)


def _view(kernel: _Kernel, memory: ir.Value) -> None:
    """Emits parts of `memory` in place of the allocations."""
    byte = ir.IntegerType.get_signless(8)
    whole = binding_subspan(ir.MemRefType.get([kernel.bytes], byte), memory, Index(0).value, [])
    offsets = accumulate(kernel.sizes, initial=0)
    for allocation, offset in zip(kernel.scratch, offsets, strict=False):
        (cast,) = (use.owner.operation for use in allocation.results[0].uses)
        part = memref.view(cast.results[0].type, whole, Index(offset).value, [])
        cast.results[0].replace_all_uses_with(part)
        cast.erase()
        allocation.erase()


def _loop_over(body: Sequence[ir.Operation], extents: Sequence[Index]) -> None:
    """Have what follows the numbers of a workgroup be done for one workgroup after the other."""
    numbers = [each for each in body if each.name == "stream.dispatch.workgroup.id"]
    first = body.index(numbers[0])
    with ir.InsertionPoint(numbers[0]), loops(extents, "workgroup") as workgroup:
        inside = ir.InsertionPoint.current.block
        for number in numbers:
            dimension = ir.IntegerAttr(number.attributes["dimension"]).value
            number.results[0].replace_all_uses_with(workgroup[dimension].value)
    if inside != numbers[0].block:
        *_, end = inside.operations
        for each in body[first:-1]:
            if each not in numbers:
                each.move_before(end.operation)
    for number in numbers:
        number.erase()


def _have_one_workgroup(export: ir.Operation) -> None:
    *_, returned = operations_of(export)
    with returned.location, ir.InsertionPoint(returned):
        one = arith.constant(ir.IndexType.get(), 1)
    for place in range(len(returned.operands)):
        returned.operands[place] = one


def _give_scratch(call: ir.Operation, size: int) -> None:
    """Replace a dispatch by one that has so many bytes of memory beside its results."""
    scratch = ir.RankedTensorType.get([size], ir.IntegerType.get_signless(8))
    with call.location, ir.InsertionPoint(call):
        workload, *arguments_and_sizes = operand_groups(call)
        changed = dispatch_kernel(
            [*(result.type for result in call.results), scratch],
            workload,
            call.attributes["entry_points"],
            *arguments_and_sizes,
            tied_operands=(*operands_of_results(call), UNTIED),
        )
    replace_dispatch(call, changed)
