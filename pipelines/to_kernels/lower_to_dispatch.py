"""Lower groups of winograd ops to dispatches of this project's kernels."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import FilterGradientOp, OutputTransformOp
from iree.winograd.passes.infrastructure.containment import RewriteFailure, rewrite_each
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.infrastructure.remarks import remark_missed
from iree.winograd.passes.infrastructure.unit import Unit, origin_of, set_origin
from iree.winograd.passes.match.navigation import LAYOUT_CAST, defining_operation, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.pipelines.backends.backend import Backend, Lowering
from iree.winograd.pipelines.backends.module_backend import module_backend
from iree.winograd.pipelines.backends.schedules import schedule_of, schedule_ranges_of
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.schedule_range import joined
from iree.winograd.pipelines.problems.weight_gradient_group import (
    WeightGradientGroup,
    match_weight_gradient_group,
)


@register_pass("winograd-lower-to-dispatch")
class LowerToDispatch:
    """Lower groups of winograd ops to dispatches of this project's kernels.

    A group is an `output_transform`, the `linalg.batch_matmul` it reads, that one's `input_transform` and
    filters. It becomes dispatches of kernels that are generated for the module's target, and executables that
    hold them: one for a CPU, as shown, up to three for a GPU. Filters are packed into the order in which the
    kernel reads them: constants here, others by a dispatch.

        %v = "winograd.input_transform"(%x) : (tensor<1x14x14x32xf32>) -> tensor<36x9x32xf32>
        %m = linalg.batch_matmul ins(%v, %u : tensor<36x9x32xf32>, tensor<36x32x32xf32>) outs(%zeros : ...)
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
      becomes
        %r = flow.dispatch @kernel::@kernel(%x, %packed) :
               (tensor<1x14x14x32xf32>, tensor<1x36x32x32xf32>) -> tensor<1x12x12x32xf32>

    Where a product has several schedules, for ranges of tiles, the dispatches of a GPU's kernels all write
    one result, of which those have workgroups whose range a call's images are in. Those of a CPU are one,
    whose workgroups run the kernel of that range. Where these can't be emitted, the product's own schedule is
    for all sizes.

    A CPU's kernel reads an input that is a slice of a tensor's channels from that tensor, and writes an
    output that is only inserted into one in place: then the group is replaced together with the insertion.
    A GPU's kernel does so with one that is a phase of a tensor's rows and columns.

    The group of a weight gradient ends with a `filter_gradient`, and its product sums over tiles. It becomes
    three dispatches on a CPU, of both transforms and of the product, on a GPU up to two more.
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, OutputTransformOp)
        gradients = transforms(module, FilterGradientOp)
        if not outputs and not gradients:
            return
        backend = _backend(module)
        lowering = backend.lowering(module)
        rewrite_each(
            "output transform",
            outputs,
            lambda output_transform: _lower(output_transform, backend, lowering),
            leaves_out_origin=True,
        )
        rewrite_each(
            "filter gradient",
            gradients,
            lambda filter_gradient: _lower_weight_gradient(filter_gradient, lowering),
            leaves_out_origin=True,
        )


def _backend(module: ir.Operation) -> Backend:
    try:
        return module_backend(module)
    except ValueError as reason:
        module.location.emit_error(f"winograd ops can't be lowered: {reason}")
        raise PassError from None


def _lower(output_transform: OutputTransformOp, backend: Backend, lowering: Lowering) -> None:
    group = match_group(output_transform)
    if isinstance(group, NoMatch):
        raise ValueError(f"winograd.output_transform can't be lowered: {group}")
    _replace(backend.insertion(group) or output_transform.operation, group, lowering)


def _lower_weight_gradient(filter_gradient: FilterGradientOp, lowering: Lowering) -> None:
    group = match_weight_gradient_group(filter_gradient)
    if isinstance(group, NoMatch):
        raise ValueError(f"winograd.filter_gradient can't be lowered: {group}")
    _replace(filter_gradient.operation, group, lowering)


def _replace(
    lowered: ir.Operation, group: ConvolutionGroup | WeightGradientGroup, lowering: Lowering
) -> None:
    """Replace the last operation of a group by the dispatches that compute it."""
    schedule = schedule_of(group.product)
    if schedule is None:
        raise ValueError("its linalg.batch_matmul has no winograd.schedule")
    origin = origin_of(group.product)
    with group.product.location, ir.InsertionPoint(lowered):
        result = _lowered(group, schedule, lowering)
        (type_,) = (each.type for each in lowered.results)
        read = result if result.type == type_ else _cast(result, type_)
    if origin is not None:
        _set_origin_of_dispatches(result, origin)
    lowered.results[0].replace_all_uses_with(read)
    erase_if_unused([lowered])


def _cast(stored: ir.Value, type_: ir.Type) -> ir.Value:
    """Build what stands for a result in a layout of the kernel that reads it, until there is that."""
    return ir.Operation.create(LAYOUT_CAST, [type_], [stored]).results[0]


def _lowered(
    group: ConvolutionGroup | WeightGradientGroup, schedule: Schedule, lowering: Lowering
) -> ir.Value:
    """By `schedule`, or by those of several ranges of sizes, which it stands in for where they misfit.

    Ranges whose kernels can't be emitted are a failure of their own: it costs them, not the convolution.
    """
    ranges = schedule_ranges_of(group.product)
    if not ranges or isinstance(group, WeightGradientGroup):
        return lowering.lower(group, schedule)
    fitting = joined(
        [
            each
            if lowering.range_misfit(group, each) is None
            else replace(each, schedule=schedule, times=1.0, algorithm=None)
            for each in ranges
        ]
    )
    results: list[ir.Value] = []
    if len(fitting) > 1:
        rewrite_each(
            "ranged kernel",
            [group.product],
            lambda _: results.append(lowering.lower_ranges(group, fitting)),
            operation_of=lambda product: product,
            leave=_remark_single,
        )
    return results[0] if results else lowering.lower(group, schedule)


def _remark_single(product: ir.Operation, failure: RewriteFailure) -> None:
    remark_missed(
        product, "winograd-lower-to-dispatch", f"one kernel computes images of all sizes: {failure}"
    )


def _set_origin_of_dispatches(result: ir.Value, origin: Unit) -> None:
    """Note `origin` on the dispatch that gives `result`, and on those of the same group that it reads."""
    dispatch = defining_operation(result)
    if dispatch is None or dispatch.name != "flow.dispatch" or origin_of(dispatch) is not None:
        return
    set_origin(dispatch, origin)
    for operand in dispatch.operands:
        _set_origin_of_dispatches(operand, origin)
