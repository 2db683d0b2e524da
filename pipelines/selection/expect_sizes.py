"""Note which sizes are expected of images whose sizes are known only at run time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iree.winograd.dialect.attributes import sizes_attribute
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import check_options, same_option
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.match.convolutions.convolution_form import ConvolutionForm, convolutions, match_form
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.expected_size import (
    EXPECTED_BATCH_ATTRIBUTE_NAME,
    EXPECTED_SIZE_ATTRIBUTE_NAME,
)
from iree.winograd.passes.match.unknown_sizes.size_algebra import SizeExpression
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions

from .options import WinogradOptions

EXPECTED_SIZE = 224
"""Of each dimension of an image, unless the user says other ones."""
EXPECTED_LENGTH = 16384
"""Of a signal, the only size of whose that isn't known is that."""
_IMPORT = "hal.tensor.import"
_FUNCTIONS = ("func.func", "util.func")
_LEAST_IMAGE_RANK = 3


@dataclass(frozen=True)
class ExpectedSizes:
    """What a function's sizes are expected to be, and which of them are certain to be the same."""

    expressions: SizeExpressions
    of_arguments: Mapping[tuple[int, int], int]
    """By the number of an argument, and of its dimension."""

    @staticmethod
    def of(function: ir.Operation, size_hint: tuple[int, ...]) -> ExpectedSizes:
        """Those of the values in a function's first block."""
        return ExpectedSizes(SizeExpressions.of(function), _expected_sizes(function, size_hint))

    def spatial(self, image: ir.Value) -> tuple[int, ...] | None:
        """The spatial sizes that are expected of a channels-last image; None where they don't follow."""
        sizes = [self._expected(image, dimension) for dimension in range(1, image.type.rank - 1)]
        known = tuple(size for size in sizes if size is not None and size > 0)
        return known if len(known) == len(sizes) else None

    def are_same(self, image: ir.Value, other: ir.Value) -> bool:
        """Whether channels-last images of one rank are certain to have the same sizes but for channels."""
        return all(
            (size := self.expressions.size(image, dimension)) is not None
            and size == self.expressions.size(other, dimension)
            for dimension in range(image.type.rank - 1)
        )

    def _expected(self, value: ir.Value, dimension: int) -> int | None:
        size = self.expressions.size(value, dimension)
        if size is None:
            return None
        number = self.expressions.algebra.value(size, lambda *argument: self.of_arguments.get(argument, 1))
        return number if isinstance(number, int) else None


@register_pass("winograd-expect-sizes")
@dataclass(frozen=True)
class ExpectSizes:
    """Note which sizes are expected of images whose sizes are known only at run time.

    Implementations are chosen for these. Those of the program's arguments are the user's, or 224 for each
    dimension of an image and 16384 for a signal's; what follows for a convolution's input the program's own
    arithmetic says. It also has to prove that there are as many outputs as the input allows, whatever the
    sizes: no kernel is told otherwise. A convolution of which it doesn't gets no note, and stays as it is.
    Kernels of a filter's gradient are told the sizes of image and outputs, which are often arguments both:
    the image that is expected is the least that allows the outputs that are. An open batch is noted, too,
    where the hint has a number for it: it is the first of as many as the first images have open sizes. A hint
    of more numbers than any argument has open sizes is an error.

        %r = linalg.conv_2d_nchw_fchw ins(%padded, %w : tensor<1x8x?x?xf32>, tensor<4x8x3x3xf32>)
               outs(%y : tensor<1x4x?x?xf32>)
      becomes
        %r = linalg.conv_2d_nchw_fchw {winograd.expected_size = array<i64: 226, 226>}
               ins(%padded, %w : tensor<1x8x?x?xf32>, tensor<4x8x3x3xf32>) outs(%y : tensor<1x4x?x?xf32>)
    """

    size_hint: tuple[int, ...] = same_option(WinogradOptions, "size_hint")

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, module: ir.Operation) -> None:
        subjects = [each for each in convolutions(module) if _has_unknown_sizes(each)]
        functions = dict.fromkeys(each.parent.operation for each in subjects if _is_outermost(each))
        _check_length(self.size_hint, module)
        expressions = {function: SizeExpressions.of(function) for function in functions}
        hints = {function: _expected_sizes(function, self.size_hint) for function in functions}

        def note(operation: ir.Operation) -> None:
            form, function = match_form(operation), operation.parent.operation
            if function in expressions and not isinstance(form, NoMatch):
                _note(form, expressions[function], hints[function])

        rewrite_each("convolution", subjects, note)


