"""Take out the barriers that kept values in dispatches of their own, once dispatches are formed."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.rewrite.computed_first import BARRIER, COMPUTED_FIRST_ATTRIBUTE_NAME


@register_pass("winograd-end-computed-first")
class EndComputedFirst:
    """Take out the barriers that kept values in dispatches of their own, once dispatches are formed.

    `winograd-compute-scales-first` and `winograd-separate-reductions` put them there for IREE's fusion, which
    ends with its phase `flow`. In later phases a barrier would end a submission to the device, and keep the
    images on both sides of it alive at once. Barriers of the program's own stay.

        %s = flow.dispatch @reduce(%x)
        %read = util.optimization_barrier {winograd.computed_first} %s
        %r = flow.dispatch @scale(%x, %read)
      becomes
        %s = flow.dispatch @reduce(%x)
        %r = flow.dispatch @scale(%x, %s)
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("barrier", [each for each in walk(module) if is_computed_first(each)], _take_out)


def is_computed_first(operation: ir.Operation) -> bool:
    """Whether an operation is a barrier of ours."""
    return operation.name == BARRIER and COMPUTED_FIRST_ATTRIBUTE_NAME in operation.attributes


def _take_out(barrier: ir.Operation) -> None:
    barrier.results[0].replace_all_uses_with(barrier.operands[0])
    barrier.erase()
