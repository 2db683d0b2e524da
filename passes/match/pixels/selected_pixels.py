"""Tensors that select rows or columns of an image, at positions that the program computes when it runs.

Or blend two such: images that are resized by the nearest element or linearly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, readers
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import scalar_number, splat_element
from iree.winograd.passes.match.values.conversions import only_computation, rounded_type

_LEAST_RANK = 3
"""Of images: signals."""
Read = tuple[ir.Value, ir.AffineMap]


@dataclass(frozen=True)
class SelectedPixels:
    """The tensor whose element `i` along `dimension` is that of `image` at `positions[i]`."""

    image: ir.Value
    dimension: int
    positions: ir.Value
    """Integers, a tensor of one dimension."""
    result: ir.Value


def match_selected_pixels(operation: ir.Operation) -> SelectedPixels | None:
    """What an operation selects along one dimension, as `torch.index_select` does; None for any other."""
    if operation.name != "linalg.generic":
        return None
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 1 or elementwise.reads_init:
        return None
    ((positions, read),) = elementwise.reads
    if read.n_symbols or len(read.results) != 1 or not isinstance(read.results[0], ir.AffineDimExpr):
        return None
    dimension = read.results[0].position
    extract = defining_operation(elementwise.yielded)
    if extract is None or extract.name != "tensor.extract" or extract.block != elementwise.body:
        return None
    image, *indices = extract.operands
    if image.type.rank != elementwise.result.type.rank or _is_inside(image, elementwise.body):
        return None
    position = elementwise.body.arguments[0]
    found = [
        _is_cast_of(index, position) if number == dimension else _is_loop(index, number, image.type)
        for number, index in enumerate(indices)
    ]
    return SelectedPixels(image, dimension, positions, elementwise.result) if all(found) else None


@dataclass(frozen=True)
class PixelTap:
    """Positions along a dimension, and the weights of what is there; 1 where there are none."""

    positions: ir.Value
    weights: ir.Value | None = None

    @property
    def tables(self) -> tuple[ir.Value, ...]:
        """The positions, and the weights if there are some."""
        return (self.positions,) if self.weights is None else (self.positions, self.weights)


@dataclass(frozen=True)
class BlendedPixels:
    """The tensor that is the sum of weighted pixels of `image`, selected along one dimension."""

    image: ir.Value
    dimension: int
    taps: tuple[PixelTap, ...]
    result: ir.Value
    readers: tuple[ir.Operation, ...]
    """The operations that read the image's elements."""
    rounded: ir.Type | None = None
    """The type of half precision, if any, that each product with a weight, and each sum, is rounded to."""

    @property
    def operations(self) -> list[ir.Operation]:
        """Those that make it, each after what uses it: the sum, products with weights, and readers."""
        last = self.result.owner.operation
        if last in self.readers:
            return [last]
        weighted = [operand.owner.operation for operand in list(last.operands)[:-1]]
        return [last, *weighted, *self.readers]


@dataclass(frozen=True)
class ResizedPixels:
    """The tensor that is an image with some of its dimensions resized, one after the other."""

    steps: tuple[BlendedPixels, ...]
    """The last one first, of which the next one makes the image; of a later dimension than that."""

    @property
    def image(self) -> ir.Value:
        """What all of them are of."""
        return self.steps[-1].image

    @property
    def rounded(self) -> ir.Type | None:
        """What all sums are rounded to; None where they stay in f32, or nothing is summed."""
        return next((step.rounded for step in self.steps if step.rounded is not None), None)

    @property
    def operations(self) -> list[ir.Operation]:
        """Those that make it, each after what uses it."""
        return [each for step in self.steps for each in step.operations]

    @property
    def keeps_constants(self) -> bool:
        """Whether the weights of each pixel add up to 1."""
        return all(_add_up_to_one(step.taps) for step in self.steps)


