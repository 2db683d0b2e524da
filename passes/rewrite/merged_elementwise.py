"""One elementwise operation of several that use one another, or are of one shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise_results
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import splat_element


@dataclass(frozen=True)
class Meeting:
    """Elementwise operations that use one value, or one another, and nothing else uses but `last`."""

    last: Elementwise
    others: dict[ir.Operation, Elementwise]


def build_merged(meeting: Meeting) -> ir.Value:
    """Build the operation that computes what `meeting` does, at the insertion point."""
    (result,) = _build(meeting.others, [meeting.last])
    return result


def build_together(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Build the operation that computes all of `values`, of one shape, at the insertion point.

    With it all elementwise operations that they are made of, one element of the same place after the other;
    what else they are made of is read.
    """
    lasts = [each for each in map(_member, values) if each is not None]
    if len(lasts) != len(values) or len(values) < 2:
        return list(values)
    members: dict[ir.Operation, Elementwise] = {}
    moved: set[ir.Value] = set()
    pending = list(lasts)
    while pending:
        member = pending.pop()
        if member.operation in members:
            continue
        members[member.operation] = member
        identity = ir.AffineMap.get_identity(ir.RankedTensorType(member.result.type).rank)
        for source, indexing_map in member.reads:
            if indexing_map != identity:
                moved.add(source)
            elif (each := _member(source)) is not None:
                pending.append(each)
    return list(values) if moved & {each.result for each in members.values()} else _build(members, lasts)


def _member(value: ir.Value) -> Elementwise | None:
    """The elementwise operation that computes `value`, of elements and indices."""
    operation = defining_operation(value)
    elementwise = None if operation is None else match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
        return None
    names = (view.operation.name for view in elementwise.body.operations)
    is_arithmetic = all(name.startswith(("arith.", "math.", "linalg.")) for name in names)
    return elementwise if is_arithmetic else None


def _build(others: Mapping[ir.Operation, Elementwise], lasts: Sequence[Elementwise]) -> list[ir.Value]:
    """Build the operation that computes the results of `lasts`, with `others` that these use."""
    members = dict.fromkeys([*others.values(), *lasts])
    reads = list(
        dict.fromkeys(
            (source, indexing_map)
            for member in members
            for source, indexing_map in member.reads
            if defining_operation(source) not in others and splat_element(source) is None
        )
    )

    def compute_all(arguments: list[ir.Value]) -> list[ir.Value]:
        elements, unused = arguments[: len(reads)], arguments[-1]
        element_of = dict(zip(reads, elements, strict=True))
        computed: dict[ir.Operation, ir.Value] = {}

        def compute(member: Elementwise) -> ir.Value:
            if member.operation not in computed:
                inputs = [element(*read) for read in member.reads]
                (computed[member.operation],) = inline_block(member.body, [*inputs, unused])
            return computed[member.operation]

        def element(source: ir.Value, indexing_map: ir.AffineMap) -> ir.Value:
            definition = defining_operation(source)
            if definition in others:
                return compute(others[definition])
            number = splat_element(source)
            if number is not None:
                return arith.constant(source.type.element_type, number)
            return element_of[source, indexing_map]

        return [compute(last) for last in lasts]

    return build_elementwise_results(reads, [last.inputs[-1] for last in lasts], compute_all)
