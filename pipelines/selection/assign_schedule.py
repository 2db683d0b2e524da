"""Give products without a schedule the one that needs no measurement."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import FilterGradientOp, OutputTransformOp
from iree.winograd.passes.infrastructure.algorithm import SCHEDULE_ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.pipelines.backends.schedules import set_schedule
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group
from iree.winograd.pipelines.problems.weight_gradient_group import (
    WeightGradientGroup,
    match_weight_gradient_group,
)
from iree.winograd.pipelines.selection.options import WinogradOptions

from .module_space import module_space
from .prediction import assigned_schedule


@register_pass("winograd-assign-schedule")
@dataclass(frozen=True)
class AssignSchedule:
    """Give products without a schedule the one that needs no measurement.

    `winograd-select-algorithm` decides on algorithm and schedule together. Layers that came with an algorithm
    of the user's get their schedule here: the fastest that is accurate enough, as predicted for the module's
    target, the machine and the number of threads. A schedule that is there is kept.

        %m = linalg.batch_matmul ins(%v, %u : ...) outs(%zeros : ...) -> tensor<36x9x32xf32>
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
      becomes
        %m = linalg.batch_matmul {winograd.schedule = {kind = "winograd", register_tiles = 9, ...}}
          ins(%v, %u : ...) outs(%zeros : ...) -> tensor<36x9x32xf32>
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
    """

    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")
    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    """None is the target's default."""

    def run(self, module: ir.Operation) -> None:
        groups = [
            *map(match_group, transforms(module, OutputTransformOp)),
            *map(match_weight_gradient_group, transforms(module, FilterGradientOp)),
        ]
        # What is no group, the lowering reports.
        unscheduled = [each for each in groups if not isinstance(each, NoMatch) and not _is_scheduled(each)]
        if not unscheduled:
            return
        space = module_space(module, self.machine, self.threads)
        rewrite_each(
            "product",
            unscheduled,
            lambda group: self._assign(group, space),
            operation_of=attrgetter("product"),
            leaves_out_origin=True,
        )

    def _assign(self, group: ConvolutionGroup | WeightGradientGroup, space: SearchSpace) -> None:
        set_schedule(group.product, assigned_schedule(group.shape, space, self.max_relative_error))


def _is_scheduled(group: ConvolutionGroup | WeightGradientGroup) -> bool:
    return SCHEDULE_ATTRIBUTE_NAME in group.product.attributes
