"""Have results of a program for CPUs lie in memory of their own."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.match.navigation import walk

from .backends.module_backend import module_backend, unsupported_target

_ALLOCA = "stream.resource.alloca"
_EXTERNAL = "!stream.resource<external>"
_AFFINITY = "affinity"


@register_pass("winograd-own-results")
class OwnResults:
    """Have results of a program for CPUs lie in memory of their own.

    IREE 3.13 allocates them in the order of the device's commands, as what lives between two kernels: from
    a pool that takes 64 MiB at a time and gives none back. A caller keeps results for as long as it likes,
    those of many calls together, and nothing but programs can use what it lets go of. On CPUs the device's
    allocator has memory at once, and gives it back to the C library.

        %r, %t = stream.resource.alloca uninitialized : !stream.resource<external>{%n} => !stream.timepoint
        %done = stream.cmd.execute await(%t) => with(%r as %a) {
      becomes
        %r = stream.resource.alloc uninitialized : !stream.resource<external>{%n}
        %t = stream.timepoint.immediate => !stream.timepoint
        %done = stream.cmd.execute await(%t) => with(%r as %a) {
    """

    def run(self, module: ir.Operation) -> None:
        on_host = unsupported_target(module) is None and module_backend(module).uses_host_memory
        results = [each for each in walk(module) if on_host and _allocates_result(each)]
        rewrite_each("result", results, _allocate_at_once)


def _allocates_result(operation: ir.Operation) -> bool:
    return operation.name == _ALLOCA and str(operation.results[0].type) == _EXTERNAL


def _allocate_at_once(alloca: ir.Operation) -> None:
    result, ready = alloca.results
    size, *awaited = alloca.operands
    with alloca.location, ir.InsertionPoint(alloca):
        attributes: dict[str, ir.Attribute] = {"uninitialized": ir.UnitAttr.get()}
        if _AFFINITY in alloca.attributes:
            attributes[_AFFINITY] = alloca.attributes[_AFFINITY]
        own = ir.Operation.create("stream.resource.alloc", [result.type], [size], attributes).result
        if not awaited:
            awaited = [ir.Operation.create("stream.timepoint.immediate", [ready.type]).result]
    result.replace_all_uses_with(own)
    ready.replace_all_uses_with(awaited[0])
    alloca.erase()
