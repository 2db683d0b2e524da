"""What is computed of each element of an image alone, and of where its pixel is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.navigation import only_user
from iree.winograd.passes.match.values.conversions import rounded_type, rounding_type

_OF_POSITIONS = frozenset(
    f"arith.{name}"
    for name in ("addi", "subi", "muli", "minsi", "maxsi", "index_cast", "extsi", "trunci", "constant")
)
"""What gives integers, none of which depends on an element."""
_CONVERSIONS = ("arith.extf", "arith.truncf")
"""Between f32 and half precision, which numbers of elements are rounded to."""


@dataclass(frozen=True)
class Finishing:
    """Elementwise operations one after the other, the first of which alone reads an image `N x H... x C`."""

    operations: tuple[ir.Operation, ...]
    dimensions: tuple[tuple[int, ...], ...]
    """For each operation, the dimension of the image that each of its loops is."""
    result: ir.Value
    """Of the last one; the image without any."""

    @property
    def order(self) -> tuple[int, ...]:
        """The dimension of the image that each of the result's is."""
        return self.dimensions[-1] if self.dimensions else tuple(range(self.result.type.rank))

    @property
    def half(self) -> ir.Type | None:
        """The type of half precision that the result is rounded to, in f32; None where it isn't."""
        body = self.operations[-1].regions[0].blocks[0] if self.operations else None
        return None if body is None else rounded_type(body.operations[-1].operation.operands[0])

    @property
    def rounded_once(self) -> Finishing:
        """The same, but that only the result is rounded, not what goes on to be computed with.

        Sums of half precision are rounded before they are divided by the number of their elements.
        """
        *before, last = zip(self.operations, self.dimensions, strict=True)
        kept = [*(each for each in before if rounding_type(each[0]) is None), last]
        operations, dimensions = zip(*kept, strict=True)
        return Finishing(operations, dimensions, self.result)

    @property
    def of_elements(self) -> Finishing:
        """The first ones of them, as far as they compute f32 of elements alone, in their order."""
        found = Finishing((), (), self.operations[0].operands[0] if self.operations else self.result)
        for operation, dimensions in zip(self.operations, self.dimensions, strict=True):
            if list(dimensions) != sorted(dimensions) or not _is_of_element(operation.regions[0].blocks[0]):
                break
            operations = (*found.operations, operation)
            found = Finishing(operations, (*found.dimensions, dimensions), operation.results[0])
        return found


def match_finishing(image: ir.Value) -> Finishing:
    """All that is computed of an image of f32 in a row, up to what transposes it."""
    found = Finishing((), (), image)
    in_order = found.order
    while found.order == in_order and (user := only_user(found.result)) is not None:
        elementwise = match_elementwise(user)
        if not isinstance(elementwise, Elementwise):
            break
        order = _read_order(elementwise, found.result)
        if order is None or not _computes_of_pixel(elementwise.body, order):
            break
        found = Finishing((*found.operations, user), (*found.dimensions, tuple(order)), elementwise.result)
    return found


def _read_order(elementwise: Elementwise, value: ir.Value) -> Sequence[int] | None:
    """The dimension of `value`, all that an operation reads, that each of its loops is."""
    read = elementwise.indexing_maps[0]
    if elementwise.inputs[:-1] != (value,) or elementwise.reads_init or captures(elementwise.body):
        return None
    if not read.is_permutation or len(elementwise.body.operations) == 1:
        return None
    positions = [each.position for each in read.results]
    return [positions.index(loop) for loop in range(len(positions))]


def _computes_of_pixel(body: ir.Block, order: Sequence[int]) -> bool:
    return all(_is_of_pixel(view.operation, order) for view in body.operations)


def _is_of_pixel(operation: ir.Operation, order: Sequence[int]) -> bool:
    if operation.name == "linalg.yield":
        return isinstance(operation.operands[0].type, ir.F32Type)
    if operation.name in _CONVERSIONS:
        return all(_is_number(each.type) for each in (*operation.operands, *operation.results))
    if operation.name == "linalg.index":
        return bool(order[ir.IntegerAttr(operation.attributes["dim"]).value] < len(order) - 1)
    if not operation.name.startswith(("arith.", "math.")) or len(operation.results) != 1:
        return False
    type_, read = operation.results[0].type, [operand.type for operand in operation.operands]
    if is_of_positions(type_):
        return operation.name in _OF_POSITIONS
    if operation.name in ("arith.sitofp", "arith.cmpi"):
        return all(map(is_of_positions, read))
    return all(isinstance(each, ir.F32Type) or _is_truth(each) for each in (type_, *read))


def _is_of_element(body: ir.Block) -> bool:
    """Whether nothing is computed of positions, or rounded to half precision."""
    return not any(view.operation.name in ("linalg.index", *_CONVERSIONS) for view in body.operations)


def is_of_positions(type_: ir.Type) -> bool:
    """Whether numbers of a type are of positions: integers, but for truth values."""
    return isinstance(type_, ir.IndexType) or (isinstance(type_, ir.IntegerType) and type_.width > 1)


def _is_number(type_: ir.Type) -> bool:
    return isinstance(type_, ir.F32Type | ir.F16Type | ir.BF16Type)


def _is_truth(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width == 1
