"""Have tensors of sizes known only at run time lie where others lay, in programs for CPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend

_ALLOCA = "stream.resource.alloca"
_DEALLOCA = "stream.resource.dealloca"
_EXECUTE = "stream.cmd.execute"
_GIVEN = ("stream.cmd.dispatch", "stream.cmd.fill")
"""Commands that may use such tensors: the counts of kernels that wait for each other are filled, too."""
_RESOURCE = "!stream.resource<"
_SUM = "arith.addi"
_WORDS = ("arith.index_castui", "arith.shrui", "arith.trunci")
"""What makes 32-bit operands of kernels of an offset."""
_NOMINAL_SIZE = 256
"""Of each dimension that is known only at run time: what is larger at one size is so at most others, too."""


@register_pass("winograd-reuse-memory")
class ReuseMemory:
    """Have tensors of sizes known only at run time lie where others lay, in programs for CPUs.

    IREE 3.13 lets tensors that aren't needed at the same time share memory if their sizes are known at
    compile time, or are the same value. Of other sizes each has memory of its own: a program for all sizes
    takes half as much again as one for a single size, and its kernels write to what is in no cache. Here
    tensors that no commands use at the same time share the memory of the largest, whichever that is when the
    program is called. Which ones do is chosen as if all open sizes of arguments were alike. An offset that is
    used for anything but kernels of the same commands, and what fills memory there, keeps all of them where
    they are. Tensors of kernels that wait for each other share memory, too: those that are told sizes wait
    for all kernels before.

        %1 = arith.addi %large, %c64
        %2 = arith.addi %1, %middle
        %3 = arith.addi %2, %small
        %r, %t = stream.resource.alloca uninitialized : !stream.resource<transient>{%3} => !stream.timepoint
        stream.cmd.execute await(%t) => with(%r as %a: !stream.resource<transient>{%3}) {
          stream.cmd.dispatch @first(%1) { wo %a }
          stream.cmd.dispatch @second(%2) { wo %a }
        }
      becomes
        %1 = arith.addi %large, %c64
        %size = arith.maxui %middle, %small
        %3 = arith.addi %1, %size
        %r, %t = stream.resource.alloca uninitialized : !stream.resource<transient>{%3} => !stream.timepoint
        stream.cmd.execute await(%t) => with(%r as %a: !stream.resource<transient>{%3}) {
          stream.cmd.dispatch @first(%1) { wo %a }
          stream.cmd.dispatch @second(%1) { wo %a }
        }
    """

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        if backend is None or not backend.uses_host_memory:
            return
        found = [each for each in walk(module) if each.name == _ALLOCA and _is_open(each)]
        functions = dict.fromkeys(each.parent.operation for each in found)
        expressions = {function: SizeExpressions.of(function) for function in functions}
        rewrite_each("memory", found, lambda each: _reuse(each, expressions[each.parent.operation]))


@dataclass(frozen=True)
class _Part:
    """A part of memory that one tensor has, or several of one size in turns."""

    offset: ir.Value
    size: ir.Value
    end: ir.Operation
    """The sum of both: where the next part begins."""

    @property
    def readers(self) -> Iterator[ir.OpOperand]:
        """The uses of its offset, but for that."""
        return (use for use in self.offset.uses if use.owner.operation != self.end)


@dataclass(frozen=True)
class _UsedPart:
    part: _Part
    nominal: float
    """Its size for arguments of `_NOMINAL_SIZE`."""
    first: int
    """The number of the first command that uses it."""
    last: int

    def overlaps(self, other: _UsedPart) -> bool:
        """Whether commands use both at a time, or others between these."""
        return self.first <= other.last and other.first <= self.last


def _is_open(alloca: ir.Operation) -> bool:
    total = defining_operation(alloca.operands[0])
    return total is not None and total.name == _SUM


def _reuse(alloca: ir.Operation, sizes: SizeExpressions) -> None:
    commands = _Commands.of(alloca)
    if commands is None:
        return
    total = alloca.operands[0]
    bottom, parts = _parts(total)
    used = [each for part in parts if (each := _used(part, commands, sizes)) is not None]
    shared = _share(used)
    if len(used) < len(parts) or len(shared) == len(parts):
        return
    readers = [[use for each in group for use in each.part.readers] for group in shared]
    with alloca.location, ir.InsertionPoint(alloca):
        offset = bottom
        for group, uses in zip(shared, readers, strict=True):
            for use in uses:
                use.owner.operation.operands[use.operand_number] = offset
            offset = arith.addi(offset, reduce(arith.maxui, [each.part.size for each in group]))
    total.replace_all_uses_with(offset)
    erase_if_unused([each.part.end for each in reversed(used)])


@dataclass(frozen=True)
class _Commands:
    """The only commands that use the memory that `alloca` allocates."""

    alloca: ir.Operation
    execute: ir.Operation

    @staticmethod
    def of(alloca: ir.Operation) -> _Commands | None:
        """None where several lists of commands use it, or what its size is stands for something else, too."""
        users = {use.owner.operation for use in alloca.results[0].uses}
        lists = [each for each in users if each.name == _EXECUTE and each.block == alloca.block]
        if len(lists) != 1 or any(each.name != _DEALLOCA for each in users if each not in lists):
            return None
        found = _Commands(alloca, lists[0])
        sized = {use.owner.operation for use in alloca.operands[0].uses} - {alloca, *users}
        return found if all(map(found._is_given, sized)) else None

    def number(self, operation: ir.Operation) -> int | None:
        """Of the command that uses this memory, or of those done at one time that it is among; else None."""
        return self._place(operation) if self._is_given(operation) else None

    def _is_given(self, operation: ir.Operation) -> bool:
        # Resources are arguments of the commands' block, in order.
        resources = [each for each in self.execute.operands if str(each.type).startswith(_RESOURCE)]
        memory = self._block.arguments[resources.index(self.alloca.results[0])]
        return operation.name in _GIVEN and memory in list(operation.operands)

    @property
    def _block(self) -> ir.Block:
        return self.execute.regions[0].blocks[0]

    def _place(self, operation: ir.Operation) -> int:
        while operation.block != self._block:
            operation = operation.parent.operation
        return [view.operation for view in self._block.operations].index(operation)


def _parts(total: ir.Value) -> tuple[ir.Value, list[_Part]]:
    """Where the first part of memory begins that may be moved, and all of them.

    What lies before is of sizes known at compile time, and what lies at an offset that kernels have as a
    number, or that may be a size as well: that of the first part.
    """
    parts: list[_Part] = []
    end = total.owner.operation
    while True:
        offset, size = end.operands
        former, added = defining_operation(offset), defining_operation(size)
        is_number = added is not None and added.name == "arith.constant"
        if former is None or former.name != _SUM or is_number:
            return end.results[0], parts[::-1]
        parts.append(_Part(offset, size, end))
        end = former


def _used(part: _Part, commands: _Commands, sizes: SizeExpressions) -> _UsedPart | None:
    """A part, with when it is used; None where its offset is used for anything but to tell kernels of it."""
    known = sizes.numbers.get(part.size)
    nominal = None if known is None else sizes.algebra.value(known, lambda *_: _NOMINAL_SIZE)
    readers = [use.owner.operation for use in part.readers]
    numbers = [commands.number(each) for each in _told(readers)]
    found = [each for each in numbers if each is not None]
    if nominal is None or not found or len(found) < len(numbers):
        return None
    # What its offset is replaced by is computed where memory is allocated.
    alloca = commands.alloca
    if any(each.block == alloca.block and each.is_before_in_block(alloca) for each in readers):
        return None
    return _UsedPart(part, nominal, min(found), max(found))


def _told(readers: Iterable[ir.Operation]) -> Iterator[ir.Operation]:
    """The operations that an offset, or a word of it, ends up in."""
    for reader in readers:
        if reader.name in _WORDS:
            yield from _told(use.owner.operation for use in reader.results[0].uses)
        else:
            yield reader


def _share(parts: Sequence[_UsedPart]) -> list[list[_UsedPart]]:
    """Those that lie in the same memory, the largest of each first."""
    groups: list[list[_UsedPart]] = []
    for each in sorted(parts, key=lambda part: -part.nominal):
        free = [group for group in groups if not any(map(each.overlaps, group))]
        if free:
            free[-1].append(each)
        else:
            groups.append([each])
    return groups
