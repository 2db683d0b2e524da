"""A random program as data: functions of tensors, operation by operation.

Values of a function are numbered: the results of its operations in order. Blocks of loops and branches see
the values before them, and number their own from there on. All elements are f32. The first dimension of a
tensor may be known only at run time.

`repr` of a program is Python that builds it again; `mlir.py` builds it as MLIR, `evaluation.py` says what it
computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Shape = tuple[int, ...]


class InvalidProgramError(Exception):
    """Operands don't fit an operation."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidProgramError(what)


@dataclass(frozen=True)
class Tensor:
    shape: Shape
    """As it is when the program runs."""
    dynamic: bool = False
    """Whether the first dimension is known only at run time."""

    def with_shape(self, shape: Sequence[int]) -> Tensor:
        return Tensor(tuple(shape), self.dynamic)


@dataclass(frozen=True)
class Argument:
    """Of a body: an element of the operand of that number."""

    number: int


@dataclass(frozen=True)
class Number:
    value: float
    captured: bool = False
    """Whether it is computed outside of the body that uses it."""


@dataclass(frozen=True)
class Position:
    """The index of the loop `dimension`, as a number."""

    dimension: int


@dataclass(frozen=True)
class Captured:
    """The first element of a value, read outside of the body."""

    value: int


@dataclass(frozen=True)
class Apply:
    """An operation of `arithmetic.py` on expressions."""

    operation: str
    operands: tuple[Expression, ...]


Expression = Argument | Number | Position | Captured | Apply


def subexpressions(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Apply):
        for operand in expression.operands:
            yield from subexpressions(operand)


@dataclass(frozen=True)
class Input:
    """The next argument of the function."""

    shape: Shape
    dynamic: bool = False

    operands = ()

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(self.shape, self.dynamic)]


@dataclass(frozen=True)
class Constant:
    """Random numbers, the same for the same fields: of mean zero, or `positive`."""

    shape: Shape
    seed: int
    scale: float = 1.0
    positive: bool = False

    operands = ()

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(self.shape)]


@dataclass(frozen=True)
class Fill:
    """A number everywhere."""

    number: float
    shape: Shape
    dynamic: bool = False

    operands = ()

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(self.shape, self.dynamic)]


@dataclass(frozen=True)
class Pad:
    source: int
    low: Shape
    high: Shape
    number: float

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(len(self.low) == len(self.high) == len(source.shape), "ranks differ")
        require(min(*self.low, *self.high) >= 0, "a negative pad")
        require(not source.dynamic or self.low[0] == self.high[0] == 0, "a padded dynamic dimension")
        return [
            source.with_shape(map(sum, zip(self.low, source.shape, self.high, strict=True)))  # type: ignore[arg-type]
        ]


@dataclass(frozen=True)
class Insertion:
    """`target` with `source` in it, from `offsets` on, in `steps`."""

    source: int
    target: int
    offsets: Shape
    steps: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source, self.target)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        source, target = operands
        require(len(source.shape) == len(target.shape) == len(self.offsets), "ranks differ")
        require(source.dynamic == target.dynamic, "one dynamic, one not")
        for offset, size, step, whole in zip(
            self.offsets, source.shape, self.steps, target.shape, strict=True
        ):
            require(offset + (size - 1) * step < whole, "an insertion out of bounds")
        require(
            not target.dynamic or (self.offsets[0], self.steps[0]) == (0, 1), "a part of a dynamic dimension"
        )
        require(not target.dynamic or source.shape[0] == target.shape[0], "a part of a dynamic dimension")
        return [target]


@dataclass(frozen=True)
class Slice:
    source: int
    offsets: Shape
    sizes: Shape
    steps: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(len(source.shape) == len(self.offsets), "ranks differ")
        for offset, size, step, whole in zip(self.offsets, self.sizes, self.steps, source.shape, strict=True):
            require(size >= 1 and offset + (size - 1) * step < whole, "a slice out of bounds")
        require(
            not source.dynamic or (self.offsets[0], self.sizes[0], self.steps[0]) == (0, source.shape[0], 1),
            "a part of a dynamic dimension",
        )
        return [source.with_shape(self.sizes)]


@dataclass(frozen=True)
class Concatenation:
    sources: tuple[int, ...]
    dimension: int

    @property
    def operands(self) -> tuple[int, ...]:
        return self.sources

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        d = self.dimension
        first = operands[0]
        for other in operands:
            require(other.dynamic == first.dynamic, "one dynamic, one not")
            require(
                other.shape[:d] == first.shape[:d] and other.shape[d + 1 :] == first.shape[d + 1 :], "sizes"
            )
        require(not first.dynamic or d > 0, "a concatenation of dynamic sizes")
        return [
            first.with_shape(
                [*first.shape[:d], sum(other.shape[d] for other in operands), *first.shape[d + 1 :]]
            )
        ]


