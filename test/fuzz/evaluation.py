"""What a program computes: in float64, with a bound on the error of computing it in float32.

Where its numbers are of half precision, it computes in float32 and rounds what each operation gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from zlib import crc32

import expressions as e
import numpy as np
import numpy.typing as npt
import operations as o
import program as p
from bounded import FUNCTIONS, LEAST, ROUNDOFF, Array, Bounded, add, largest, total
from number_types import NUMBER_TYPES, NumberType
from tensors import Shape, Tensor

MARGIN = 8
"""How many times the predicted error an output may have.

The largest of n errors is about sqrt(pi ln n) times their mean: this for a thousand million outputs.
"""


_SUMS = (o.Convolution, o.Pooling, o.Product, o.Reduction)
"""Operations that compute and aren't elementwise: what they give is rounded as it is complete."""


def constant_array(constant: o.Constant) -> Array:
    """The numbers of a constant, as float32 holds them."""
    array = constant.scale * np.random.default_rng(constant.seed).standard_normal(constant.shape)
    if constant.positive:
        array = np.abs(array) + 0.5 * constant.scale
    return array.astype(np.float32).astype(np.float64)


def public_name(number: int) -> str:
    """The name of a program's function, by its number."""
    return f"f{number}"


def private_name(function: p.Function) -> str:
    """The name of a function that only the program itself calls."""
    return f"c{crc32(repr(function).encode())}"


def label(function: str, value: int) -> str:
    """The name of the operation of a function, given by its name, whose first result is `value`."""
    return f"{function}.v{value}"


def evaluate(
    function: p.Function,
    name: str,
    arguments: Sequence[Array],
    predicted_error: Callable[[str, o.Convolution, Sequence[int]], float],
    numbers: NumberType = NUMBER_TYPES["f32"],
) -> list[Bounded]:
    """The results of a program's function of this name, in the run that it is written in, on `numbers`.

    `predicted_error` says how a convolution is computed: its expected error, relative to the output, for the
    label of the convolution, the operation and the shape of the filter.
    """
    exact = (numbers.read(Bounded.exact(argument)) for argument in arguments)
    return _Evaluation(name, exact, predicted_error, numbers).block(function, [])


