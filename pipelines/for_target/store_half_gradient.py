"""Have kernels of weight gradients read images, and write filters, of half precision that are so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, only_user, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.conversions import is_narrowing, rounding_type
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.half_image import half_image, moved, read_by_transform
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.weight_gradient_group import (
    WeightGradientGroup,
    match_weight_gradient_group,
)

from ..selection.module_space import module_space


@register_pass("winograd-store-half-gradient")
class StoreHalfGradient:
    """Have kernels of weight gradients read images, and write filters, of half precision that are so.

    `winograd-widen-half` has all numbers in f32. An image, or the gradients of outputs, that were widened for
    a weight gradient, and maybe moved, are read as they are if the kernels take them so by the schedule that
    they have; what they multiply in half precision they get so. A filter that is rounded to half precision
    is written so. Products and sums are the same.

        %w = linalg.generic ins(%x : tensor<2x8x8x32xf16>) { arith.extf }
        %d = linalg.generic ins(%y : tensor<2x8x8x64xf16>) { arith.extf }
        %v = "winograd.input_transform"(%w) : (tensor<2x8x8x32xf32>) -> tensor<1x128x288xf32>
        %z = "winograd.gradient_transform"(%d) : (tensor<2x8x8x64xf32>) -> tensor<1x128x64xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %z : ...)
        %g = "winograd.filter_gradient"(%m) : (tensor<1x288x64xf32>) -> tensor<3x3x32x64xf32>
        %h = linalg.generic ins(%g : tensor<3x3x32x64xf32>) { arith.truncf }
      becomes
        %v = "winograd.input_transform"(%x) : (tensor<2x8x8x32xf16>) -> tensor<1x128x288xf32>
        %z = "winograd.gradient_transform"(%y) : (tensor<2x8x8x64xf16>) -> tensor<1x128x64xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %z : ...)
        %h = "winograd.filter_gradient"(%m) : (tensor<1x288x64xf32>) -> tensor<3x3x32x64xf16>
    """

    def run(self, module: ir.Operation) -> None:
        gradients = transforms(module, ops.FilterGradientOp)
        if not gradients:
            return
        space = module_space(module, machine=None, threads=1)
        rewrite_each("filter gradient", gradients, lambda gradient: _store(gradient, space))


@dataclass(frozen=True)
class _Operand:
    """A tensor of half precision that an operand of the gradient is, widened, and what moves it then.

    Without a `source` it is the operand itself that is rounded, to what it is multiplied as.
    """

    operand: ir.Value
    source: ir.Value | None
    moves: Sequence[ir.Operation]
    type: ir.Type

    @staticmethod
    def of(operand: ir.Value, schedule: Schedule) -> _Operand | None:
        """None where it has to be in f32."""
        found = half_image(operand)
        if found is not None:
            return _Operand(operand, *found, half_type(found[0]))
        if schedule.multiplied_type is None or half_type(operand) is not None:
            return None
        return _Operand(operand, None, (), ir.Type.parse(schedule.multiplied_type))

    def build(self) -> ir.Value:
        """The operand in half precision."""
        if self.source is None:
            return converted(self.operand, self.type)
        return reduce(lambda image, move: moved(move, image), self.moves, self.source)


def _store(filter_gradient: ops.FilterGradientOp, space: SearchSpace) -> None:
    group = match_weight_gradient_group(filter_gradient)
    schedule = None if isinstance(group, NoMatch) else schedule_of(group.product)
    if isinstance(group, NoMatch) or schedule is None:
        # The lowering reports these.
        return
    shape = group.shape

    def is_taken(types: ElementTypes) -> bool:
        return space.misfit(shape.with_element_types(types), schedule) is None

    types = shape.element_types
    operands = {
        "input": _Operand.of(group.input_transform.input, schedule),
        "filter": _Operand.of(group.gradient_transform.gradient, schedule),
    }
    # Kernels that multiply half precision take both or none.
    for names in (("input", "filter"), ("input",), ("filter",)):
        read = {name: operand for name in names if (operand := operands[name]) is not None}
        asked = replace(types, **{name: str(each.type) for name, each in read.items()})
        if read and is_taken(asked):
            _read(group, **read)
            types = asked
            break
    _write(group.filter_gradient, lambda half: is_taken(replace(types, result=half)))


def _read(group: WeightGradientGroup, input: _Operand | None = None, filter: _Operand | None = None) -> None:
    """Has the transforms read operands in half precision; a gradient's second one is the outputs'."""
    if input is not None:
        images = group.input_transform
        with images.location, ir.InsertionPoint(images):
            image = input.build()
        read_by_transform(images, image)
        erase_if_unused([images.operation])
    if filter is not None:
        gradients = group.gradient_transform
        with gradients.location, ir.InsertionPoint(gradients):
            read = ops.gradient_transform(
                filter.build(),
                gradients.decomposition,
                gradients.groups,
                channels_first=gradients.channels_first,
            )
        gradients.result.replace_all_uses_with(read.result)
        erase_if_unused([gradients.operation])


def _write(gradient: ops.FilterGradientOp, is_taken: Callable[[str], bool]) -> None:
    """Has a filter written in half precision that is rounded to it, maybe moved before."""
    moves: list[ir.Operation] = []
    halves: set[ir.Type | None] = set()
    user = only_user(gradient.result)
    while user is not None and not is_narrowing(user):
        if user.name in KEEPING_ELEMENTS:
            moves.append(user)
        elif (rounded := rounding_type(user)) is not None:
            halves.add(rounded)
        else:
            return
        user = only_user(user.results[0])
    if user is None:
        return
    half = half_type(user.results[0])
    if halves - {half} or not is_taken(str(half)):
        return
    type_ = ir.RankedTensorType.get(list(gradient.result.type.shape), half)
    with gradient.location, ir.InsertionPoint(gradient):
        written = ops.filter_gradient(
            type_,
            gradient.accumulator,
            gradient.decomposition,
            gradient.groups,
            permutation=gradient.permutation,
        )
    narrowed = reduce(lambda filters, move: moved(move, filters), moves, written.result)
    user.results[0].replace_all_uses_with(narrowed)
    erase_if_unused([user])
