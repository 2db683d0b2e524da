"""Choose how each convolution, and each product of rows and a matrix, is computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import (
    ATTRIBUTE_NAME,
    KEEPS_FILTER_ATTRIBUTE_NAME,
    set_algorithm,
)
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import check_options, same_option
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.infrastructure.remarks import remark_analysis, remark_missed
from iree.winograd.passes.infrastructure.unit import Unit, set_origin
from iree.winograd.pipelines.backends.module_backend import unsupported_target
from iree.winograd.pipelines.backends.schedules import (
    note_filters,
    note_filters_of_ranges,
    schedule_of,
    schedule_ranges_of,
    set_schedule,
    set_schedule_ranges,
)
from iree.winograd.pipelines.problems.executable_target import executable_targets
from iree.winograd.pipelines.selection.options import WinogradOptions

from .chooser import Chooser
from .costly import costly_reason, describe
from .decision import Decision
from .layer import Layer, layers
from .module_space import module_space
from .precision import Precision

if TYPE_CHECKING:
    from .tuning_database import TuningDatabase

PASS_NAME = "winograd-select-algorithm"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class SelectAlgorithm:
    """Annotate the layers to be rewritten with the algorithm and the schedule that compute them.

    Folding a filter freezes the size of its tiles, so this decision comes before any rewrite. A convolution
    gets the output tile and part size, possibly different per dimension, that are predicted to take least
    time on the module's target among those whose predicted error is small, and the schedule of the kernels
    that this is predicted for; output tile 1 is the direct convolution. Where a tuning database holds
    measurements of it, it gets the fastest of these instead. A byte of constant filters is worth the
    time that reading it takes on a CPU: where other processes read, too, it takes as much longer.

    A product of rows and a matrix known in advance, a fully connected layer, gets that of the 1x1 convolution
    that it is. For a few rows its time is that of reading the matrix, which the direct kernel finds packed in
    the order of reading, and fetches ahead; on a GPU many workgroups each read a part of it.

    Where sizes are known only at run time and one schedule loses at some that are likely, there are several
    by ranges of tiles (`schedule_ranges.py`), in `winograd.schedule_ranges`.

    What the kernels don't compute, what no algorithm computes accurately enough, what IREE's own code was
    measured to be the fastest for, or for products is predicted to be no slower for, and what the layer
    patterns exclude, stays as it is, with a remark saying why. An annotation that is there is kept.

        %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : ...) outs(%y : ...)
      becomes
        %r = linalg.conv_2d_nhwc_hwcf {
          winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>},
          winograd.schedule = {kind = "winograd", tile_block = 28, ...}} ins(%x, %w : ...) outs(%y : ...)
    """

    output_tile: int | None = same_option(WinogradOptions, "output_tile")
    allow: tuple[str, ...] = same_option(WinogradOptions, "allow")
    deny: tuple[str, ...] = same_option(WinogradOptions, "deny")
    precision: Precision = same_option(WinogradOptions, "precision")
    layer_precisions: tuple[str, ...] = same_option(WinogradOptions, "layer_precisions")
    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")
    filter_memory_price: float | None = same_option(WinogradOptions, "filter_memory_price")
    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    """None is the target's default."""
    tuning_database: str | None = same_option(WinogradOptions, "tuning_database")
    observe: Callable[[Decision], None] | None = None
    """Is told every decision."""
    keeps_all: bool = True
    """Whether decisions that are observed have all candidates: most aren't looked at otherwise."""
    warn: Callable[[str], None] | None = None
    """Is told, once, of convolutions that are left at several times the cost, why, and what may help."""

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, module: ir.Operation) -> None:
        found = tuple(layers(module))
        if not found or not _is_concerned(module, found):
            return
        space = module_space(module, self.machine, self.threads)
        with self._open_database(module) as database:
            chooser = Chooser(
                space,
                database,
                self.output_tile,
                self.allow,
                self.deny,
                self.max_relative_error,
                keeps_all=self.keeps_all and self.observe is not None,
                precision=self.precision,
                layer_precisions=self.layer_precisions,
                filter_memory_price=self.filter_memory_price,
            )
            rewrite_each(
                attrgetter("kind"),
                found,
                lambda layer: self._select(layer, chooser),
                leave=lambda layer, failure: self._report(layer, chooser.leave(layer, str(failure))),
            )
        if self.warn is not None:
            _warn_of_costly(list(filter(chooser.is_allowed, found)), self.warn)
        if self.machine is not None:
            remark_analysis(module, PASS_NAME, f"times are predicted for the machine in {self.machine}")

    def _select(self, layer: Layer, chooser: Chooser) -> None:
        if ATTRIBUTE_NAME in layer.operation.attributes:
            # The lowering says what is wrong with a schedule that is none.
            with suppress(ValueError):
                if (annotated := schedule_of(layer.operation)) is not None:
                    note_filters(layer.operation, annotated)
                note_filters_of_ranges(layer.operation, schedule_ranges_of(layer.operation))
            return

        def ignore(measurements: str) -> None:
            message = f"{layer}: of {self.tuning_database} ignored {measurements}"
            remark_missed(layer.operation, PASS_NAME, message)

        decision = chooser.decide(layer, ignore)
        self._report(layer, decision)
        chosen = None if decision.chosen is None else decision.chosen.implementation
        if chosen is None or chosen.is_left_to_iree:
            return
        set_algorithm(layer.operation, chosen.algorithm)
        set_origin(layer.operation, Unit(PASS_NAME, layer.kind, layer.number))
        set_schedule(layer.operation, chosen.schedule)
        if decision.ranges:
            set_schedule_ranges(layer.operation, decision.ranges)
        problem = decision.problem
        are_transformed = not chosen.algorithm.is_direct
        if (
            problem is not None
            and chosen.product_type != "f32"
            and chosen.schedule.keeps_operands(problem.exact_type, are_transformed=are_transformed)
        ):
            layer.operation.attributes[KEEPS_FILTER_ATTRIBUTE_NAME] = ir.UnitAttr.get()

    def _report(self, layer: Layer, decision: Decision) -> None:
        if decision.chosen is None or decision.chosen.implementation.is_left_to_iree:
            remark_missed(layer.operation, PASS_NAME, f"{layer} left as it is: {decision.reason}")
        elif decision.stays_single:
            remark_missed(layer.operation, PASS_NAME, f"{layer}: {decision.reason}")
        if self.observe is not None:
            self.observe(decision)

    @contextmanager
    def _open_database(self, module: ir.Operation) -> Iterator[TuningDatabase | None]:
        if self.tuning_database is None:
            yield None
            return
        # It takes SQLite, which not everyone who compiles needs.
        from .tuning_database import TuningDatabase

        def report(message: str) -> None:
            remark_missed(module, PASS_NAME, message)

        try:
            database = TuningDatabase(self.tuning_database, report=report, read_only=True)
        except (OSError, ValueError) as error:
            module.location.emit_error(f"the tuning database can't be read: {error}")
            raise PassError from None
        with database:
            yield database


def _warn_of_costly(found: Collection[Layer], warn: Callable[[str], None]) -> None:
    convolutions = [layer for layer in found if layer.kind == "convolution"]
    left = [each for each in convolutions if ATTRIBUTE_NAME not in each.operation.attributes]
    costly = [reason for layer in left if (reason := costly_reason(layer)) is not None]
    if costly:
        warn(describe(costly, len(convolutions)))


def _is_concerned(module: ir.Operation, found: Collection[Layer]) -> bool:
    """Whether there is something to choose: a target without kernels is an error for convolutions alone."""
    has_convolutions = any(layer.kind != "matmul" for layer in found)
    return has_convolutions or not executable_targets(module) or unsupported_target(module) is None
