"""One description for every convolution: named or generic, any layout, one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from iree.winograd.dialect.bindings import ir, linalg
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.padding import Padding, match_padding
from iree.winograd.passes.match.problem import ConvolutionProblem


@dataclass(frozen=True)
class Convolution(ConvolutionProblem):
    """A convolution `out[n, o, f] += input[n, strides*o + dilations*r, c] * filter[r, c, f]` of a program.

    A layout has one letter per dimension of the operand: `n` batch, `g` group, `c` input channel, `f` output
    channel and `0`, `1`, `2` the spatial dimensions. Padding is an operation of its own, so its sizes are 0.
    """

    operation: ir.Operation = field(kw_only=True)
    input_layout: str = field(kw_only=True)
    filter_layout: str = field(kw_only=True)
    output_layout: str = field(kw_only=True)

    @property
    def problem(self) -> ConvolutionProblem:
        """What is to be computed, padding with zeros in front of it included."""
        stated = {each.name: getattr(self, each.name) for each in fields(ConvolutionProblem)}
        padding = match_padding(self.input) if self.is_channels_last else None
        if isinstance(padding, Padding) and len(padding.low) == self.spatial_rank:
            stated |= {"padding_low": padding.low, "padding_high": padding.high}
            stated["input_size"] = tuple(padding.source.type.shape[1:-1])
        return ConvolutionProblem(**stated)

    @property
    def element_type(self) -> ir.Type:
        """Of all operands."""
        return self.init.type.element_type

    @property
    def input(self) -> ir.Value:
        return self.operation.operands[0]

    @property
    def filter(self) -> ir.Value:
        return self.operation.operands[1]

    @property
    def init(self) -> ir.Value:
        """What the convolution is added to."""
        return self.operation.operands[2]

    @property
    def channels_last_layouts(self) -> tuple[str, str, str]:
        """The layouts of input, filter and output with channels last, groups outside of channels.

        In a filter groups are outside of output channels only: together they are the channels of the output.
        """
        spatial = "".join(map(str, range(self.spatial_rank)))
        image = "n" + spatial
        return (
            image + _channels(self.input_layout),
            spatial + _channels(self.filter_layout),
            image + _channels(self.output_layout),
        )

    @property
    def is_channels_last(self) -> bool:
        return self.channels_last_layouts == (self.input_layout, self.filter_layout, self.output_layout)


def convolutions(module: ir.Operation) -> Iterator[ir.Operation]:
    """The convolutions of `module` in program order."""
    return (operation for operation in walk(module) if is_convolution(operation))


def is_convolution(operation: ir.Operation) -> bool:
    """Whether `operation` multiplies windows of one operand by another and sums; pooling only sums."""
    if not operation.name.startswith("linalg.") or not linalg.isa_convolution_op(operation):
        return False
    return any(
        inner.operation.name in ("arith.mulf", "arith.muli")
        for inner in operation.regions[0].blocks[0].operations
    )


def match_convolution(operation: ir.Operation) -> Convolution | NoMatch:
    """Describe `operation`, for which `is_convolution` holds, or say why its form isn't supported."""
    if not all(isinstance(operand.type, ir.RankedTensorType) for operand in operation.operands):
        return NoMatch(operation, "its operands are not tensors")
    if len(operation.operands) != 3:
        return NoMatch(operation, "it is quantized")
    if len({operand.type.element_type for operand in operation.operands}) != 1:
        return NoMatch(operation, "its operands have different element types")
    if not _multiplies_and_adds(operation.regions[0].blocks[0]):
        return NoMatch(operation, "its body is not a multiplication and an addition")
    dimensions = linalg.infer_convolution_dimensions(operation)
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
    layouts = [
        "".join(letters[_first_dimension(result)] for result in indexing_map.results)
        for indexing_map in _indexing_maps(operation)
    ]
    sizes = [
        dict(zip(layout, operand.type.shape, strict=True))
        for layout, operand in zip(layouts, operation.operands, strict=True)
    ]
    return _describe(operation, layouts, sizes, tuple(dimensions.strides), tuple(dimensions.dilations))


def _describe(
    operation: ir.Operation,
    layouts: list[str],
    sizes: list[dict[str, int]],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Convolution | NoMatch:
    input_sizes, filter_sizes, output_sizes = sizes
    dynamic = ir.ShapedType.get_dynamic_size()
    spatial = [str(index) for index in range(len(strides))]
    for name, operand_sizes in zip(("input", "filter", "output"), sizes, strict=True):
        if any(size == dynamic for letter, size in operand_sizes.items() if letter != "n"):
            return NoMatch(operation, f"its {name} has a dynamic dimension other than the batch")
        if 0 in operand_sizes.values():
            return NoMatch(operation, f"its {name} has no elements")
    if (input_sizes["n"] == dynamic) != (output_sizes["n"] == dynamic):
        return NoMatch(operation, "its batch is known at compile time for one operand only")
    groups = filter_sizes.get("g", 1)
    unpadded = (0,) * len(spatial)
    convolution = Convolution(
        operation=operation,
        input_layout=layouts[0],
        filter_layout=layouts[1],
        output_layout=layouts[2],
        batch=None if output_sizes["n"] == dynamic else output_sizes["n"],
        input_size=tuple(input_sizes[letter] for letter in spatial),
        padding_low=unpadded,
        padding_high=unpadded,
        kernel_size=tuple(filter_sizes[letter] for letter in spatial),
        strides=strides,
        dilations=dilations,
        groups=groups,
        input_channels=groups * input_sizes.get("c", 1),
        output_channels=groups * output_sizes.get("f", 1),
        element_types=ElementTypes.all_of(str(operation.operands[0].type.element_type)),
    )
    output_size = tuple(output_sizes[letter] for letter in spatial)
    if output_size != convolution.output_size:
        return NoMatch(
            operation,
            f"its output {output_size} is smaller than the {convolution.output_size} that its input allows",
        )
    return convolution


def _channels(layout: str) -> str:
    # A filter has both c and f; in an image g is outside of the one that it has.
    return "".join(letter for letter in ("cgf" if "f" in layout else "gc") if letter in layout)


def _indexing_maps(operation: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(attribute).value for attribute in linalg.get_indexing_maps(operation)]


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