def match_resized_pixels(operation: ir.Operation, *, rounds: bool = False) -> ResizedPixels | None:
    """What resizes a channels-last image of f32, of sizes known only at run time, in its spatial dimensions.

    Of what several do one after the other, all of which nothing else reads the result. With `rounds` they may
    round their products and sums, all to the same type.
    """
    steps: list[BlendedPixels] = []
    step = _match_open(operation, rounds)
    while step is not None and (not steps or _goes_before(step, steps)):
        steps.append(step)
        former = defining_operation(step.image)
        is_alone = former is not None and is_read_by(step.image, step.readers)
        step = _match_open(former, rounds) if former is not None and is_alone else None
    return ResizedPixels(tuple(steps)) if steps else None


def _goes_before(step: BlendedPixels, later: Sequence[BlendedPixels]) -> bool:
    """Whether it resizes an earlier dimension than those after it, and rounds what it sums as these do."""
    sums = [each for each in (step, *later) if len(each.taps) > 1]
    return step.dimension < later[-1].dimension and len({each.rounded for each in sums}) <= 1


def _match_open(operation: ir.Operation, rounds: bool) -> BlendedPixels | None:
    """What resizes channels-last images of f32, of sizes known only at run time, along a dimension."""
    match = match_blended_pixels(operation)
    if match is None or (match.rounded is not None and not rounds):
        return None
    type_, read = ir.RankedTensorType(match.result.type), ir.RankedTensorType(match.image.type)
    if type_.rank < _LEAST_RANK or match.dimension not in range(1, type_.rank - 1):
        return None
    is_open = any(map(is_dynamic, (*type_.shape[1:-1], *read.shape[1:-1])))
    # Of an image with channels first the last dimension is another one.
    is_open = is_open and not is_dynamic(type_.shape[-1])
    same = (type_.shape[0], type_.shape[-1]) == (read.shape[0], read.shape[-1])
    return match if is_open and same and isinstance(type_.element_type, ir.F32Type) else None


def is_read_by(value: ir.Value, operations: Sequence[ir.Operation]) -> bool:
    """Whether nothing else reads elements of it; its sizes may be asked for."""
    bodies = [operation.regions[0].blocks[0] for operation in operations]
    return all(user.block in bodies for user in readers(value))


def _add_up_to_one(taps: Sequence[PixelTap]) -> bool:
    """Whether the weights of each pixel do: one is there alone, or is 1 less the other one."""
    weights = [tap.weights for tap in taps]
    if len(weights) == 1:
        return weights[0] is None
    first, second = weights
    if first is None or second is None:
        return False
    return _is_complement(first, second) or _is_complement(second, first)


def _is_complement(weights: ir.Value, others: ir.Value) -> bool:
    """Whether each of `weights` is 1 less that of `others`, or that with another sign and 1 added."""
    operation = defining_operation(weights)
    elementwise = None if operation is None else match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return False
    last = defining_operation(elementwise.yielded)
    if last is None or last.name not in ("arith.subf", "arith.addf"):
        return False
    sources = dict(zip(elementwise.body.arguments, elementwise.reads, strict=False))
    identity = ir.AffineMap.get_identity(1)
    one, number = list(last.operands) if last.name == "arith.subf" else list(last.operands)[::-1]
    value, read = sources.get(number, (None, None))
    if last.name == "arith.addf":
        value = None if value is None else _negated(value)
    return (value, read) == (others, identity) and _is_one(one, sources)


def _negated(tensor: ir.Value) -> ir.Value | None:
    """The vector whose elements have the other sign."""
    operation = defining_operation(tensor)
    elementwise = None if operation is None else match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 1:
        return None
    computation = only_computation(elementwise)
    if computation is None or computation.name != "arith.negf":
        return None
    ((source, read),) = elementwise.reads
    is_in_place = read == ir.AffineMap.get_identity(1)
    return source if is_in_place and computation.operands[0] == elementwise.body.arguments[0] else None


