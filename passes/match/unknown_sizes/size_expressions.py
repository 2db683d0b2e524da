"""What a function's sizes are, as expressions of the sizes of its arguments: the program's own arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.size_algebra import (
    COMPARISONS,
    FUNCTIONS,
    SizeAlgebra,
    SizeExpression,
)

Shape = list["SizeExpression | None"]


@dataclass
class SizeExpressions:
    """The numbers and tensor sizes of a function, as expressions of the sizes of its arguments.

    What depends on elements of tensors, or takes operations that aren't known here, isn't known.
    """

    algebra: SizeAlgebra = field(default_factory=SizeAlgebra)
    numbers: dict[ir.Value, SizeExpression] = field(default_factory=dict)
    shapes: dict[ir.Value, Shape] = field(default_factory=dict)

    @staticmethod
    def of(function: ir.Operation) -> SizeExpressions:
        """Those of the values in a function's first block."""
        expressions = SizeExpressions()
        block = function.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            if isinstance(argument.type, ir.RankedTensorType):
                expressions.shapes[argument] = [
                    expressions.algebra.size_of(number, dimension)
                    if is_dynamic(size)
                    else SizeExpression(size)
                    for dimension, size in enumerate(argument.type.shape)
                ]
        for view in block.operations:
            expressions._add(view.operation)
        return expressions

    def size(self, value: ir.Value, dimension: int) -> SizeExpression | None:
        """Of a tensor's dimension; None where it isn't known."""
        type_ = ir.RankedTensorType(value.type)
        if not type_.is_dynamic_dim(dimension):
            return SizeExpression(type_.shape[dimension])
        shape = self.shapes.get(value)
        return None if shape is None else shape[dimension]

    def _add(self, operation: ir.Operation) -> None:
        if len(operation.results) != 1:
            return
        (result,) = operation.results
        if isinstance(result.type, ir.RankedTensorType):
            self._add_shape(operation, result)
        elif isinstance(result.type, ir.IndexType | ir.IntegerType | ir.F32Type | ir.F64Type):
            number = self._number(operation)
            if number is not None:
                self.numbers[result] = number

    def _number(self, operation: ir.Operation) -> SizeExpression | None:
        if operation.name == "arith.constant":
            attribute = operation.attributes["value"]
            is_number = isinstance(attribute, ir.IntegerAttr | ir.FloatAttr)
            return SizeExpression(attribute.value) if is_number else None
        if operation.name == "hal.buffer_view.dim":
            argument, index = operation.operands[0], ir.IntegerAttr(operation.attributes["index"]).value
            if not isinstance(argument, ir.BlockArgument):
                return None
            return self.algebra.size_of(ir.BlockArgument(argument).arg_number, index)
        if operation.name == "tensor.dim":
            dimension = self.numbers.get(operation.operands[1])
            known = None if dimension is None else dimension.known
            return self.size(operation.operands[0], known) if isinstance(known, int) else None
        operands = [self.numbers.get(operand) for operand in operation.operands]
        known_operands = [operand for operand in operands if operand is not None]
        return self._computed(operation, known_operands) if len(known_operands) == len(operands) else None

    def _computed(self, operation: ir.Operation, operands: list[SizeExpression]) -> SizeExpression | None:
        """What an operation computes of numbers; what isn't sums and quotients is a function of them."""
        algebra, name = self.algebra, operation.name
        if name == "arith.cmpi":
            predicate = ir.IntegerAttr(operation.attributes["predicate"]).value
            return algebra.applied(COMPARISONS[predicate], *operands)
        if name == "util.align":
            return algebra.product(algebra.ceiling_divided(*operands), operands[1])
        if name == "affine.apply":
            map_ = ir.AffineMapAttr(operation.attributes["map"]).value
            return self._applied(map_.results[0], operands, map_.n_dims)
        if arithmetic := _ARITHMETIC.get(name):
            return arithmetic(algebra, *operands)
        if (arithmetic := _OF_NATURAL_NUMBERS.get(name)) and all(map(algebra.is_natural, operands)):
            return arithmetic(algebra, *operands)
        return algebra.applied(name, *operands) if name in FUNCTIONS else None

    def _applied(
        self, expression: ir.AffineExpr, operands: Sequence[SizeExpression], dimensions: int
    ) -> SizeExpression:
        if isinstance(expression, ir.AffineConstantExpr):
            return SizeExpression(expression.value)
        if isinstance(expression, ir.AffineDimExpr):
            return operands[int(expression.position)]
        if isinstance(expression, ir.AffineSymbolExpr):
            return operands[dimensions + int(expression.position)]
        both = (self._applied(side, operands, dimensions) for side in (expression.lhs, expression.rhs))
        for kind, operation in _AFFINE.items():
            if isinstance(expression, kind):
                return operation(self.algebra, *both)
        raise AssertionError(f"{expression} is of no kind of affine expressions")

    def _add_shape(self, operation: ir.Operation, result: ir.Value) -> None:
        type_ = ir.RankedTensorType(result.type)
        if type_.has_static_shape:
            return
        shape = self._shape(operation, type_)
        if shape is not None and len(shape) == type_.rank:
            self.shapes[result] = shape

    def _shape(self, operation: ir.Operation, type_: ir.RankedTensorType) -> Shape | None:
        name, operands = operation.name, list(operation.operands)
        if name.startswith("linalg."):
            return self._whole(operands[-1])
        if name in ("tensor.cast", "util.optimization_barrier") or name.startswith(("arith.", "math.")):
            return self._whole(operands[0])
        if name == "tensor.insert_slice":
            return self._whole(operands[1])
        if name in ("tensor.empty", "tensor.generate"):
            return self._stated(type_.shape, operands)
        if name == "hal.tensor.import":
            return self._stated(type_.shape, operands[1:])
        if name == "tensor.extract_slice":
            offsets, sizes = (list(operation.attributes[f"static_{part}"]) for part in ("offsets", "sizes"))
            unknown_offsets, unknown_sizes = (sum(map(is_dynamic, each)) for each in (offsets, sizes))
            first = 1 + unknown_offsets
            return self._stated(sizes, operands[first : first + unknown_sizes])
        if name == "tensor.expand_shape":
            return self._stated(list(operation.attributes["static_output_shape"]), operands[1:])
        if name == "tensor.collapse_shape":
            whole = self._whole(operands[0])
            return [
                _combined(self.algebra.product, [whole[dimension] for dimension in group])
                for group in reassociation_of(operation)
            ]
        if name == "tensor.pad":
            if len(operands) > 1:
                return None
            low, high = (list(operation.attributes[side]) for side in ("static_low", "static_high"))
            return [
                None if size is None else self.algebra.sum(size, SizeExpression(before + after))
                for size, before, after in zip(self._whole(operands[0]), low, high, strict=True)
            ]
        if name == "tensor.concat":
            along = ir.IntegerAttr(operation.attributes["dim"]).value
            whole = self._whole(operands[0])
            whole[along] = _combined(self.algebra.sum, [self.size(operand, along) for operand in operands])
            return whole
        return None

    def _whole(self, value: ir.Value) -> Shape:
        if not isinstance(value.type, ir.RankedTensorType):
            return []
        return [self.size(value, dimension) for dimension in range(value.type.rank)]

    def _stated(self, static: Sequence[int], dynamic: Sequence[ir.Value]) -> Shape:
        """Sizes of which those that aren't numbers are values, in order."""
        values = iter(dynamic)
        return [
            self.numbers.get(next(values)) if is_dynamic(size) else SizeExpression(size) for size in static
        ]


