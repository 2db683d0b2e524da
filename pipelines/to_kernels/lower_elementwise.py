"""Have a kernel of this project compute large images elementwise."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.half_precision import half_type, single_of
from iree.winograd.passes.match.navigation import defining_operation, transforms, walk
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.merged_elementwise import Meeting, build_merged

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import SpreadElementwise

_READERS = ("winograd.", "linalg.transpose", "flow.dispatch", "hal.tensor.export", "tensor.collapse_shape")
"""What reads a result from memory, whoever computes it: IREE fuses other users with it."""


@register_pass("winograd-lower-elementwise")
class LowerElementwise:
    """Have a kernel of this project compute large images elementwise.

    Group normalization ends with a scale and a shift of each channel, often with an activation behind them,
    and excitation is a scale. IREE computes these vectors anew for each element, divides channels into the
    groups that they were computed by, and transposes with it: at a tenth to two fifths of memory's speed.
    Others, such as normalization by constants, sums and activations that convolutions don't end with, it
    computes at half of memory's speed. Here all elementwise operations in a row are one kernel, which reads
    the vectors from memory, and several quads of a large image at a time. Rewritten are on GPUs images in f32
    of static sizes: of 2^19 elements or more those that IREE would compute what is spread over, of 2^17 or
    more those for which it is in memory, or whose number is no multiple of 128, and of 2^20 or more others,
    unless IREE computes what they are made of, too. What IREE would copy several times before, such as a
    rotated image, is read where it is. On CPUs they are channels-last ones of sizes known only at run time,
    which IREE's code takes three times as long for.

        %s = linalg.generic ins(%x, %scale : tensor<1x256x256x64xf32>, tensor<1x64xf32>) { arith.mulf }
        %y = linalg.generic ins(%s, %shift : tensor<1x256x256x64xf32>, tensor<1x64xf32>) { arith.addf }
        %g = linalg.generic ins(%y) { arith.negf, math.exp, arith.addf, arith.divf }
        %z = linalg.generic ins(%y, %g) { arith.mulf }
      becomes
        %z = flow.dispatch @winograd_elementwise_1x256x256x64(%x, %scale, %shift)

        %y = linalg.generic ins(%x, %gate : tensor<1x?x?x64xf32>, tensor<1x64xf32>) { arith.mulf }
      becomes
        %y = flow.dispatch @winograd_elementwise_anyxanyx64(%x, %gate)

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        ends = _ends(module)
        if not backend.iree_code.converts_half:
            ends = [each for each in ends if half_type(each.results[0]) is None]
        if backend.iree_code.vectorizes_loops:
            # IREE's vectors, on CPUs, are as fast as memory where it knows sizes.
            ends = [each for each in ends if not each.results[0].type.has_static_shape]
        rewrite_each("elementwise operation", ends, lambda each: _lower(each, backend, lowering))


def _ends(module: ir.Operation) -> list[ir.Operation]:
    """Elementwise operations whose results are read from memory, by kernels or by others of these.

    They are in the order of the program: what a kernel computes is in memory for those behind it.
    """
    ends: list[ir.Operation] = []
    known: set[ir.Operation] = set()
    for operation in reversed(list(walk(module))):
        last = None if operation in known else _match(operation)
        users = () if last is None else {use.owner.operation for use in last.result.uses}
        if last is not None and all(user in known or user.name.startswith(_READERS) for user in users):
            ends.insert(0, operation)
            known |= {operation, *_before(last)}
    return ends


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


def _lower(last: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    matched = _match(last)
    if matched is None:
        return
    meeting = Meeting(matched, _before(matched))
    with last.location, ir.InsertionPoint(last):
        merged = build_merged(meeting).owner.operation
        operation = _spread(merged, takes_half=backend.iree_code.converts_half)
        if operation is None or backend.misfit(operation) is not None:
            merged.erase()
            return
        computed = lowering.compute(operation)
    last.results[0].replace_all_uses_with(computed)
    erase_if_unused([merged, last])


def _spread(merged: ir.Operation, *, takes_half: bool) -> SpreadElementwise | None:
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
