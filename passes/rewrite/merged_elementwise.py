"""One elementwise operation of several that use one another."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.match.constants import splat_element
from iree.winograd.passes.match.elementwise import Elementwise
from iree.winograd.passes.match.navigation import defining_operation


@dataclass(frozen=True)
class Meeting:
    """Elementwise operations that use one value, or one another, and nothing else uses but `last`."""

    last: Elementwise
    others: dict[ir.Operation, Elementwise]


def build_merged(meeting: Meeting) -> ir.Value:
    """Build the operation that computes what `meeting` does, at the insertion point."""
    members = [*meeting.others.values(), meeting.last]
    reads = list(
        dict.fromkeys(
            (source, indexing_map)
            for member in members
            for source, indexing_map in member.reads
            if defining_operation(source) not in meeting.others and splat_element(source) is None
        )
    )

    def compute_all(arguments: list[ir.Value]) -> ir.Value:
        *elements, unused = arguments
        element_of = dict(zip(reads, elements, strict=True))
        computed: dict[ir.Operation, ir.Value] = {}

        def compute(member: Elementwise) -> ir.Value:
            if member.operation not in computed:
                inputs = [element(*read) for read in member.reads]
                (computed[member.operation],) = inline_block(member.body, [*inputs, unused])
            return computed[member.operation]

        def element(source: ir.Value, indexing_map: ir.AffineMap) -> ir.Value:
            definition = defining_operation(source)
            if definition in meeting.others:
                return compute(meeting.others[definition])
            number = splat_element(source)
            if number is not None:
                return arith.constant(source.type.element_type, number)
            return element_of[source, indexing_map]

        return compute(meeting.last)

    return build_elementwise(reads, meeting.last.inputs[-1], compute_all)
