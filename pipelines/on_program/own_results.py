"""Have memory of a program for CPUs that the device's pool is nothing for come from its allocator."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk

from ..backends.module_backend import supported_backend

POOL_BYTES = 64 << 20
"""What the pool of a device of the host takes at a time, and has room for."""

_ALLOCA = "stream.resource.alloca"
_DEALLOCA = "stream.resource.dealloca"
_EXTERNAL = "!stream.resource<external>"
_AFFINITY = "affinity"


@register_pass("winograd-own-results")
class OwnResults:
    """Have results of a program for CPUs, and what is larger than 64 MiB, lie in memory of their own.

    IREE 3.13 allocates them in the order of the device's commands, as what lives between two kernels: from
    a pool that takes 64 MiB at a time and gives none back. A caller keeps results for as long as it likes,
    those of many calls together, and nothing but programs can use what it lets go of. What the pool has no
    room for IREE asks of the C library in every call, to be zeros: one thread writes them before any kernel
    begins. On CPUs the device's allocator has memory at once, keeps it for later calls if it is told to, or
    else gives it back to the C library.

        %r, %t = stream.resource.alloca uninitialized : !stream.resource<external>{%n} => !stream.timepoint
        %done = stream.cmd.execute await(%t) => with(%r as %a) {
      becomes
        %r = stream.resource.alloc uninitialized : !stream.resource<external>{%n}
        %t = stream.timepoint.immediate => !stream.timepoint
        %done = stream.cmd.execute await(%t) => with(%r as %a) {
    """

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        on_host = backend is not None and backend.uses_host_memory
        own = [each for each in walk(module) if on_host and _is_own(each)]
        rewrite_each("result", own, _allocate_at_once)


def _is_own(operation: ir.Operation) -> bool:
    """Whether it allocates a result, or more than the pool has."""
    if operation.name != _ALLOCA:
        return False
    size = defining_operation(operation.operands[0])
    is_large = (
        size is not None
        and size.name == "arith.constant"
        and ir.IntegerAttr(size.attributes["value"]).value > POOL_BYTES
    )
    return is_large or str(operation.results[0].type) == _EXTERNAL


def _allocate_at_once(alloca: ir.Operation) -> None:
    result, ready = alloca.results
    size, *awaited = alloca.operands
    with alloca.location, ir.InsertionPoint(alloca):
        attributes: dict[str, ir.Attribute] = {"uninitialized": ir.UnitAttr.get()}
        if _AFFINITY in alloca.attributes:
            attributes[_AFFINITY] = alloca.attributes[_AFFINITY]
        own = ir.Operation.create("stream.resource.alloc", [result.type], [size], attributes).result
    for deallocating in {use.owner.operation for use in result.uses if use.owner.operation.name == _DEALLOCA}:
        _free_with_last_use(deallocating)
    result.replace_all_uses_with(own)
    _needs_no_time(alloca, ready, awaited)


def _free_with_last_use(deallocating: ir.Operation) -> None:
    """Removes it: memory that isn't the pool's is freed when nothing refers to it, commands included."""
    _resource, _size, *awaited = deallocating.operands
    _needs_no_time(deallocating, deallocating.results[0], awaited)


def _needs_no_time(operation: ir.Operation, done: ir.Value, awaited: Sequence[ir.Value]) -> None:
    """Removes an operation, which is done when what it awaits is, if that is anything."""
    with operation.location, ir.InsertionPoint(operation):
        now = awaited or [ir.Operation.create("stream.timepoint.immediate", [done.type]).result]
    done.replace_all_uses_with(now[0])
    operation.erase()
