"""Launch no kernel without workgroups on GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, operand_groups, walk
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.problems.executable_target import GPU_FORMATS, binary_formats

_DISPATCH = "hal.command_buffer.dispatch"


@register_pass("winograd-skip-empty")
class SkipEmpty:
    """Launch no kernel without workgroups on GPUs.

    Of images without elements, whose sizes are known only at run time, kernels have no workgroups. On Vulkan
    IREE's runtime looks at their memory before it sees that, and the call fails if there is none; CUDA
    refuses to launch them, and the process can launch nothing more. Launches whose numbers of workgroups are
    known only at run time become conditional; after IREE's phase `hal`, in programs for GPUs.

        hal.command_buffer.dispatch<%cmd> target(%executable)[%conv] workgroups([%x, %y, %c1]) ...
      becomes
        %some = arith.muli %x, %y : index
        %exists = arith.cmpi slt, %c0, %some : index
        scf.if %exists {
          hal.command_buffer.dispatch<%cmd> target(%executable)[%conv] workgroups([%x, %y, %c1]) ...
        }
    """

    def run(self, module: ir.Operation) -> None:
        if not binary_formats(module).isdisjoint(GPU_FORMATS):
            dispatches = [each for each in walk(module) if each.name == _DISPATCH and _unknown(each)]
            rewrite_each("launch", dispatches, _launch_if_any)


def _unknown(dispatch: ir.Operation) -> Sequence[ir.Value]:
    """The numbers of workgroups along dimensions that are known only at run time."""
    _, _, _, (x,), (y,), (z,), *_ = operand_groups(dispatch)
    definitions = {each: defining_operation(each) for each in (x, y, z)}
    return [each for each, by in definitions.items() if by is None or by.name != "arith.constant"]


def _launch_if_any(dispatch: ir.Operation) -> None:
    with ir.InsertionPoint(dispatch), dispatch.location:
        workgroups = product(tuple(map(Index, _unknown(dispatch))))
        when(Index(0).less_than(workgroups), lambda: dispatch.clone())
    dispatch.erase()