@dataclass(frozen=True)
class _Evaluation:
    function: str
    arguments: Iterator[Bounded]
    predicted_error: Callable[[str, o.Convolution, Sequence[int]], float]
    numbers: NumberType

    def block(self, block: p.Block | p.Function, values: list[Bounded]) -> list[Bounded]:
        for operation in block.operations:
            results = self.results(operation, values)
            values.extend(map(self.numbers.rounded, results) if isinstance(operation, _SUMS) else results)
        return [values[result] for result in block.results]

    @singledispatchmethod
    def results(self, operation: p.Operation, values: list[Bounded]) -> list[Bounded]:
        raise TypeError(f"no operation: {operation}")

    @results.register
    def _(self, op: o.Input, values: list[Bounded]) -> list[Bounded]:
        return [next(self.arguments)]

    @results.register
    def _(self, op: o.Constant, values: list[Bounded]) -> list[Bounded]:
        return [self.numbers.read(Bounded.exact(self.numbers.nearest(constant_array(op))))]

    @results.register
    def _(self, op: o.Fill, values: list[Bounded]) -> list[Bounded]:
        return [Bounded.exact(np.full(op.shape, self.numbers.nearest(op.number)))]

    @results.register
    def _(self, op: o.Pad, values: list[Bounded]) -> list[Bounded]:
        source, widths = values[op.source], list(zip(op.low, op.high, strict=True))
        return [
            Bounded(
                np.pad(source.value, widths, constant_values=float(self.numbers.nearest(op.number))),
                np.pad(source.error, widths),
            )
        ]

    @results.register
    def _(self, op: o.Insertion, values: list[Bounded]) -> list[Bounded]:
        source, target = values[op.source], values[op.target]
        where = slices(op.offsets, source.value.shape, op.steps)
        value, error = target.value.copy(), target.error.copy()
        value[where], error[where] = source.value, source.error
        return [Bounded(value, error)]

    @results.register
    def _(self, op: o.Slice, values: list[Bounded]) -> list[Bounded]:
        where = slices(op.offsets, op.sizes, op.steps)
        return [values[op.source].mapped(lambda array: array[where])]

    @results.register
    def _(self, op: o.Concatenation, values: list[Bounded]) -> list[Bounded]:
        parts = [values[source] for source in op.sources]
        return [
            Bounded(
                np.concatenate([part.value for part in parts], op.dimension),
                np.concatenate([part.error for part in parts], op.dimension),
            )
        ]

    @results.register
    def _(self, op: o.Transposition, values: list[Bounded]) -> list[Bounded]:
        return [values[op.source].mapped(lambda array: array.transpose(op.permutation))]

    @results.register
    def _(self, op: o.Expansion, values: list[Bounded]) -> list[Bounded]:
        return [_reshaped(op, values[op.source])]

    @results.register
    def _(self, op: o.Collapse, values: list[Bounded]) -> list[Bounded]:
        return [_reshaped(op, values[op.source])]

    @results.register
    def _(self, op: o.Broadcast, values: list[Bounded]) -> list[Bounded]:
        return [
            values[op.source].mapped(
                lambda array: np.broadcast_to(np.expand_dims(array, op.dimensions), op.shape)
            )
        ]

    @results.register
    def _(self, op: o.Elementwise, values: list[Bounded]) -> list[Bounded]:
        elements = [
            values[source].mapped(lambda array, read=read: _read(array, read, op.shape))
            for source, read in zip(op.sources, op.maps, strict=True)
        ]
        if op.init is not None:
            elements.append(values[op.init])

        def expression(tree: e.Expression) -> Bounded:
            if isinstance(tree, e.Argument):
                return elements[tree.number]
            if isinstance(tree, e.Number):
                return Bounded.exact(self.numbers.nearest(tree.value))
            if isinstance(tree, e.Captured):
                return values[tree.value].mapped(lambda array: array.flat[0])
            if isinstance(tree, e.Position):
                positions = np.indices(op.shape, sparse=True)[tree.dimension]
                return self.numbers.rounded(Bounded.exact(positions))
            return self.numbers.rounded(FUNCTIONS[tree.operation](*map(expression, tree.operands)))

        return [expression(tree).mapped(lambda array: np.broadcast_to(array, op.shape)) for tree in op.body]

    @results.register
    def _(self, op: o.Reduction, values: list[Bounded]) -> list[Bounded]:
        return [{"sum": total, "max": largest}[op.kind](values[op.source], op.dimensions)]

    @results.register
    def _(self, op: o.Reversal, values: list[Bounded]) -> list[Bounded]:
        return [values[op.source].mapped(lambda array: np.flip(array, op.dimensions))]

    @results.register
    def _(self, op: o.Resizing, values: list[Bounded]) -> list[Bounded]:
        source = values[op.source]
        read = np.ix_(
            *(
                nearest(size, resized, op.in_floats)
                for size, resized in zip(source.value.shape, op.shape, strict=True)
            )
        )
        return [source.mapped(lambda array: array[read])]

    @results.register
    def _(self, op: o.Product, values: list[Bounded]) -> list[Bounded]:
        left, right, init = (values[operand] for operand in op.operands)
        equation = "{},{}->{}".format(*op.layouts)
        value = np.einsum(equation, left.value, right.value)
        magnitudes = np.einsum(equation, left.magnitude, right.magnitude)
        inherited = magnitudes - np.einsum(equation, np.abs(left.value), np.abs(right.value))
        terms = left.value.shape[op.layouts[0].index("k")]
        # Products round, too, and the sum may start with the init.
        rounding = (terms + 1) * ROUNDOFF * (magnitudes + init.magnitude)
        return [add(init, Bounded(value, inherited + rounding + LEAST))]

    @results.register
    def _(self, op: o.Pooling, values: list[Bounded]) -> list[Bounded]:
        source = values[op.source]
        sizes = dict(zip(op.layout, source.value.shape, strict=True))
        outputs = o.positions(sizes, op.window, op.strides, op.dilations)
        parts = [
            source.mapped(lambda array, where=where: array[where])
            for where in _window_slices(op.layout, outputs, op.window, op.strides, op.dilations)
        ]
        stacked = Bounded(np.stack([part.value for part in parts]), np.stack([part.error for part in parts]))
        return [{"sum": total, "max": largest}[op.kind](stacked, (0,))]

    @results.register
    def _(self, op: o.Convolution, values: list[Bounded]) -> list[Bounded]:
        source, filters, init = (values[operand] for operand in op.operands)
        predicted = self.predicted_error(label(self.function, len(values)), op, filters.value.shape)
        value = convolve(op, source.value, filters.value)
        magnitudes = convolve(op, source.magnitude, filters.magnitude)
        inherited = magnitudes - convolve(op, np.abs(source.value), np.abs(filters.value))
        # A tile mixes the errors of its outputs.
        rounding = MARGIN * predicted * magnitudes.max(initial=0.0)
        terms = filters.value[..., 0].size
        # Where it isn't transformed, the sum may start with the init.
        started = terms * ROUNDOFF * init.magnitude
        exact = Bounded(value, inherited + rounding + started + LEAST)
        return [add(init, exact)]

    @results.register
    def _(self, op: p.Loop, values: list[Bounded]) -> list[Bounded]:
        state = [values[op.initial]]
        for _ in range(op.count):
            state = self.block(op.body, [*values, *state])
        return state

    @results.register
    def _(self, op: p.Branch, values: list[Bounded]) -> list[Bounded]:
        condition = values[op.condition]
        taken = op.then if condition.value.flat[0] > 0 else op.otherwise
        results = self.block(taken, list(values))
        if np.abs(condition.value.flat[0]) <= condition.error.flat[0]:
            return [Bounded(result.value, np.full_like(result.value, np.inf)) for result in results]
        return results

    @results.register
    def _(self, op: p.Call, values: list[Bounded]) -> list[Bounded]:
        arguments = iter([values[source] for source in op.sources])
        called = _Evaluation(private_name(op.function), arguments, self.predicted_error, self.numbers)
        return called.block(op.function, [])