def _combined(
    combine: Callable[[SizeExpression, SizeExpression], SizeExpression],
    sizes: Sequence[SizeExpression | None],
) -> SizeExpression | None:
    """The sum or the product of sizes; None where one of them isn't known."""
    known = [size for size in sizes if size is not None]
    return reduce(combine, known) if len(known) == len(sizes) else None


def _difference(algebra: SizeAlgebra, first: SizeExpression, second: SizeExpression) -> SizeExpression:
    return algebra.sum(first, second, -1)


def _same(algebra: SizeAlgebra, number: SizeExpression) -> SizeExpression:
    return number


_Arithmetic = Callable[..., SizeExpression]

_AFFINE: Mapping[type, _Arithmetic] = {
    ir.AffineAddExpr: SizeAlgebra.sum,
    ir.AffineMulExpr: SizeAlgebra.product,
    ir.AffineFloorDivExpr: SizeAlgebra.floor_divided,
    ir.AffineCeilDivExpr: SizeAlgebra.ceiling_divided,
    ir.AffineModExpr: SizeAlgebra.remainder,
}
_ARITHMETIC: Mapping[str, _Arithmetic] = {
    "arith.index_cast": _same,
    "arith.addi": SizeAlgebra.sum,
    "arith.subi": _difference,
    "arith.muli": SizeAlgebra.product,
    "arith.floordivsi": SizeAlgebra.floor_divided,
    "arith.ceildivsi": SizeAlgebra.ceiling_divided,
    "arith.maxsi": SizeAlgebra.maximum,
    "arith.minsi": SizeAlgebra.minimum,
}
"""Of integers. Sizes are far from where they would overflow."""
_OF_NATURAL_NUMBERS: Mapping[str, _Arithmetic] = {
    "arith.index_castui": _same,
    "arith.extsi": _same,
    "arith.extui": _same,
    "arith.trunci": _same,
    "arith.divsi": SizeAlgebra.floor_divided,
    "arith.divui": SizeAlgebra.floor_divided,
    "arith.ceildivui": SizeAlgebra.ceiling_divided,
    "arith.remsi": SizeAlgebra.remainder,
    "arith.remui": SizeAlgebra.remainder,
    "arith.maxui": SizeAlgebra.maximum,
    "arith.minui": SizeAlgebra.minimum,
}
"""Of integers that aren't negative. Those that may be are rounded and widened otherwise."""
