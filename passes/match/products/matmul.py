"""Products of rows and a matrix, such as fully connected layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.exact_type import exact_type, rounded_result_type
from iree.winograd.passes.match.convolutions.problem import MatmulProblem
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.groups import merging_pixels, reassociation_of
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_zero

MAX_SPATIAL_RANK = 3
MAX_STEPS = 16
"""Operations that rows are followed through to the image whose pixels they are."""


@dataclass(frozen=True)
class Matmul:
    """A product of rows and a matrix, R x C times C x K in f32, of sizes known at compile time.

    It is the 1x1 convolution of an image with a pixel for each row.
    """

    operation: ir.Operation
    pixels: tuple[int, ...]
    """N x H... of that image: of the one whose pixels became the rows, or 1 x R."""

    @property
    def problem(self) -> MatmulProblem:
        """What is to be computed."""
        types = ElementTypes.of_operation(self.operation)
        exact, rounded = exact_type(self.rows, self.matrix), rounded_result_type(self.operation.results[0])
        return MatmulProblem.multiplying(
            self.pixels, self.input_channels, self.output_channels, types, exact, rounded
        )

    @property
    def rows(self) -> ir.Value:
        return self.operation.operands[0]

    @property
    def matrix(self) -> ir.Value:
        return self.operation.operands[1]

    @property
    def spatial_rank(self) -> int:
        return len(self.pixels) - 1

    @property
    def input_channels(self) -> int:
        return int(self.matrix.type.shape[0])

    @property
    def output_channels(self) -> int:
        return int(self.matrix.type.shape[1])


def matmuls(module: ir.Operation) -> Iterator[ir.Operation]:
    """The products of matrices of `module` in program order."""
    return (operation for operation in walk(module) if is_matmul(operation))


def is_matmul(operation: ir.Operation) -> bool:
    return bool(operation.name == "linalg.matmul")


def match_matmul(operation: ir.Operation) -> Matmul | NoMatch:
    """The product of rows and a matrix that a `linalg.matmul` is."""
    rows, matrix, init = operation.operands
    if not _multiplies_rows(operation):
        return NoMatch(operation, "an operand of it is transposed or broadcast")
    for operand in (rows, matrix, init):
        if not isinstance(operand.type.element_type, ir.F32Type):
            return NoMatch(operation, f"it has elements of type {operand.type.element_type}, not f32")
    sizes = (*rows.type.shape, *matrix.type.shape)
    if any(map(is_dynamic, sizes)):
        return NoMatch(operation, "its sizes are known only at run time")
    if 0 in sizes:
        return NoMatch(operation, "it has no elements")
    if not is_zero(init):
        return NoMatch(operation, "its sums don't begin with zero")
    return Matmul(operation, _pixels(rows))


def _multiplies_rows(operation: ir.Operation) -> bool:
    row, column, channel = (ir.AffineExpr.get_dim(position) for position in range(3))
    expected = [[row, channel], [channel, column], [row, column]]
    maps = [ir.AffineMapAttr(attribute).value for attribute in linalg_structure.get_indexing_maps(operation)]
    return [list(indexing_map.results) for indexing_map in maps] == expected


def _pixels(rows: ir.Value) -> tuple[int, ...]:
    """The sizes of the image whose pixels became `rows`.

    Products and elementwise operations on the way will compute images as well, once they are convolutions.
    """
    line = (1, rows.type.shape[0])
    value: ir.Value | None = rows
    for _ in range(MAX_STEPS):
        definition = None if value is None else defining_operation(value)
        if definition is None:
            return line
        if definition.name == "tensor.collapse_shape":
            image_type = ir.RankedTensorType(definition.operands[0].type)
            has_pixels = 1 <= image_type.rank - 2 <= MAX_SPATIAL_RANK
            merges = has_pixels and reassociation_of(definition) == merging_pixels(image_type.rank)
            pixels = tuple(image_type.shape[:-1])
            return pixels if merges and prod(pixels) == prod(line) else line
        value = _operand_of_rows(definition)
    return line


def _operand_of_rows(definition: ir.Operation) -> ir.Value | None:
    """An operand of a product or elementwise operation whose rows are those of the result."""
    if is_matmul(definition):
        return definition.operands[0] if _multiplies_rows(definition) else None
    elementwise = match_elementwise(definition)
    if not isinstance(elementwise, Elementwise):
        return None
    identity = ir.AffineMap.get_identity(2)
    return next((value for value, indexing_map in elementwise.reads if indexing_map == identity), None)