def nearest(size: int, resized: int, in_floats: bool) -> npt.NDArray[np.intp]:
    """Which of `size` elements are at each of `resized` places."""
    places = np.arange(resized)
    if not in_floats or size == resized:
        return places * size // resized
    return np.floor(places.astype(np.float32) / np.float32(resized / size)).astype(np.intp)


def convolve(op: o.Convolution, source: Array, filters: Array) -> Array:
    """The convolution of `op` without its init, tap by tap."""
    source_layout, filter_layout, output_layout = op.layouts
    sizes = dict(zip(source_layout, source.shape, strict=True))
    kernel = tuple(filters.shape[filter_layout.index(str(d))] for d in range(len(op.strides)))
    outputs = o.positions(sizes, kernel, op.strides, op.dilations)
    taps = itertools.product(*map(range, kernel))
    result = None
    equation = f"{source_layout},{filter_layout.translate(_NO_DIGITS)}->{output_layout}".translate(_LETTERS)
    for tap, where in zip(
        taps, _window_slices(source_layout, outputs, kernel, op.strides, op.dilations), strict=True
    ):
        at = tuple(tap[int(letter)] if letter.isdigit() else slice(None) for letter in filter_layout)
        product = np.einsum(equation, source[where], filters[at])
        result = product if result is None else result + product
    assert result is not None
    return result


_NO_DIGITS = str.maketrans("", "", "012")
_LETTERS = str.maketrans("012", "xyz")


def _window_slices(
    layout: str, outputs: dict[str, int], window: Shape, strides: Shape, dilations: Shape
) -> list[tuple[slice, ...]]:
    """What each tap of a window reads."""
    found = []
    for tap in itertools.product(*map(range, window)):
        where = {}
        for d, index in enumerate(tap):
            first = index * dilations[d]
            where[str(d)] = _positions(first, outputs[str(d)], strides[d])
        found.append(tuple(where.get(letter, slice(None)) for letter in layout))
    return found


def slices(offsets: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    return tuple(
        _positions(offset, size, step) for offset, size, step in zip(offsets, sizes, steps, strict=True)
    )


def _positions(first: int, count: int, step: int) -> slice:
    """So many places, if any, from the first one on."""
    return slice(first, int(first + (count - 1) * step + 1) if count else first, step)


def _reshaped(op: o.Expansion | o.Collapse, source: Bounded) -> Bounded:
    (result,) = op.infer([Tensor(source.value.shape)])
    return source.mapped(lambda array: array.reshape(result.shape))


def _read(array: Array, read: tuple[int | None, ...], shape: Shape) -> Array:
    grid = np.indices(shape, sparse=True)
    return array[tuple(0 if loop is None else grid[loop] for loop in read)]
