"""Have memory of a program for CPUs that the device's pool is nothing for come from its allocator."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir, scf
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

    Of what lives between kernels of images of any size a call knows whether the pool has room for it. If not,
    it takes the next power of two: the allocator keeps a block of each size that it is asked for, and no page
    of memory is taken that nothing writes to.

        %large = arith.cmpi ugt, %n, %pool
        %r, %t = scf.if %large -> (!stream.resource<transient>, !stream.timepoint) {
          ... stream.resource.alloc uninitialized : !stream.resource<transient>{%power}
        } else {
          ... stream.resource.alloca uninitialized : !stream.resource<transient>{%n} => !stream.timepoint
        }
    """

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        on_host = backend is not None and backend.uses_host_memory
        allocations = [each for each in walk(module) if on_host and each.name == _ALLOCA]
        rewrite_each("allocation", allocations, _allocate)


def _allocate(alloca: ir.Operation) -> None:
    """Take memory from where it is best taken from: the pool, or the device's allocator."""
    size = _known_size(alloca)
    if str(alloca.results[0].type) == _EXTERNAL or (size is not None and size > POOL_BYTES):
        _allocate_at_once(alloca)
    elif size is None:
        _allocate_by_size(alloca)


def _known_size(alloca: ir.Operation) -> int | None:
    size = defining_operation(alloca.operands[0])
    if size is None or size.name != "arith.constant":
        return None
    return int(ir.IntegerAttr(size.attributes["value"]).value)


def _allocate_at_once(alloca: ir.Operation) -> None:
    result, ready = alloca.results
    size, *awaited = alloca.operands
    with alloca.location, ir.InsertionPoint(alloca):
        own = _allocated(alloca, size)
    for deallocating in {use.owner.operation for use in result.uses if use.owner.operation.name == _DEALLOCA}:
        _free_with_last_use(deallocating)
    result.replace_all_uses_with(own)
    _needs_no_time(alloca, ready, awaited)


def _allocated(alloca: ir.Operation, size: ir.Value) -> ir.Value:
    """Builds memory of so many bytes from the device's allocator in place of an allocation from the pool."""
    attributes: dict[str, ir.Attribute] = {"uninitialized": ir.UnitAttr.get()}
    if _AFFINITY in alloca.attributes:
        attributes[_AFFINITY] = alloca.attributes[_AFFINITY]
    type_ = alloca.results[0].type
    return ir.Operation.create("stream.resource.alloc", [type_], [size], attributes).result


def _allocate_by_size(alloca: ir.Operation) -> None:
    """Take more than the pool has from the allocator, in a call whose sizes need as much."""
    result, ready = alloca.results
    size, *awaited = alloca.operands
    freeing = {use.owner.operation for use in result.uses if use.owner.operation.name == _DEALLOCA}
    with alloca.location, ir.InsertionPoint(alloca):
        pool = arith.constant(size.type, POOL_BYTES)
        is_large = arith.cmpi(arith.CmpIPredicate.ugt, size, pool)
        choice = scf.IfOp(is_large, [result.type, ready.type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            own = _allocated(alloca, _power_of_two_from(size))
            scf.yield_([own, _first_of(awaited, ready.type)])
        with ir.InsertionPoint(choice.else_block):
            end = scf.YieldOp([result, ready]).operation
    for of_pool, chosen in zip((result, ready), choice.results, strict=True):
        of_pool.replace_all_uses_except(chosen, end)
    alloca.move_before(end)
    for deallocating in freeing:
        _free_by_size(deallocating, is_large)


def _free_by_size(deallocating: ir.Operation, is_large: ir.Value) -> None:
    _resource, _size, *awaited = deallocating.operands
    done = deallocating.results[0]
    with deallocating.location, ir.InsertionPoint(deallocating):
        choice = scf.IfOp(is_large, [done.type], has_else=True)
        with ir.InsertionPoint(choice.then_block):
            scf.yield_([_first_of(awaited, done.type)])
        with ir.InsertionPoint(choice.else_block):
            end = scf.YieldOp([done]).operation
    done.replace_all_uses_except(choice.results[0], end)
    deallocating.move_before(end)


def _power_of_two_from(size: ir.Value) -> ir.Value:
    """Builds the least power of two that isn't less than a size of more than one byte."""
    integer = ir.IntegerType.get_signless(64)
    one, bits = arith.constant(integer, 1), arith.constant(integer, 64)
    last = arith.subi(arith.index_castui(integer, size), one)
    # The module of `math` takes milliseconds to import.
    zeros = ir.Operation.create("math.ctlz", [integer], [last]).result
    return arith.index_castui(size.type, arith.shli(one, arith.subi(bits, zeros)))


def _free_with_last_use(deallocating: ir.Operation) -> None:
    """Removes it: memory that isn't the pool's is freed when nothing refers to it, commands included."""
    _resource, _size, *awaited = deallocating.operands
    _needs_no_time(deallocating, deallocating.results[0], awaited)


def _needs_no_time(operation: ir.Operation, done: ir.Value, awaited: Sequence[ir.Value]) -> None:
    """Removes an operation, which is done when what it awaits is, if that is anything."""
    with operation.location, ir.InsertionPoint(operation):
        done.replace_all_uses_with(_first_of(awaited, done.type))
    operation.erase()


def _first_of(awaited: Sequence[ir.Value], type_: ir.Type) -> ir.Value:
    """What an operation awaits, if that is anything; else builds that nothing is."""
    return awaited[0] if awaited else ir.Operation.create("stream.timepoint.immediate", [type_]).result
