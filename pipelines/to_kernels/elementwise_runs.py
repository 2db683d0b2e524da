"""Elementwise operations in a row, which one kernel may compute at the places of its result."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.values.half_precision import half_type, single_of
from iree.winograd.passes.rewrite.merged_elementwise import Meeting, build_merged

from ..problems.tensor_operations import SpreadElementwise

_READERS = ("winograd.", "linalg.transpose", "flow.dispatch", "hal.tensor.export", "tensor.collapse_shape")
"""What reads a result from memory, whoever computes it: IREE fuses other users with it."""


@dataclass(frozen=True)
class ElementwiseRun:
    """An elementwise operation, and those at the same places that nothing else needs, the first one first."""

    last: Elementwise
    before: dict[ir.Operation, Elementwise]

    @property
    def operations(self) -> set[ir.Operation]:
        return {self.last.operation, *self.before}

    def merged(self) -> ir.Operation:
        """Builds one operation that computes the same, at the insertion point."""
        return build_merged(Meeting(self.last, self.before)).owner.operation


def match_run(last: ir.Operation) -> ElementwiseRun | None:
    """The run that ends with `last`; None where it isn't elementwise."""
    matched = _match(last)
    return None if matched is None else ElementwiseRun(matched, _before(matched))


def ends_of_runs(module: ir.Operation, *, takes_half: bool) -> list[ir.Operation]:
    """Elementwise operations whose results are read from memory, by kernels or by others of these.

    They are in the order of the program: what a kernel computes is in memory for those behind it. Those of
    half precision are left out unless kernels take it.
    """
    ends: list[ir.Operation] = []
    known: set[ir.Operation] = set()
    for operation in reversed(list(walk(module))):
        last = None if operation in known else _match(operation)
        users = () if last is None else {use.owner.operation for use in last.result.uses}
        if last is not None and all(user in known or user.name.startswith(_READERS) for user in users):
            ends.insert(0, operation)
            known |= {operation, *_before(last)}
    return ends if takes_half else [each for each in ends if half_type(each.results[0]) is None]


def spread_operation(merged: ir.Operation, *, takes_half: bool) -> SpreadElementwise | None:
    """The operation with the smallest tensors that hold what it reads; None where kernels can't read one."""
    elementwise = match_elementwise(merged)
    if not isinstance(elementwise, Elementwise):
        return None
    result_type = ir.RankedTensorType(elementwise.result.type)
    operands: list[EpilogueOperand] = []
    for source, indexing_map in elementwise.reads:
        operand = match_epilogue_operand(merged, source, indexing_map, result_type, takes_half=takes_half)
        if not isinstance(operand, EpilogueOperand):
            return None
        operands.append(operand)
    return SpreadElementwise(elementwise, tuple(operands))


def _match(operation: ir.Operation) -> Elementwise | None:
    """The elementwise operation, which computes something in f32, whatever it stores."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.body.operations) == 1:
        return None
    if not elementwise.is_pure or elementwise.reads_init or captures(elementwise.body):
        return None
    result = elementwise.result
    is_single = isinstance(ir.RankedTensorType(result.type).element_type, ir.F32Type)
    return elementwise if is_single or half_type(result) is not None else None


def _before(last: Elementwise) -> dict[ir.Operation, Elementwise]:
    """The operations at the same places that nothing but `last` needs, the first one first."""
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(last.result.type).rank)
    found: dict[ir.Operation, Elementwise] = {}
    pending = [last]
    while pending:
        for source, indexing_map in pending.pop().reads:
            operation = defining_operation(source)
            if operation is None or operation in found or operation.block != last.operation.block:
                continue
            if indexing_map != identity or single_of(source.type) != single_of(last.result.type):
                continue
            elementwise = _match(operation)
            users = {use.owner.operation for use in source.uses}
            if elementwise is not None and users <= {last.operation, *found}:
                found[operation] = elementwise
                # Others may have been left for being read by this one, too.
                pending = [last, *found.values()]
    return dict(reversed(found.items()))