def _has_unknown_sizes(operation: ir.Operation) -> bool:
    return any(
        isinstance(operand.type, ir.RankedTensorType) and not operand.type.has_static_shape
        for operand in operation.operands
    )


def _is_outermost(operation: ir.Operation) -> bool:
    """Whether it is in a function's first block."""
    function = operation.parent.operation
    return function.name in _FUNCTIONS and operation.block == function.regions[0].blocks[0]


def _expected_sizes(function: ir.Operation, hint: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """For numbers of arguments and dimensions of them the sizes that are expected.

    Batches, the first dimensions, are among them where `hint` has one.
    """
    expected: dict[tuple[int, int], int] = {}
    types = _argument_types(function)
    batch = _expected_batch(types.values(), hint)
    if batch is not None:
        expected |= {(number, 0): batch for number, type_ in types.items() if _is_open(type_, 0)}
        hint = hint[1:]
    for number, type_ in types.items():
        unknown = [each for each in range(1, type_.rank) if type_.is_dynamic_dim(each)]
        default = EXPECTED_LENGTH if type_.rank == 3 and len(unknown) == 1 else EXPECTED_SIZE
        sizes = [default] * len(unknown)
        if hint:
            given = hint * len(unknown) if len(hint) == 1 else hint
            sizes = [*sizes, *given][-len(unknown) :] if unknown else []
        expected |= {(number, each): size for each, size in zip(unknown, sizes, strict=True)}
    return expected


def _check_length(hint: tuple[int, ...], module: ir.Operation) -> None:
    """Raises `PassError` where sizes are open, but of no argument as many as the hint has numbers."""
    outermost = [each.operation for each in module.regions[0].blocks[0]]
    functions = [each for each in outermost if each.name in _FUNCTIONS]
    opened = {
        function: max((len(_open_sizes(each)) for each in _argument_types(function).values()), default=0)
        for function in functions
    }
    most = max(opened.values(), default=0)
    if not 0 < most < len(hint):
        return
    numbers = ", ".join(map(str, hint))
    sizes = "one size" if most == 1 else f"{most} sizes"
    function = next(each for each in functions if opened[each] == most)
    function.location.emit_error(
        f"size_hint has {len(hint)} numbers, {numbers}, but at most {sizes} of an argument are open"
    )
    raise PassError


def _argument_types(function: ir.Operation) -> dict[int, ir.RankedTensorType]:
    """The types of the arguments that are tensors, by their numbers."""
    types = {}
    for number, argument in enumerate(function.regions[0].blocks[0].arguments):
        imported = [use.owner.operation for use in argument.uses if use.owner.operation.name == _IMPORT]
        type_ = imported[0].results[0].type if imported else argument.type
        if isinstance(type_, ir.RankedTensorType):
            types[number] = type_
    return types


def _is_open(type_: ir.RankedTensorType, dimension: int) -> bool:
    return type_.rank > dimension and bool(type_.is_dynamic_dim(dimension))


def _open_sizes(type_: ir.RankedTensorType) -> list[int]:
    """Its dimensions whose sizes are known only at run time."""
    return [each for each in range(type_.rank) if type_.is_dynamic_dim(each)]


def _expected_batch(types: Iterable[ir.RankedTensorType], hint: tuple[int, ...]) -> int | None:
    """The first number of `hint`, if it has one for each open size of the first images, of an open batch."""
    for type_ in types:
        opened = _open_sizes(type_)
        if type_.rank >= _LEAST_IMAGE_RANK and opened:
            return hint[0] if opened[0] == 0 and len(opened) == len(hint) else None
    return None


def _note(form: ConvolutionForm, sizes: SizeExpressions, hints: Mapping[tuple[int, int], int]) -> None:
    find = _expected_of_gradient if form.sums_over_images else _expected_of_convolution
    expected = find(form, sizes, hints)
    if expected is not None:
        form.operation.attributes[EXPECTED_SIZE_ATTRIBUTE_NAME] = sizes_attribute(expected)
    batch = _batch(form, sizes, hints)
    if batch is not None:
        integer = ir.IntegerType.get_signless(64)
        form.operation.attributes[EXPECTED_BATCH_ATTRIBUTE_NAME] = ir.IntegerAttr.get(integer, batch)


def _batch(form: ConvolutionForm, sizes: SizeExpressions, hints: Mapping[tuple[int, int], int]) -> int | None:
    """The images that are expected of an open batch; None for a known one, or where no hint says."""
    image = form.operation.operands[0]
    # What a gradient sums over is named as a convolution's channels are.
    dimension = form.layouts[0].index("c" if form.sums_over_images else "n")
    size = sizes.size(image, dimension) if image.type.is_dynamic_dim(dimension) else None
    if size is None:
        return None
    number = sizes.algebra.value(size, lambda *argument: hints.get(argument, 0))
    return number if isinstance(number, int) and number > 0 else None


def _expected_of_gradient(
    form: ConvolutionForm, sizes: SizeExpressions, hints: Mapping[tuple[int, int], int]
) -> list[int] | None:
    """The image of a filter's gradient that allows the outputs that are expected; None for none."""
    _, gradient_layout, taps_layout = form.layouts
    _, gradient, taps = form.operation.operands
    expected = []
    # What is a tap's step for the sum is an output's for the convolution.
    for letter, dilation, stride in zip(form.spatial, form.strides, form.dilations, strict=True):
        outputs = sizes.size(gradient, gradient_layout.index(letter))
        count = taps.type.shape[taps_layout.index(letter)]
        known = None if outputs is None else sizes.algebra.value(outputs, lambda *each: hints.get(each, 1))
        if is_dynamic(count) or not isinstance(known, int) or known < 1:
            return None
        expected.append((known - 1) * stride + dilation * (count - 1) + 1)
    return expected


def _expected_of_convolution(
    form: ConvolutionForm, sizes: SizeExpressions, hints: Mapping[tuple[int, int], int]
) -> list[int] | None:
    """What is expected of a convolution's input; None where it may allow other outputs than there are."""
    input_layout, filter_layout, output_layout = form.layouts
    image, filters, init = form.operation.operands
    algebra, expected = sizes.algebra, []
    for letter, stride, dilation in zip(form.spatial, form.strides, form.dilations, strict=True):
        taps = filters.type.shape[filter_layout.index(letter)]
        size = sizes.size(image, input_layout.index(letter))
        outputs = sizes.size(init, output_layout.index(letter))
        is_unknown = image.type.is_dynamic_dim(input_layout.index(letter))
        if size is None or outputs is None or is_dynamic(taps):
            return None
        if is_unknown != init.type.is_dynamic_dim(output_layout.index(letter)):
            return None
        window = dilation * (taps - 1) + 1
        beyond_first = algebra.sum(size, SizeExpression(-window))
        steps = algebra.floor_divided(beyond_first, SizeExpression(stride))
        if algebra.sum(steps, SizeExpression(1)) != outputs:
            return None
        of_arguments = algebra.value(size, lambda *argument: hints.get(argument, 1))
        if not isinstance(of_arguments, int) or of_arguments < window:
            return None
        expected.append(of_arguments)
    return expected
