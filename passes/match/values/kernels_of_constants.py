"""Which kernels of a program compute constants."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import called_kernels, defining_operation, is_public, walk
from iree.winograd.passes.match.values.constants import is_mutable_global


def kernels_of_constants(program: ir.Operation) -> set[str]:
    """The kernels that are called with nothing that depends on arguments of the program: IREE may evaluate
    them once."""
    varying: dict[ir.Value, bool] = {}
    return {
        kernel
        for dispatch in walk(program)
        if dispatch.name == "flow.dispatch" and not any(_varies(each, varying) for each in dispatch.operands)
        for kernel in called_kernels(dispatch)
    }


def _varies(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether `value` depends on arguments of the program, with what is `known` of others."""
    pending = [value]
    while pending:
        each = pending[-1]
        sources = _sources(each)
        unknown = [source for source in sources or () if source not in known]
        if unknown:
            pending += unknown
            continue
        known[pending.pop()] = sources is None or any(known[source] for source in sources)
    return known[value]


def _sources(value: ir.Value) -> Sequence[ir.Value] | None:
    """What `value` is computed from, or may be; None for an argument of the program, and what changes."""
    operation = defining_operation(value)
    if operation is not None:
        varies = operation.name == "util.global.load" and is_mutable_global(operation)
        return None if varies else list(operation.operands)
    owner = value.owner.owner.operation
    # IREE may find that functions of the program's own, and blocks, are always given the same constant.
    is_argument = is_public(owner) and value.owner == owner.regions[0].blocks[0]
    return None if is_argument else list(owner.operands)