def _is_one(number: ir.Value, sources: Mapping[ir.Value, Read]) -> bool:
    """Whether a number of a body is 1, or an element of a tensor of nothing else."""
    definition = defining_operation(number)
    if definition is not None and definition.name == "arith.sitofp":
        number = definition.operands[0]
    element = splat_element(sources[number][0]) if number in sources else None
    if element is not None:
        return isinstance(element, ir.FloatAttr | ir.IntegerAttr) and element.value == 1
    return scalar_number(number) == 1


def match_blended_pixels(operation: ir.Operation) -> BlendedPixels | None:
    """A selection along one dimension, or the sum of two that are weighted along it.

    The sum may be rounded to half precision if the products with weights are, too.
    """
    selection = match_selected_pixels(operation)
    if selection is not None:
        only = (PixelTap(selection.positions),)
        return BlendedPixels(selection.image, selection.dimension, only, selection.result, (operation,))
    total = _combined(operation, "arith.addf")
    if total is None:
        return None
    parts, rounded = total
    weighted = [_match_weighted(part, rounded) for part, _ in parts]
    found = [each for each in weighted if each is not None]
    identity = ir.AffineMap.get_identity(operation.results[0].type.rank)
    if len(found) != len(parts) or any(read != identity for _, read in parts):
        return None
    first, second = (selection for selection, _ in found)
    if (first.image, first.dimension) != (second.image, second.dimension):
        return None
    taps = tuple(PixelTap(selection.positions, weights) for selection, weights in found)
    readers = tuple(selection.result.owner.operation for selection, _ in found)
    return BlendedPixels(first.image, first.dimension, taps, operation.results[0], readers, rounded)


def _match_weighted(value: ir.Value, rounded: ir.Type | None) -> tuple[SelectedPixels, ir.Value] | None:
    """The selection and the weights along its dimension of which `value` is the product, rounded or not."""
    operation = defining_operation(value)
    product = None if operation is None else _combined(operation, "arith.mulf")
    if product is None or product[1] != rounded:
        return None
    (selected, read), (weights, along) = product[0]
    definition = defining_operation(selected)
    selection = None if definition is None else match_selected_pixels(definition)
    weights, along = broadcast_source(weights, along)
    if selection is None or read != ir.AffineMap.get_identity(selected.type.rank):
        return None
    dimension = ir.AffineExpr.get_dim(selection.dimension)
    is_along = weights.type.rank == 1 and list(along.results) == [dimension]
    return (selection, weights) if is_along else None


def _combined(operation: ir.Operation, name: str) -> tuple[list[Read], ir.Type | None] | None:
    """What an elementwise operation that does nothing but `name` of two operands reads, in order, and the
    type of half precision that its result is rounded to, if it is."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or len(elementwise.reads) != 2 or elementwise.reads_init:
        return None
    computation = only_computation(elementwise, rounds=True)
    if computation is None or computation.name != name:
        return None
    if list(computation.operands) != list(elementwise.body.arguments)[:2]:
        return None
    is_rounded = elementwise.yielded != computation.results[0]
    return elementwise.reads, rounded_type(elementwise.yielded) if is_rounded else None


def _is_inside(value: ir.Value, body: ir.Block) -> bool:
    definition = defining_operation(value)
    return bool((value.owner if definition is None else definition.block) == body)


def _is_cast_of(index: ir.Value, position: ir.Value) -> bool:
    definition = defining_operation(index)
    if definition is None:
        return bool(index == position)
    return bool(definition.name == "arith.index_cast" and definition.operands[0] == position)


def _is_loop(index: ir.Value, dimension: int, type_: ir.RankedTensorType) -> bool:
    """Whether it is the number of a loop, or that of the only element."""
    definition = defining_operation(index)
    if definition is None:
        return False
    if definition.name == "linalg.index":
        return bool(definition.attributes["dim"].value == dimension)
    return type_.shape[dimension] == 1 and scalar_number(index) == 0
