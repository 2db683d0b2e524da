"""One description for every convolution: named or generic, any layout, one to three spatial dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.convolution_form import ConvolutionForm, match_form
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.exact_type import exact_type, rounded_result_type
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.layouts.image_layout import comes_channels_first, leaves_channels_first
from iree.winograd.passes.match.layouts.padding import match_paddings
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.unknown_sizes.expected_size import (
    expected_batch,
    expected_size,
    unpadded_size,
)
from iree.winograd.passes.match.values.constants import is_known_at_load

_COUNTED = {"g": "groups", "c": "input channels", "f": "output channels"}
"""What sizes of operands are, by the letters of layouts."""


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
        """What is to be computed, padding with zeros in front of it and transpositions around it included."""
        stated = {each.name: getattr(self, each.name) for each in fields(ConvolutionProblem)}
        # Whatever the layouts of filter and output, `winograd-fuse-pad` finds the padding of such an input.
        if self.input_layout == self.channels_last_layouts[0] and (image := self.image) is not None:
            padding, _ = match_paddings(image)
            stated |= {"padding_low": padding.low, "padding_high": padding.high}
            stated["input_size"] = unpadded_size(self.input_size, padding.low, padding.high)
            stated["input_channels_first"] = comes_channels_first(padding.source)
        if self.is_channels_last:
            stated["output_channels_first"] = leaves_channels_first(self.operation.results[0])
        stated["exact_type"] = exact_type(self.input, self.filter)
        stated["rounded_type"] = rounded_result_type(self.operation.results[0])
        stated["runtime_filter"] = not is_known_at_load(self.filter)
        return ConvolutionProblem(**stated)

    @property
    def image(self) -> ir.Value | None:
        """The input with all channels in its last dimension, if it is channels last."""
        if not {"g", "c"} <= set(self.input_layout):
            return self.input
        groups = defining_operation(self.input)
        if groups is None or groups.name != "tensor.expand_shape":
            return None
        image = groups.operands[0]
        return image if image.type.shape[:-1] == self.input.type.shape[:-2] else None

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


def match_convolution(operation: ir.Operation) -> Convolution | NoMatch:
    """Describe `operation`, for which `is_convolution` holds, or say why its form isn't supported."""
    form = match_form(operation)
    if isinstance(form, NoMatch):
        return form
    if form.sums_over_images:
        return NoMatch(operation, "it is the gradient of a filter, a sum over images")
    return _describe(form)


def _describe(form: ConvolutionForm) -> Convolution | NoMatch:
    operation = form.operation
    input_sizes, filter_sizes, output_sizes = form.sizes
    dynamic = ir.ShapedType.get_dynamic_size()
    spatial = form.spatial
    unknown = tuple(
        number
        for number, letter in enumerate(spatial)
        if dynamic in (input_sizes[letter], output_sizes[letter])
    )
    if unknown and (expected := expected_size(operation)) is not None:
        # That there are as many outputs as the input allows is known of the program, not of the types.
        input_sizes = input_sizes | {spatial[number]: expected[number] for number in unknown}
        of_outputs = {
            spatial[number]: (
                expected[number] - form.dilations[number] * (filter_sizes[spatial[number]] - 1) - 1
            )
            // form.strides[number]
            + 1
            for number in unknown
        }
        output_sizes = output_sizes | of_outputs
    elif unknown:
        return NoMatch(operation, "its output isn't known to be as large as its input allows")
    operands = {"input": input_sizes, "filter": filter_sizes, "output": output_sizes}
    for name, operand_sizes in operands.items():
        if any(size == dynamic for letter, size in operand_sizes.items() if letter != "n"):
            return NoMatch(operation, f"its {name} has a dynamic dimension other than the batch")
        if 0 in operand_sizes.values():
            return NoMatch(operation, f"its {name} has no elements")
    for letter in "gcf":
        # Of operands of unknown sizes MLIR's verifier doesn't look at the others.
        of_operands = {sizes[letter] for sizes in operands.values() if letter in sizes}
        if len(of_operands) > 1:
            counts = " and ".join(map(str, sorted(of_operands)))
            return NoMatch(operation, f"its operands have {counts} {_COUNTED[letter]}")
    if (input_sizes["n"] == dynamic) != (output_sizes["n"] == dynamic):
        return NoMatch(operation, "its batch is known at compile time for one operand only")
    groups = filter_sizes.get("g", 1)
    unpadded = (0,) * len(spatial)
    convolution = Convolution(
        operation=operation,
        input_layout=form.layouts[0],
        filter_layout=form.layouts[1],
        output_layout=form.layouts[2],
        batch=None if output_sizes["n"] == dynamic else output_sizes["n"],
        input_size=tuple(input_sizes[letter] for letter in spatial),
        padding_low=unpadded,
        padding_high=unpadded,
        kernel_size=tuple(filter_sizes[letter] for letter in spatial),
        strides=form.strides,
        dilations=form.dilations,
        groups=groups,
        input_channels=groups * input_sizes.get("c", 1),
        output_channels=groups * output_sizes.get("f", 1),
        element_types=ElementTypes.of_operation(operation),
        unknown_sizes=unknown,
        expected_batch=expected_batch(operation) if output_sizes["n"] == dynamic else None,
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
