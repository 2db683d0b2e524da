"""What a function's sizes are for given sizes of its arguments: the program's own arithmetic, evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.sizes import is_dynamic

Samples = npt.NDArray[Any]
"""The values that a number has in several runs of a program, integers or not."""
Shape = list["Samples | None"]

SizeOfArgument = Callable[[int, int], Samples]
"""From an argument's number and a dimension to the sizes that it has."""


@dataclass
class SizeSamples:
    """The numbers and tensor sizes of a function in several runs of it, for sizes of its arguments.

    What depends on elements of tensors, or takes operations that aren't known here, isn't known.
    """

    size_of_argument: SizeOfArgument
    numbers: dict[ir.Value, Samples] = field(default_factory=dict)
    shapes: dict[ir.Value, Shape] = field(default_factory=dict)

    @staticmethod
    def of(function: ir.Operation, size_of_argument: SizeOfArgument) -> SizeSamples:
        """Those of the values in a function's first block."""
        samples = SizeSamples(size_of_argument)
        block = function.regions[0].blocks[0]
        for number, argument in enumerate(block.arguments):
            if isinstance(argument.type, ir.RankedTensorType):
                samples.shapes[argument] = [
                    size_of_argument(number, dimension) if is_dynamic(size) else np.asarray(size)
                    for dimension, size in enumerate(argument.type.shape)
                ]
        for view in block.operations:
            samples._add(view.operation)
        return samples

    def size(self, value: ir.Value, dimension: int) -> Samples | None:
        """Of a tensor's dimension; None where it isn't known."""
        type_ = ir.RankedTensorType(value.type)
        if not type_.is_dynamic_dim(dimension):
            return np.asarray(type_.shape[dimension])
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

    def _number(self, operation: ir.Operation) -> Samples | None:
        if operation.name == "arith.constant":
            attribute = operation.attributes["value"]
            return (
                np.asarray(attribute.value) if isinstance(attribute, ir.IntegerAttr | ir.FloatAttr) else None
            )
        if operation.name == "hal.buffer_view.dim":
            argument, index = operation.operands[0], ir.IntegerAttr(operation.attributes["index"]).value
            if not isinstance(argument, ir.BlockArgument):
                return None
            return self.size_of_argument(ir.BlockArgument(argument).arg_number, index)
        if operation.name == "tensor.dim":
            dimension = self.numbers.get(operation.operands[1])
            return None if dimension is None else self.size(operation.operands[0], int(dimension))
        operands = [self.numbers.get(operand) for operand in operation.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) != len(operands):
            return None
        if operation.name == "arith.cmpi":
            compare = _COMPARISONS[ir.IntegerAttr(operation.attributes["predicate"]).value]
            return np.asarray(compare(*known))
        if operation.name == "affine.apply":
            (expression,) = ir.AffineMapAttr(operation.attributes["map"]).value.results
            return _applied(expression, known, ir.AffineMapAttr(operation.attributes["map"]).value.n_dims)
        arithmetic = _ARITHMETIC.get(operation.name)
        return None if arithmetic is None else np.asarray(arithmetic(*known))

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
                _product([whole[dimension] for dimension in group]) for group in reassociation_of(operation)
            ]
        if name == "tensor.pad":
            if len(operands) > 1:
                return None
            low, high = (list(operation.attributes[side]) for side in ("static_low", "static_high"))
            return [
                None if size is None else size + before + after
                for size, before, after in zip(self._whole(operands[0]), low, high, strict=True)
            ]
        if name == "tensor.concat":
            along = ir.IntegerAttr(operation.attributes["dim"]).value
            parts = [self.size(operand, along) for operand in operands]
            whole = self._whole(operands[0])
            known = [part for part in parts if part is not None]
            whole[along] = sum(known, np.asarray(0)) if len(known) == len(parts) else None
            return whole
        return None

    def _whole(self, value: ir.Value) -> Shape:
        if not isinstance(value.type, ir.RankedTensorType):
            return []
        return [self.size(value, dimension) for dimension in range(value.type.rank)]

    def _stated(self, static: Sequence[int], dynamic: Sequence[ir.Value]) -> Shape:
        """Sizes of which those that aren't numbers are values, in order."""
        values = iter(dynamic)
        return [self.numbers.get(next(values)) if is_dynamic(size) else np.asarray(size) for size in static]


def _product(sizes: Sequence[Samples | None]) -> Samples | None:
    product = np.asarray(1)
    for size in sizes:
        if size is None:
            return None
        product = product * size
    return product


def _applied(expression: ir.AffineExpr, operands: Sequence[Samples], dimensions: int) -> Samples:
    if isinstance(expression, ir.AffineConstantExpr):
        return np.asarray(expression.value)
    if isinstance(expression, ir.AffineDimExpr):
        return operands[int(expression.position)]
    if isinstance(expression, ir.AffineSymbolExpr):
        return operands[dimensions + int(expression.position)]
    both = (_applied(side, operands, dimensions) for side in (expression.lhs, expression.rhs))
    for kind, operation in _AFFINE.items():
        if isinstance(expression, kind):
            return np.asarray(operation(*both))
    raise AssertionError(f"{expression} is of no kind of affine expressions")


def _ceildiv(dividend: Samples, divisor: Samples) -> Samples:
    return np.asarray(-(-dividend // divisor))


def _truncating(dividend: Samples, divisor: Samples) -> Samples:
    return np.asarray(np.sign(dividend) * np.sign(divisor) * (np.abs(dividend) // np.abs(divisor)))


def _to_integer(number: Samples) -> Samples:
    return np.asarray(np.trunc(number), np.int64)


def _as_float(number: Samples) -> Samples:
    return np.asarray(number, np.float64)


def _same(number: Samples) -> Samples:
    return number


_AFFINE: Mapping[type, Callable[[Samples, Samples], Samples]] = {
    ir.AffineAddExpr: np.add,
    ir.AffineMulExpr: np.multiply,
    ir.AffineFloorDivExpr: np.floor_divide,
    ir.AffineCeilDivExpr: _ceildiv,
    ir.AffineModExpr: np.mod,
}
_COMPARISONS: Sequence[Callable[..., Samples]] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    # Of sizes, which aren't negative, the same without a sign.
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)
_ARITHMETIC: Mapping[str, Callable[..., Samples]] = {
    "arith.index_cast": _same,
    "arith.index_castui": _same,
    "arith.extsi": _same,
    "arith.extui": _same,
    "arith.trunci": _same,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.floordivsi": np.floor_divide,
    "arith.ceildivsi": _ceildiv,
    "arith.ceildivui": _ceildiv,
    "arith.divsi": _truncating,
    "arith.divui": np.floor_divide,
    "arith.remsi": np.fmod,
    "arith.remui": np.mod,
    "arith.maxsi": np.maximum,
    "arith.maxui": np.maximum,
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.select": np.where,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.sitofp": _as_float,
    "arith.uitofp": _as_float,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.extf": _same,
    "arith.truncf": _same,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
}
