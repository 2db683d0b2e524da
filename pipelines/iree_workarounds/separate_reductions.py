"""Have reductions be dispatches of their own where IREE's code doesn't wait for them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import RESHAPES, walk
from iree.winograd.passes.match.reductions import generic_maps, is_reduction, row_length
from iree.winograd.passes.rewrite.computed_first import compute_first

from ..backends.module_backend import supported_backend

_SUBGROUP = 64
"""Rows of a multiple of so many elements are reduced by subgroups, in code that waits."""


@register_pass("winograd-separate-reductions")
class SeparateReductions:
    """Have reductions be dispatches of their own where IREE's code doesn't wait for them.

    IREE 3.13 fuses a reduction with what reads each of its elements many times, as in a softmax. Its code for
    Vulkan then has threads of a workgroup read what other threads reduced, from memory that they share, with
    no barrier between. Where both are distributed alike, and subgroups large enough, each reads what its own
    subgroup wrote; not so where images are channels last, so that IREE interchanges the loops of one of them.
    The barrier below is for the compiler: it ends a dispatch.

        %m = linalg.generic {iterator_types = [parallel, reduction, parallel]} ...
        %r = linalg.generic ins(%x, %m) ...
      becomes
        %m = linalg.generic {iterator_types = [parallel, reduction, parallel]} ...
        %read = util.optimization_barrier {winograd.computed_first} %m
        %r = linalg.generic ins(%x, %read) ...

    Rows that subgroups reduce stay as they are. Programs whose convolutions all stay with IREE are rewritten,
    too: what races differs from run to run.
    """

    def run(self, module: ir.Operation) -> None:
        reductions = [each for each in walk(module) if is_reduction(each)]
        backend = supported_backend(module)
        race = backend is not None and backend.iree_code.reductions_race
        rewrite_each("reduction", reductions, lambda each: _separate(each) if race else None)


def _separate(reduction: ir.Operation) -> None:
    length = row_length(reduction)
    if length is not None and length % _SUBGROUP == 0:
        return
    for result in reduction.results:
        if _is_broadcast(result):
            compute_first(result)


def _is_broadcast(value: ir.Value) -> bool:
    """Whether an operation reads elements of `value`, or of what is computed of each of them, many times."""
    for use in value.uses:
        user = use.owner.operation
        if user.name == "linalg.broadcast":
            return True
        if user.name == "linalg.generic":
            indexing_map = generic_maps(user)[use.operand_number]
            # A reduced dimension that was kept, of one element, is read at a constant position.
            read = [each for each in indexing_map.results if isinstance(each, ir.AffineDimExpr)]
            if len(read) < indexing_map.n_dims:
                return True
        elif user.name not in RESHAPES:
            continue
        if any(_is_broadcast(result) for result in user.results):
            return True
    return False
