"""Write insertions into zeros as padding, where sizes are known only at run time."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.slices import padded
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.size_algebra import SizeExpression
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions
from iree.winograd.passes.match.values.constants import is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_FUNCTIONS = ("func.func", "util.func")


@register_pass("winograd-insert-to-pad")
class InsertToPad:
    """Write insertions into zeros as padding, where sizes are known only at run time.

    The gradient by a convolution's image is a convolution of that by its outputs, which torch-mlir inserts
    into zeros. How many of them are behind it the program's own arithmetic says, which further passes don't
    look at. Insertions whose sizes are known stay: these read them as they are.

        %rows = arith.addi %size, %two : index
        %empty = tensor.empty(%rows) : tensor<8x?x16xf32>
        %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x?x16xf32>) -> tensor<8x?x16xf32>
        %r = tensor.insert_slice %x into %zeros[0, 1, 0] [8, %size, 16] [1, 1, 1]
      becomes
        %r = tensor.pad %x low[0, 1, 0] high[0, 1, 0] { tensor.yield %zero } : ... to tensor<8x?x16xf32>
    """

    def run(self, module: ir.Operation) -> None:
        insertions = [each for each in walk(module) if _inserts_all_into_zeros(each)]
        functions = dict.fromkeys(each.parent.operation for each in insertions)
        # Insertions are replaced in the end: what is known is known of values that exist.
        found = [
            padding
            for function in functions
            if function.name in _FUNCTIONS and (expressions := SizeExpressions.of(function))
            for each in insertions
            if each.parent.operation == function and (padding := _padding(each, expressions)) is not None
        ]
        rewrite_each("insertion", found, _pad, operation_of=lambda each: each.insertion)


@dataclass(frozen=True)
class _Insertion:
    """One whose part is as far from both ends of each dimension whatever the sizes."""

    insertion: ir.Operation
    low: list[int]
    high: list[int]


def _inserts_all_into_zeros(operation: ir.Operation) -> bool:
    """Whether all of a tensor, of spatial sizes known only at run time, goes between zeros as it is."""
    if operation.name != "tensor.insert_slice" or not is_zero(operation.operands[1]):
        return False
    part, whole = (ir.RankedTensorType(each.type) for each in list(operation.operands)[:2])
    offsets, strides = (list(operation.attributes[f"static_{name}"]) for name in ("offsets", "strides"))
    return (
        part.rank == whole.rank
        and isinstance(part.element_type, ir.FloatType)
        and any(map(part.is_dynamic_dim, range(1, part.rank)))
        and not any(map(is_dynamic, offsets))
        and set(strides) == {1}
    )


def _padding(insertion: ir.Operation, expressions: SizeExpressions) -> _Insertion | None:
    part, whole = list(insertion.operands)[:2]
    low = list(insertion.attributes["static_offsets"])
    high = []
    for dimension, before in enumerate(low):
        size, of_whole = (expressions.size(each, dimension) for each in (part, whole))
        if size is None or of_whole is None:
            return None
        behind = expressions.algebra.sum(of_whole, size, -1)
        behind = expressions.algebra.sum(behind, SizeExpression(-before))
        if not isinstance(behind.known, int) or behind.known < 0:
            return None
        high.append(behind.known)
    return _Insertion(insertion, low, high)


def _pad(found: _Insertion) -> None:
    insertion = found.insertion
    part, result = insertion.operands[0], insertion.results[0]
    with insertion.location, ir.InsertionPoint(insertion):
        zero = arith.constant(part.type.element_type, 0.0)
        replacement = padded(part, result.type.shape, found.low, found.high, zero)
    result.replace_all_uses_with(replacement)
    erase_if_unused([insertion])
