"""Compute in f32 what a program states in half precision, rounded where it rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted, single_constant
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.products.matmul import matmuls
from iree.winograd.passes.match.reductions import is_reducing
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.match.values.conversions import widened_source
from iree.winograd.passes.match.values.half_precision import half_type, has_half, single_of
from iree.winograd.passes.rewrite.widened_body import can_widen, widen_body

from ..backends.module_backend import supported_backend

_OF_ANY_ELEMENTS = frozenset(
    (
        "tensor.cast",
        "tensor.collapse_shape",
        "tensor.concat",
        "tensor.dim",
        "tensor.empty",
        "tensor.expand_shape",
        "tensor.extract",
        "tensor.extract_slice",
        "tensor.from_elements",
        "tensor.insert_slice",
        "tensor.pad",
        "tensor.splat",
    )
)
"""What treats elements of all types alike."""
_STATED_BODIES = ("linalg.generic", "linalg.map", "linalg.reduce")
_NAMED = ("linalg.broadcast", "linalg.fill", "linalg.transpose")
_NAMED_SUMS = ("conv_", "matmul", "matvec", "pooling_")


@register_pass("winograd-widen-half")
class WidenHalf:
    """Compute in f32 what a program states in half precision, rounded where it rounds.

    IREE 3.13 multiplies f16 and bf16 one by one on CPUs, 6 to 24 times as slowly as our kernels multiply f32,
    can't compile convolutions of bf16 for GPUs, nor some products of it for CPUs. So in a program with
    convolutions of such numbers, or products of rows and constant matrices, as linear layers are, f32 takes
    their place in all tensors between arguments and results. Products of two f16 or bf16 are exact in f32.
    What an operation on elements gives is rounded to the program's type, once: a sigmoid is computed in f32,
    as torch does. Sums are in f32, and are rounded when they are complete; IREE, and JAX by default, round
    each addition. Sums that are only divided, as those of average pooling, aren't: torch divides them in f32,
    and in f16 the sum of 49 numbers ends at 65504 long before their mean does.

        %c = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<...xf16>, ...) outs(%zeros : tensor<...xf32>)
        %t = linalg.generic ins(%c : tensor<...xf32>) { arith.truncf }
        %r = linalg.generic ins(%t : tensor<...xf16>) { arith.addf %in, %b : f16 }
      becomes
        %x' = linalg.generic ins(%x : tensor<...xf16>) { arith.extf }
        %c' = linalg.conv_2d_nhwc_hwcf ins(%x', %w' : tensor<...xf32>, ...) outs(%zeros)
        %t' = linalg.generic ins(%c') { arith.truncf, arith.extf }
        %r' = linalg.generic ins(%t') { arith.addf %in, %b : f32, arith.truncf, arith.extf }
        %r = linalg.generic ins(%r' : tensor<...xf32>) { arith.truncf }

    What isn't known to give the same in f32 gets its operands narrowed, and its results widened.
    """

    def run(self, module: ir.Operation) -> None:
        if not any(chain(map(has_half, convolutions(module)), map(_is_half_layer, matmuls(module)))):
            return
        if supported_backend(module) is None:
            return
        rewrite_each("program", [module], lambda each: _Widening().widen(each))


@dataclass
class _Widening:
    """One program's numbers of half precision, in both types."""

    singles: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """In f32, by what is of half precision."""
    halves: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Of half precision, by what is in f32."""
    types: dict[ir.Value, ir.Type] = field(default_factory=dict)
    """The type of half precision, by what is in f32 in its place."""

    def widen(self, module: ir.Operation) -> None:
        for copy in self._widen_inside(module):
            copy.results[0].replace_all_uses_with(copy.operands[0])
            copy.erase()

    def _widen_inside(self, holder: ir.Operation) -> list[ir.Operation]:
        """Rewrite all operations of a program, or a part of it; gives those that only copy what they read."""
        copies: list[ir.Operation] = []
        # Bodies of what is widened are rewritten with it.
        for operation in [each.operation for region in holder.regions for block in region for each in block]:
            if operation.name == "arith.constant":
                continue
            if not _can_widen(operation):
                self._narrow_operands(operation)
                copies += self._widen_inside(operation)
            elif has_half(operation) or any(operand in self.types for operand in operation.operands):
                self._widen(operation)
                if _is_copy(operation):
                    copies.append(operation)
        return copies

    def _widen(self, operation: ir.Operation) -> None:
        for number, operand in enumerate(operation.operands):
            if half_type(operand) is not None:
                operation.operands[number] = self._single(operand)
        rounds, unrounded = not is_reducing(operation), None
        for region in operation.regions:
            unrounded = widen_body(region.blocks[0], self._single, rounds=rounds) or unrounded
        for result in operation.results:
            half = half_type(result)
            if half is None:
                continue
            result.set_type(single_of(result.type))
            is_given = unrounded is None or _is_only_divided(result)
            rounded = result if is_given else self._round(operation, result, half)
            self.types[rounded] = half

    def _round(self, operation: ir.Operation, result: ir.Value, half: ir.Type) -> ir.Value:
        """Has what used an f32 result use it rounded to a type of half precision."""
        uses = [(use.owner.operation, use.operand_number) for use in result.uses]
        with operation.location, ir.InsertionPoint.after(operation):
            rounded = converted(result, half, ir.F32Type.get())
        for user, number in uses:
            user.operands[number] = rounded
        return rounded

    def _narrow_operands(self, operation: ir.Operation) -> None:
        for number, operand in enumerate(operation.operands):
            half = self.types.get(operand)
            if half is None:
                continue
            if operand not in self.halves:
                with operation.location, _after(operand):
                    self.halves[operand] = converted(operand, half)
            operation.operands[number] = self.halves[operand]

    def _single(self, value: ir.Value) -> ir.Value:
        """A value of half precision in f32."""
        if value not in self.singles:
            with value.location, _after(value):
                constant = single_constant(value)
                self.singles[value] = converted(value, ir.F32Type.get()) if constant is None else constant
        return self.singles[value]


def _is_half_layer(matmul: ir.Operation) -> bool:
    """Whether a product is of rows of half precision and a matrix of the model's, maybe widened before."""
    rows, matrix, _ = matmul.operands
    is_half = has_half(matmul) or held_type(rows) is not None
    return is_half and rows.type.has_static_shape and is_known_at_load(widened_source(matrix) or matrix)


def _can_widen(operation: ir.Operation) -> bool:
    name = operation.name
    is_known = (
        name in _OF_ANY_ELEMENTS
        or name in _STATED_BODIES
        or name in _NAMED
        or (name.startswith("linalg.") and any(part in name for part in _NAMED_SUMS))
    )
    return is_known and all(can_widen(region.blocks[0]) for region in operation.regions)


def _is_only_divided(total: ir.Value) -> bool:
    """Whether all that is made of a sum are quotients, as of an average pooling's."""
    uses = list(total.uses)
    return bool(uses) and all(_divides(use.owner.operation, use.operand_number) for use in uses)


def _divides(operation: ir.Operation, number: int) -> bool:
    """Whether an operation on elements divides those of an operand, and does nothing else with them."""
    if operation.name != "linalg.generic" or is_reducing(operation):
        return False
    numerator = operation.regions[0].blocks[0].arguments[number]
    users = [use.owner.operation for use in numerator.uses]
    return bool(users) and all(
        user.name == "arith.divf" and user.operands[0] == numerator != user.operands[1] for user in users
    )


def _is_copy(operation: ir.Operation) -> bool:
    """Whether an operation gives what it reads: a conversion, when what it read is converted."""
    if operation.name != "linalg.generic" or len(operation.operands) != 2:
        return False
    maps = [each.value for each in operation.attributes["indexing_maps"]]
    block = operation.regions[0].blocks[0]
    (*_, end) = block.operations
    return (
        operation.operands[0].type == operation.results[0].type
        and all(each == ir.AffineMap.get_identity(each.n_dims) for each in maps)
        and list(end.operation.operands) == [block.arguments[0]]
    )


def _after(value: ir.Value) -> ir.InsertionPoint:
    """Where a value is first there."""
    definition = defining_operation(value)
    if definition is None:
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(definition)