@dataclass(frozen=True)
class Transposition:
    source: int
    permutation: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(sorted(self.permutation) == list(range(len(source.shape))), "no permutation")
        require(not source.dynamic or self.permutation[0] == 0, "the dynamic dimension has to stay first")
        return [source.with_shape([source.shape[d] for d in self.permutation])]


@dataclass(frozen=True)
class Expansion:
    """`dimension` split into dimensions of `sizes`."""

    source: int
    dimension: int
    sizes: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        product = 1
        for size in self.sizes:
            product *= size
        require(source.shape[self.dimension] == product, "sizes of another product")
        require(not source.dynamic or self.dimension > 0, "a split dynamic dimension")
        return [
            source.with_shape(
                [*source.shape[: self.dimension], *self.sizes, *source.shape[self.dimension + 1 :]]
            )
        ]


@dataclass(frozen=True)
class Collapse:
    """`dimension` and the next one as one."""

    source: int
    dimension: int

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        d = self.dimension
        require(d + 1 < len(source.shape), "no next dimension")
        require(not source.dynamic or d > 0, "a collapsed dynamic dimension")
        return [
            source.with_shape(
                [*source.shape[:d], source.shape[d] * source.shape[d + 1], *source.shape[d + 2 :]]
            )
        ]


@dataclass(frozen=True)
class Broadcast:
    """`source` repeated along new `dimensions` of the result, by `linalg.broadcast`."""

    source: int
    shape: Shape
    dimensions: Shape
    dynamic: bool = False

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        kept = [size for d, size in enumerate(self.shape) if d not in self.dimensions]
        require(tuple(kept) == source.shape and not source.dynamic, "sizes")
        require(not self.dynamic or 0 in self.dimensions, "a dynamic result of a static operand")
        return [Tensor(self.shape, self.dynamic)]


@dataclass(frozen=True)
class Elementwise:
    """A `linalg.generic` of parallel loops over `shape`; `maps` has a loop, or None for 0, per dimension.

    One result per expression of `body`. With an `init`, the last argument of the body is its element.
    """

    sources: tuple[int, ...]
    maps: tuple[tuple[int | None, ...], ...]
    body: tuple[Expression, ...]
    shape: Shape
    dynamic: bool = False
    init: int | None = None

    @property
    def operands(self) -> tuple[int, ...]:
        captured = tuple(
            part.value
            for expression in self.body
            for part in subexpressions(expression)
            if isinstance(part, Captured)
        )
        return (*self.sources, *(() if self.init is None else (self.init,)), *captured)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        for source, read in zip(operands, self.maps, strict=False):
            require(len(source.shape) == len(read), "ranks differ")
            for d, (size, loop) in enumerate(zip(source.shape, read, strict=True)):
                require(size == (1 if loop is None else self.shape[loop]), "sizes")
                if source.dynamic and d == 0:
                    require(loop == 0 and self.dynamic, "a static loop over a dynamic dimension")
        if self.init is not None:
            require(len(self.body) == 1, "one init, several results")
            require(operands[len(self.sources)] == Tensor(self.shape, self.dynamic), "another init")
        arguments = len(self.sources) + (self.init is not None)
        for expression in self.body:
            for part in subexpressions(expression):
                require(not isinstance(part, Argument) or part.number < arguments, "no such argument")
                require(not isinstance(part, Position) or part.dimension < len(self.shape), "no such loop")
        return [Tensor(self.shape, self.dynamic)] * len(self.body)


@dataclass(frozen=True)
class Reduction:
    """The sum or the largest along `dimensions`, which the result doesn't have."""

    source: int
    dimensions: Shape
    kind: Literal["sum", "max"]

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        kept = [size for d, size in enumerate(source.shape) if d not in self.dimensions]
        require(max(self.dimensions) < len(source.shape), "no such dimension")
        return [Tensor(tuple(kept), source.dynamic and 0 not in self.dimensions)]


@dataclass(frozen=True)
class Reversal:
    """`source` backwards along `dimensions`, as torch-mlir flips filters: read by `tensor.extract`."""

    source: int
    dimensions: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(not source.dynamic and max(self.dimensions) < len(source.shape), "no such dimension")
        return [source]


@dataclass(frozen=True)
class Pooling:
    """The named pooling operation of `layout` (letters as in `Convolution`), over windows per dimension."""

    source: int
    layout: str
    kind: Literal["sum", "max"]
    window: Shape
    strides: Shape
    dilations: Shape

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        sizes = dict(zip(self.layout, source.shape, strict=True))
        outputs = windows(sizes, self.window, self.strides, self.dilations)
        return [source.with_shape([outputs.get(letter, sizes[letter]) for letter in self.layout])]


