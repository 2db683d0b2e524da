"""Compute in f32 what lies between numbers that become bytes or shorts and these that become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.values.constants import scalar_number
from iree.winograd.passes.match.values.number_range import Range, is_integral, number_range
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_STORED = (8, 16)
"""Bits of the integers that quantised models round to."""
_EXACT = float(1 << 24)
"""Integers up to it are numbers of f32."""
_READS = {"arith.extsi": True, "arith.sitofp": True, "arith.extui": False, "arith.uitofp": False}
"""Operations that keep an integer what it is, and whether they read it with a sign."""
_TO_BYTE = ("arith.fptosi", "arith.fptoui")
_SUMS = {"arith.addi": arith.addf, "arith.subi": arith.subf}


@register_pass("winograd-merge-quantization")
class MergeQuantization:
    """Compute in f32 what lies between numbers that become bytes and bytes that become numbers.

    Quantised models (ONNX's QDQ) round what is between layers to bytes, and multiply f32. Where a number is
    rounded to an integer and kept within the bytes before it becomes one, f32 holds it as exactly. So one
    operation on f32 takes the place of the two, which a convolution's epilogue takes in, and the byte is
    gone. A NaN, of which a byte can be anything, stays one. Integers of 16 bits are taken alike. It is for
    programs with convolutions.

        %q = linalg.generic ins(%x : tensor<...xf32>) outs(... : tensor<...xi8>) {
               arith.divf, math.roundeven, arith.maximumf, arith.minimumf, arith.fptosi }
        %r = linalg.generic ins(%q : tensor<...xi8>) { arith.extsi, arith.subi, arith.sitofp, arith.mulf }
      becomes
        %r = linalg.generic ins(%x : tensor<...xf32>) {
               arith.divf, math.roundeven, arith.maximumf, arith.minimumf, arith.subf, arith.mulf }
    """

    def run(self, module: ir.Operation) -> None:
        if not any(True for _ in convolutions(module)):
            return
        generics = [each for each in walk(module) if each.name == "linalg.generic"]
        rewrite_each("operation", generics, _merge)


@dataclass(frozen=True)
class _Quantization:
    """Two operations: one whose results are bytes, and the only one that reads them."""

    to_bytes: Elementwise
    to_numbers: Elementwise


def _merge(operation: ir.Operation) -> None:
    found = _match(operation)
    if found is None:
        return
    with operation.location, ir.InsertionPoint(operation):
        merged = build_elementwise(
            found.to_bytes.reads, found.to_numbers.inputs[-1], lambda arguments: _compute(found, arguments)
        )
    operation.results[0].replace_all_uses_with(merged)
    erase_if_unused([operation, found.to_bytes.operation])


def _match(operation: ir.Operation) -> _Quantization | None:
    to_numbers = _single_read(operation)
    if to_numbers is None or not isinstance(to_numbers.result.type.element_type, ir.F32Type):
        return None
    ((source, indexing_map),) = to_numbers.reads
    definition = defining_operation(source)
    if definition is None or not _is_stored(source.type.element_type):
        return None
    to_bytes = match_elementwise(definition)
    if not isinstance(to_bytes, Elementwise) or not _is_plain(to_bytes):
        return None
    is_identity = indexing_map == ir.AffineMap.get_identity(indexing_map.n_dims)
    if not is_identity or len(list(source.uses)) != 1 or definition.block != operation.block:
        return None
    converted = _converted(to_bytes)
    if converted is None or not is_integral(converted):
        return None
    return _Quantization(to_bytes, to_numbers) if _is_exact(to_numbers, number_range(converted)) else None


def _single_read(operation: ir.Operation) -> Elementwise | None:
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 1:
        return None
    return elementwise if _is_plain(elementwise) else None


def _is_plain(elementwise: Elementwise) -> bool:
    return elementwise.is_pure and not elementwise.reads_init and not captures(elementwise.body)


def _converted(to_bytes: Elementwise) -> ir.Value | None:
    """The f32 number of which a body makes the byte that it yields."""
    conversion = defining_operation(to_bytes.yielded)
    if conversion is None or conversion.name not in _TO_BYTE:
        return None
    number = conversion.operands[0]
    return number if isinstance(number.type, ir.F32Type) else None


def _is_exact(to_numbers: Elementwise, byte: Range) -> bool:
    """Whether f32 holds all integers that a body computes of a byte of this range."""
    ranges: dict[ir.Value, Range] = {to_numbers.body.arguments[0]: byte}
    *operations, _ = (view.operation for view in to_numbers.body.operations)
    for operation in operations:
        known = [ranges.get(operand) or _integer_range(operand) for operand in operation.operands]
        result = operation.results[0]
        if operation.name in _READS:
            if known[0] is None or not _keeps(operation, known[0]):
                return False
            ranges[result] = known[0]
        elif operation.name in _SUMS:
            first, second = known
            if first is None or second is None:
                return False
            (low, high), (other_low, other_high) = first, second
            if operation.name == "arith.subi":
                other_low, other_high = -other_high, -other_low
            ranges[result] = low, high = low + other_low, high + other_high
            if max(-low, high) >= 2.0 ** (result.type.width - 1):
                return False
        elif operation.name != "arith.constant" and any(
            not isinstance(value.type, ir.F32Type) for value in (*operation.operands, result)
        ):
            return False
    return all(low >= -_EXACT and high <= _EXACT for low, high in ranges.values())


def _keeps(operation: ir.Operation, numbers: Range) -> bool:
    """Whether an integer of these stays what it is where `operation` reads it, with a sign or without."""
    (low, high), has_sign, width = numbers, _READS[operation.name], operation.operands[0].type.width
    if width not in _STORED:
        return has_sign or low >= 0
    least, most = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if has_sign else (0, 2**width - 1)
    return least <= low and high <= most


def _is_stored(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width in _STORED


def _integer_range(value: ir.Value) -> Range | None:
    number = scalar_number(value) if isinstance(value.type, ir.IntegerType | ir.IndexType) else None
    return None if number is None else (number, number)


def _compute(found: _Quantization, arguments: list[ir.Value]) -> ir.Value:
    """Build what both bodies compute of an element, in f32."""
    (byte,) = inline_block(found.to_bytes.body, arguments)
    conversion = byte.owner.operation
    numbers: dict[ir.Value, ir.Value] = {found.to_numbers.body.arguments[0]: conversion.operands[0]}
    *operations, end = (view.operation for view in found.to_numbers.body.operations)
    for operation in operations:
        numbers[operation.results[0]] = _computed(operation, numbers)
    conversion.erase()
    return numbers[end.operands[0]]


def _computed(operation: ir.Operation, numbers: Mapping[ir.Value, ir.Value]) -> ir.Value:
    operands = [numbers[each] if each in numbers else _single(each) for each in operation.operands]
    if operation.name in _READS:
        return operands[0]
    if operation.name in _SUMS:
        return _SUMS[operation.name](*operands)
    if operation.name == "arith.constant":
        return _single(operation.results[0])
    copy = operation.clone()
    for index, operand in enumerate(operands):
        copy.operands[index] = operand
    return copy.results[0]


def _single(constant: ir.Value) -> ir.Value:
    """Build a constant as a number of f32."""
    number = constant.owner.operation.attributes["value"].value
    return arith.constant(ir.F32Type.get(), float(number))
