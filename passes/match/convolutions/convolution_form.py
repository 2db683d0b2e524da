"""The form of a convolution: what its loops are, and in which order its operands have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch

Sizes: TypeAlias = dict[str, int]
"""Those of an operand, by the letters of its layout."""


@dataclass(frozen=True)
class ConvolutionForm:
    """A convolution `out[n, o, f] += input[n, strides*o + dilations*r, c] * filter[r, c, f]`.

    A layout has one letter per dimension of an operand: `n` batch, `g` group, `c` input channel, `f` output
    channel and `0`, `1`, `2` the spatial dimensions: of the outputs in the output, of the taps in the filter.
    """

    operation: ir.Operation
    layouts: tuple[str, str, str]
    """Of input, filter and output."""
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def sizes(self) -> tuple[Sizes, Sizes, Sizes]:
        """Of input, filter and output."""
        first, second, third = (
            dict(zip(layout, operand.type.shape, strict=True))
            for layout, operand in zip(self.layouts, self.operation.operands, strict=True)
        )
        return first, second, third

    @property
    def spatial(self) -> list[str]:
        """The letters of the spatial dimensions."""
        return [str(index) for index in range(len(self.strides))]

    @property
    def sums_over_images(self) -> bool:
        """Whether what is summed over is outermost in both operands, as images are: then both are images.

        Such a sum is the gradient by the filter of a convolution, that by whose outputs is the filter here.
        """
        input_layout, filter_layout, _ = self.layouts
        return input_layout[0] == filter_layout[0] == "c"


def convolutions(module: ir.Operation) -> Iterator[ir.Operation]:
    """The convolutions of `module` in program order, gradients by filters among them."""
    return (operation for operation in walk(module) if is_convolution(operation))


def is_convolution(operation: ir.Operation) -> bool:
    """Whether `operation` multiplies windows of one operand by another and sums; pooling only sums."""
    if not operation.name.startswith("linalg.") or not linalg_structure.isa_convolution_op(operation):
        return False
    return any(
        inner.operation.name in ("arith.mulf", "arith.muli")
        for inner in operation.regions[0].blocks[0].operations
    )


def match_form(operation: ir.Operation) -> ConvolutionForm | NoMatch:
    """The form of `operation`, for which `is_convolution` holds, or why it isn't supported."""
    if len(operation.operands) != 3:
        return NoMatch(operation, "it is quantized")
    if not all(isinstance(operand.type, ir.RankedTensorType) for operand in operation.operands):
        return NoMatch(operation, "its operands are not tensors")
    if len({operand.type.element_type for operand in operation.operands}) != 1:
        return NoMatch(operation, "its operands have different element types")
    if not _multiplies_and_adds(operation.regions[0].blocks[0]):
        return NoMatch(operation, "its body is not a multiplication and an addition")
    dimensions = linalg_structure.infer_convolution_dimensions(operation)
    if dimensions is None:
        return NoMatch(operation, "its dimensions can't be inferred")
    batch, depth = list(dimensions.batch), list(dimensions.depth)
    input_channel, output_channel = list(dimensions.input_channel), list(dimensions.output_channel)
    output_image, filter_loop = list(dimensions.output_image), list(dimensions.filter_loop)
    if len(batch) != 1:
        return NoMatch(operation, f"it has {len(batch)} batch dimensions")
    if len(depth) > 1 or len(input_channel) > 1 or len(output_channel) > 1:
        return NoMatch(operation, "a channel is spread over several dimensions")
    if not depth and not (input_channel and output_channel):
        return NoMatch(operation, "it has no channel dimension")
    if not 1 <= len(output_image) <= 3:
        return NoMatch(operation, f"it has {len(output_image)} spatial dimensions")
    letters = {batch[0]: "n"}
    letters |= (
        dict.fromkeys(depth, "g") | dict.fromkeys(input_channel, "c") | dict.fromkeys(output_channel, "f")
    )
    letters |= {loop: str(index) for index, loop in enumerate(output_image)}
    letters |= {loop: str(index) for index, loop in enumerate(filter_loop)}
    first, second, third = (
        "".join(letters[_first_dimension(result)] for result in indexing_map.results)
        for indexing_map in _indexing_maps(operation)
    )
    return ConvolutionForm(
        operation, (first, second, third), tuple(dimensions.strides), tuple(dimensions.dilations)
    )


def _indexing_maps(operation: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(attribute).value for attribute in linalg_structure.get_indexing_maps(operation)]


def _first_dimension(expression: ir.AffineExpr) -> int:
    """The dimension of a loop index, or that of an output's position in a sum of it and a tap's."""
    while not isinstance(expression, ir.AffineDimExpr):
        expression = expression.lhs
    return int(expression.position)


def _multiplies_and_adds(body: ir.Block) -> bool:
    """Whether `body` is `accumulator + input * filter`, in any order of operands."""
    if [operation.operation.name for operation in body.operations] != [
        "arith.mulf",
        "arith.addf",
        "linalg.yield",
    ]:
        return False
    product, total, end = body.operations
    factor, weight, accumulator = body.arguments
    return (
        set(product.operands) == {factor, weight}
        and set(total.operands) == {product.results[0], accumulator}
        and end.operands[0] == total.results[0]
    )
