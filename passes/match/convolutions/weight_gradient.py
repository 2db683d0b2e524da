"""Gradients of a loss by the filter of a convolution: sums over all images of products with its outputs'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.convolution_form import ConvolutionForm, convolutions, match_form
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.exact_type import exact_type
from iree.winograd.passes.match.convolutions.problem import WeightGradientProblem
from iree.winograd.passes.match.layouts.padding import Padding, match_padding
from iree.winograd.passes.match.no_match import NoMatch, Reason
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.expected_size import (
    expected_batch,
    expected_size,
    unpadded_size,
)
from iree.winograd.passes.match.values.constants import is_zero

IN_SUMS_WORDS = str.maketrans("nc", "cn")
"""Images are what is summed over, as channels are in a convolution, in whose words a form is matched."""


@dataclass(frozen=True)
class WeightGradient(WeightGradientProblem):
    """The gradient `out[r, c, f] += image[n, strides*o + dilations*r, c] * gradient[n, o, f]` of a program.

    It is that by the filter of the convolution whose sizes these are; `gradient` is that by its outputs.
    Layouts have the letters of `Convolution`. Padding is an operation of its own, so its sizes are 0.
    """

    operation: ir.Operation = field(kw_only=True)
    image_layout: str = field(kw_only=True)
    gradient_layout: str = field(kw_only=True)
    filter_layout: str = field(kw_only=True)
    """Of the result."""

    @property
    def problem(self) -> WeightGradientProblem:
        """What is to be computed, padding of the image with zeros included."""
        stated = {each.name: getattr(self, each.name) for each in fields(WeightGradientProblem)}
        padding = self.padding
        if padding is not None:
            stated |= {"padding_low": padding.low, "padding_high": padding.high}
            stated["input_size"] = unpadded_size(self.input_size, padding.low, padding.high)
        stated["exact_type"] = exact_type(self.image, self.gradient)
        return WeightGradientProblem(**stated)

    @property
    def padding(self) -> Padding | None:
        """That of a channels-last image, of its spatial dimensions alone; None where there is none."""
        padding = match_padding(self.image) if self.is_channels_last else None
        rank = self.spatial_rank
        if not isinstance(padding, Padding) or any((*padding.low[rank:], *padding.high[rank:])):
            return None
        return replace(padding, low=padding.low[:rank], high=padding.high[:rank])

    @property
    def image(self) -> ir.Value:
        return self.operation.operands[0]

    @property
    def gradient(self) -> ir.Value:
        return self.operation.operands[1]

    @property
    def channels_last_layouts(self) -> tuple[str, str, str]:
        """The layouts of image, gradient and filter with channels last, groups outside of channels."""
        spatial = "".join(map(str, range(self.spatial_rank)))
        groups = "g" if "g" in self.image_layout else ""
        return f"n{spatial}{groups}c", f"n{spatial}{groups}f", f"{spatial}c{groups}f"

    @property
    def is_channels_last(self) -> bool:
        return self.channels_last_layouts == (
            self.image_layout,
            self.gradient_layout,
            self.filter_layout,
        )


def weight_gradients(module: ir.Operation) -> Iterator[ir.Operation]:
    """The operations of `module` that have the form of a weight gradient, in program order."""
    return (operation for operation in convolutions(module) if is_weight_gradient(operation))


def is_weight_gradient(operation: ir.Operation) -> bool:
    """Whether `operation`, for which `is_convolution` holds, has the form of a weight gradient."""
    form = match_form(operation)
    return isinstance(form, ConvolutionForm) and form.sums_over_images


def match_weight_gradient(operation: ir.Operation) -> WeightGradient | NoMatch:
    """Describe `operation`, for which `is_weight_gradient` holds, or say why its form isn't supported."""
    form = match_form(operation)
    if isinstance(form, NoMatch):
        return form
    if reason := _dynamic_reason(form):
        return NoMatch(operation, reason)
    if any(0 in operand.type.shape for operand in operation.operands):
        return NoMatch(operation, "it has no elements")
    if not is_zero(operation.operands[2]):
        return NoMatch(operation, "its sums don't begin with zero")
    return _describe(form)


def _dynamic_reason(form: ConvolutionForm) -> Reason | None:
    """What of the sizes is known only at run time, if it is another than the batch and those of images."""
    image, gradient, _ = form.sizes
    for name, sizes in zip(("image", "gradient", "filter"), form.sizes, strict=True):
        may_be_dynamic = () if name == "filter" else ("c", *form.spatial)
        if any(is_dynamic(size) for letter, size in sizes.items() if letter not in may_be_dynamic):
            return f"its {name} has a dynamic dimension other than the batch and those of images"
    if is_dynamic(image["c"]) != is_dynamic(gradient["c"]):
        return "its batch is known at compile time for one operand only"
    if any(is_dynamic(image[letter]) != is_dynamic(gradient[letter]) for letter in form.spatial):
        return "a size is known at compile time for one operand only"
    if _unknown_sizes(form) and expected_size(form.operation) is None:
        return "no sizes are expected of its image"
    return None


def _unknown_sizes(form: ConvolutionForm) -> tuple[int, ...]:
    """The spatial dimensions whose sizes are known only at run time."""
    image = form.sizes[0]
    return tuple(number for number, letter in enumerate(form.spatial) if is_dynamic(image[letter]))


def _describe(form: ConvolutionForm) -> WeightGradient | NoMatch:
    image, gradient, taps = form.sizes
    groups, unpadded = taps.get("g", 1), (0,) * len(form.strides)
    unknown = _unknown_sizes(form)
    expected = expected_size(form.operation) if unknown else None
    input_size = expected or tuple(image[letter] for letter in form.spatial)
    image_layout, gradient_layout, filter_layout = (
        layout.translate(IN_SUMS_WORDS) for layout in form.layouts
    )
    if "n" not in taps:
        return NoMatch(form.operation, "its filter has no input channels")
    found = WeightGradient(
        operation=form.operation,
        image_layout=image_layout,
        gradient_layout=gradient_layout,
        filter_layout=filter_layout,
        batch=None if is_dynamic(image["c"]) else image["c"],
        input_size=input_size,
        padding_low=unpadded,
        padding_high=unpadded,
        kernel_size=tuple(taps[letter] for letter in form.spatial),
        # What is a tap's step for the sum is an output's for the convolution.
        strides=form.dilations,
        dilations=form.strides,
        groups=groups,
        input_channels=groups * image["n"],
        output_channels=groups * gradient["f"],
        element_types=ElementTypes.of_operation(form.operation),
        unknown_sizes=unknown,
        expected_batch=expected_batch(form.operation) if is_dynamic(image["c"]) else None,
    )
    # There are gradients of as many outputs as the program says, whatever its image allows: kernels are told.
    outputs = tuple(
        found.output_size[number] if number in unknown else gradient[letter]
        for number, letter in enumerate(form.spatial)
    )
    if outputs != found.output_size:
        reason = f"its image allows outputs of {found.output_size}, but there are gradients of {outputs}"
        return NoMatch(form.operation, reason)
    return found


def tile_product_maps() -> ir.ArrayAttr:
    """The indexing maps of a `linalg.batch_matmul` of [A, T, C], transposed, and [A, T, K]."""
    a, row, column, tile = (ir.AffineExpr.get_dim(position) for position in range(4))
    indices = ([a, tile, row], [a, tile, column], [a, row, column])
    return ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get(4, 0, each)) for each in indices])
