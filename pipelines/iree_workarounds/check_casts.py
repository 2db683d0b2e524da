"""Check sizes that a program takes for known: IREE reads on where a tensor ends before."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.tensors import index_constant, size_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.sizes import is_dynamic

_CAST, _ASSERT = "tensor.cast", "cf.assert"
_FUNCTIONS = ("func.func", "util.func")


@register_pass("winograd-check-casts")
class CheckCasts:
    """Check sizes that a program takes for known: IREE reads on where a tensor ends before.

    Models that were exported for one size, with inputs of any, reshape to constant shapes, which torch-mlir
    writes as casts. MLIR leaves open what one to another size than there is does. IREE 3.13 computes with the
    elements that there are, or with what lies behind them.

        %c = tensor.cast %x : tensor<1x8x?xf32> to tensor<1x8x169xf32>
      becomes
        %n = tensor.dim %x, %c2 : tensor<1x8x?xf32>
        %same = arith.cmpi eq, %n, %c169 : index
        cf.assert %same, "dimension 2 of a tensor isn't of size 169, which the program takes it for"
        %c = tensor.cast %x : tensor<1x8x?xf32> to tensor<1x8x169xf32>

    Sizes that follow from what is known need no check, and get none from IREE.
    """

    def run(self, module: ir.Operation) -> None:
        casts = [each for each in walk(module) if _assumes_sizes(each)]
        rewrite_each("cast", casts, _check)


def _assumes_sizes(operation: ir.Operation) -> bool:
    return operation.name == _CAST and operation.parent.name in _FUNCTIONS and bool(_assumed(operation))


def _assumed(cast: ir.Operation) -> dict[int, int]:
    """The sizes that only the result has, by dimension."""
    given, taken = cast.operands[0].type, cast.results[0].type
    if not all(isinstance(each, ir.RankedTensorType) for each in (given, taken)):
        return {}
    sizes = zip(given.shape, taken.shape, strict=True)
    return {
        dimension: size
        for dimension, (known, size) in enumerate(sizes)
        if is_dynamic(known) and not is_dynamic(size)
    }


def _check(cast: ir.Operation) -> None:
    (source,) = cast.operands
    with cast.location, ir.InsertionPoint(cast):
        for dimension, size in _assumed(cast).items():
            given = size_of(source, dimension)
            if isinstance(given, int):
                continue
            same = arith.cmpi(arith.CmpIPredicate.eq, given, index_constant(size))
            message = (
                f"dimension {dimension} of a tensor isn't of size {size}, which the program takes it for"
            )
            ir.Operation.create(_ASSERT, operands=[same], attributes={"msg": ir.StringAttr.get(message)})