def windows(sizes: dict[str, int], window: Shape, strides: Shape, dilations: Shape) -> dict[str, int]:
    """Positions of a window per spatial dimension, "0", "1" and so on."""
    outputs = {}
    for d, (taps, stride, dilation) in enumerate(zip(window, strides, dilations, strict=True)):
        outputs[str(d)] = (sizes[str(d)] - dilation * (taps - 1) - 1) // stride + 1
        require(sizes[str(d)] > dilation * (taps - 1), "a window larger than the image")
    return outputs


@dataclass(frozen=True)
class Convolution:
    """`init` plus the convolution of `source` by `filter`.

    A layout has one letter per dimension of the operand: `n` batch, `g` group, `c` input channel, `f` output
    channel and `0`, `1`, `2` the spatial dimensions.
    """

    source: int
    filter: int
    init: int
    layouts: tuple[str, str, str]
    strides: Shape
    dilations: Shape
    named: bool
    """Whether it is linalg's named operation, where there is one for the layouts."""

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source, self.filter, self.init)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        sizes: dict[str, int] = {}
        source, filters, init = (
            dict(zip(layout, operand.shape, strict=True))
            for layout, operand in zip(self.layouts, operands, strict=True)
        )
        require(not operands[1].dynamic and operands[0].dynamic == operands[2].dynamic, "a dynamic filter")
        kernel = tuple(filters[str(d)] for d in range(len(self.strides)))
        sizes = {letter: size for letter, size in (source | filters).items() if not letter.isdigit()}
        sizes |= windows(source, kernel, self.strides, self.dilations)
        for operand in (source, filters):
            for letter, size in operand.items():
                require(letter.isdigit() or sizes[letter] == size, "channels differ")
        require(init == {letter: sizes[letter] for letter in self.layouts[2]}, "another init")
        return [operands[2]]


@dataclass(frozen=True)
class Block:
    """Operations that see the values before them, and what they yield."""

    operations: tuple[Operation, ...]
    results: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """`count` times the `body`, which sees the loop's state as its first value and yields the next one."""

    count: int
    initial: int
    body: Block

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.initial,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return list(operands)


@dataclass(frozen=True)
class Branch:
    """`then` where the first element of `condition` is positive, else `otherwise`."""

    condition: int
    then: Block
    otherwise: Block
    type: Tensor

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.condition,)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [self.type]


Operation = (
    Input
    | Constant
    | Fill
    | Pad
    | Insertion
    | Slice
    | Concatenation
    | Transposition
    | Expansion
    | Collapse
    | Broadcast
    | Elementwise
    | Reduction
    | Reversal
    | Pooling
    | Convolution
    | Loop
    | Branch
)


@dataclass(frozen=True)
class Function:
    operations: tuple[Operation, ...]
    results: tuple[int, ...]
    output_argument: bool = False
    """Whether the first result is written to memory that the caller hands over."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The arguments."""
        return tuple(operation for operation in self.operations if isinstance(operation, Input))


@dataclass(frozen=True)
class Program:
    functions: tuple[Function, ...]


def infer(operation: Operation, types: Sequence[Tensor]) -> list[Tensor]:
    """The types of the results of `operation`, `types` being those of all values before it.

    Raises InvalidProgramError where operands don't fit.
    """
    require(all(0 <= operand < len(types) for operand in operation.operands), "a value before it is defined")
    results = operation.infer([types[operand] for operand in operation.operands])
    for result in results:
        require(min(result.shape, default=1) >= 1, "a dimension of size 0")
    if isinstance(operation, Loop):
        yielded = infer_block(operation.body, [*types, *results])
        require(yielded == results, "the state of a loop changes its type")
    if isinstance(operation, Branch):
        for block in (operation.then, operation.otherwise):
            require(infer_block(block, list(types)) == results, "the results of branches differ")
    return results


def infer_block(block: Block | Function, types: list[Tensor]) -> list[Tensor]:
    """The types of what `block` yields, `types` being those of the values that it sees."""
    for operation in block.operations:
        types.extend(infer(operation, types))
    return [types[result] for result in block.results]


def function_types(function: Function) -> list[Tensor]:
    """The types of the results of `function`."""
    return infer_block(function, [])


def numbered(function: Function) -> list[tuple[int, Operation]]:
    """The operations of `function`, each with the number of its first result."""
    types: list[Tensor] = []
    found = []
    for operation in function.operations:
        found.append((len(types), operation))
        types.extend(infer(operation, types))
    return found


def all_operations(block: Block | Function) -> Iterator[Operation]:
    for operation in block.operations:
        yield operation
        if isinstance(operation, Loop):
            yield from all_operations(operation.body)
        if isinstance(operation, Branch):
            yield from all_operations(operation.then)
            yield from all_operations(operation.otherwise)


def convolutions(program: Program) -> list[Convolution]:
    return [
        operation
        for function in program.functions
        for operation in all_operations(function)
        if isinstance(operation, Convolution)
    ]
