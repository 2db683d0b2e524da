"""Operations on tensors: data, what rearranges it, and what is computed of it.

Operands are the numbers of values of the function. `infer` gives the types of the results for those of the
operands, and raises InvalidProgramError where they don't fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from expressions import Argument, Captured, Expression, Position, subexpressions
from open_size import is_open
from tensors import Shape, Tensor, require


@dataclass(frozen=True)
class OfNone:
    """An operation without operands."""

    @property
    def operands(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class OfOne:
    """An operation on one value."""

    source: int

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Input(OfNone):
    """The next argument of the function."""

    shape: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(self.shape)]


@dataclass(frozen=True)
class Constant(OfNone):
    """Random numbers, the same for the same fields: of mean zero, or `positive`."""

    shape: Shape
    seed: int
    scale: float = 1.0
    positive: bool = False

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(self.shape)]


@dataclass(frozen=True)
class Fill(OfNone):
    """A number everywhere."""

    number: float
    shape: Shape
    is_constant: bool = False
    """Whether it is a constant, rather than filled."""

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        require(not (self.is_constant and Tensor(self.shape).is_open), "a constant of open sizes")
        return [Tensor(self.shape)]


@dataclass(frozen=True)
class Pad(OfOne):
    low: Shape
    high: Shape
    number: float

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(len(self.low) == len(self.high) == len(source.shape), "ranks differ")
        require(min(*self.low, *self.high) >= 0, "a negative pad")
        return [Tensor.of(map(sum, zip(self.low, source.shape, self.high, strict=True)))]


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
        for offset, size, step, whole in zip(
            self.offsets, source.shape, self.steps, target.shape, strict=True
        ):
            require(offset + (size - 1) * step < whole, "an insertion out of bounds")
        return [target]


@dataclass(frozen=True)
class Slice(OfOne):
    offsets: Shape
    sizes: Shape
    steps: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(len(source.shape) == len(self.offsets), "ranks differ")
        for offset, size, step, whole in zip(self.offsets, self.sizes, self.steps, source.shape, strict=True):
            require(size >= 0 and offset + (size - 1) * step < whole, "a slice out of bounds")
        return [Tensor.of(self.sizes)]


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
            require(
                other.shape[:d] == first.shape[:d] and other.shape[d + 1 :] == first.shape[d + 1 :], "sizes"
            )
        return [
            Tensor.of([*first.shape[:d], sum(other.shape[d] for other in operands), *first.shape[d + 1 :]])
        ]


@dataclass(frozen=True)
class Transposition(OfOne):
    permutation: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(sorted(self.permutation) == list(range(len(source.shape))), "no permutation")
        return [Tensor.of([source.shape[d] for d in self.permutation])]


@dataclass(frozen=True)
class Expansion(OfOne):
    """`dimension` split into dimensions of `sizes`."""

    dimension: int
    sizes: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        product = 1
        for size in self.sizes:
            product *= size
        require(source.shape[self.dimension] == product, "sizes of another product")
        return [
            Tensor.of([*source.shape[: self.dimension], *self.sizes, *source.shape[self.dimension + 1 :]])
        ]


@dataclass(frozen=True)
class Collapse(OfOne):
    """`dimension` and the next one as one."""

    dimension: int

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        d = self.dimension
        require(d + 1 < len(source.shape), "no next dimension")
        require(not (is_open(source.shape[d]) and is_open(source.shape[d + 1])), "open sizes collapsed")
        return [Tensor.of([*source.shape[:d], source.shape[d] * source.shape[d + 1], *source.shape[d + 2 :]])]


@dataclass(frozen=True)
class Broadcast(OfOne):
    """`source` repeated along new `dimensions` of the result, by `linalg.broadcast`."""

    shape: Shape
    dimensions: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        kept = [size for d, size in enumerate(self.shape) if d not in self.dimensions]
        require(tuple(kept) == source.shape, "sizes")
        return [Tensor(self.shape)]


@dataclass(frozen=True)
class Elementwise:
    """A `linalg.generic` of parallel loops over `shape`; `maps` has a loop, or None for 0, per dimension.

    One result per expression of `body`. With an `init`, the last argument of the body is its element.
    """

    sources: tuple[int, ...]
    maps: tuple[tuple[int | None, ...], ...]
    body: tuple[Expression, ...]
    shape: Shape
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
            for size, loop in zip(source.shape, read, strict=True):
                require(size == (1 if loop is None else self.shape[loop]), "sizes")
        if self.init is not None:
            require(len(self.body) == 1, "one init, several results")
            require(operands[len(self.sources)] == Tensor(self.shape), "another init")
        arguments = len(self.sources) + (self.init is not None)
        for expression in self.body:
            for part in subexpressions(expression):
                require(not isinstance(part, Argument) or part.number < arguments, "no such argument")
                require(not isinstance(part, Position) or part.dimension < len(self.shape), "no such loop")
        return [Tensor(self.shape)] * len(self.body)


@dataclass(frozen=True)
class Reduction(OfOne):
    """The sum or the largest along `dimensions`, which the result doesn't have."""

    dimensions: Shape
    kind: Literal["sum", "max"]
    begins_with_infinity: bool = False
    """Whether the largest begins with minus infinity, as torch-mlir has it, not the lowest number."""

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        kept = [size for d, size in enumerate(source.shape) if d not in self.dimensions]
        require(max(self.dimensions) < len(source.shape), "no such dimension")
        require(self.kind == "sum" or not source.is_empty, "the largest of nothing")
        return [Tensor.of(kept)]


@dataclass(frozen=True)
class Reversal(OfOne):
    """`source` backwards along `dimensions`, as torch-mlir flips filters: read by `tensor.extract`."""

    dimensions: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(not source.is_open and max(self.dimensions) < len(source.shape), "no such dimension")
        return [source]


@dataclass(frozen=True)
class Resizing(OfOne):
    """`source` with `shape`, each element the nearest one before it: read by `tensor.extract`."""

    shape: Shape
    in_floats: bool
    """Whether positions are divided as torch-mlir does, in f32, rather than as integers."""

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        require(len(source.shape) == len(self.shape), "ranks differ")
        require(not source.is_empty, "nothing to read")
        return [Tensor.of(self.shape)]


@dataclass(frozen=True)
class Product:
    """`init` plus the products of matrices.

    A layout has one letter per dimension of the operand: `m` rows, `n` columns, `k` what is summed over;
    others are of the batch.
    """

    left: int
    right: int
    init: int
    layouts: tuple[str, str, str]
    named: bool
    """Whether it is `linalg.batch_matmul`, rather than a `linalg.generic`."""

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.left, self.right, self.init)

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        sizes: dict[str, int] = {}
        for layout, operand in zip(self.layouts, operands, strict=True):
            require(len(layout) == len(operand.shape), "ranks differ")
            for letter, size in zip(layout, operand.shape, strict=True):
                require(sizes.setdefault(letter, size) == size, "sizes")
        require(not self.named or len(self.layouts[2]) == 3, "no batch of matrices")
        return [operands[2]]


@dataclass(frozen=True)
class Pooling(OfOne):
    """The named pooling operation of `layout` (letters as in `Convolution`), over windows per dimension."""

    layout: str
    kind: Literal["sum", "max"]
    window: Shape
    strides: Shape
    dilations: Shape

    def infer(self, operands: Sequence[Tensor]) -> list[Tensor]:
        (source,) = operands
        sizes = dict(zip(self.layout, source.shape, strict=True))
        outputs = windows(sizes, self.window, self.strides, self.dilations)
        return [Tensor.of([outputs.get(letter, sizes[letter]) for letter in self.layout])]


def windows(sizes: dict[str, int], window: Shape, strides: Shape, dilations: Shape) -> dict[str, int]:
    """Positions of a window per spatial dimension, "0", "1" and so on."""
    for d, (taps, dilation) in enumerate(zip(window, dilations, strict=True)):
        # Where the size is open there may be none.
        least = 0 if is_open(sizes[str(d)]) else 1
        require(sizes[str(d)] - dilation * (taps - 1) >= least, "a window larger than the image")
    return positions(sizes, window, strides, dilations)


def positions(sizes: dict[str, int], window: Shape, strides: Shape, dilations: Shape) -> dict[str, int]:
    """As `windows`, of images that aren't smaller than what is between a window's ends."""
    return {
        str(d): (sizes[str(d)] - dilation * (taps - 1) - 1) // stride + 1
        for d, (taps, stride, dilation) in enumerate(zip(window, strides, dilations, strict=True))
    }


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
        require(not operands[1].is_open, "a filter of open sizes")
        kernel = tuple(filters[str(d)] for d in range(len(self.strides)))
        sizes = {letter: size for letter, size in (source | filters).items() if not letter.isdigit()}
        sizes |= windows(source, kernel, self.strides, self.dilations)
        for operand in (source, filters):
            for letter, size in operand.items():
                require(letter.isdigit() or sizes[letter] == size, "channels differ")
        require(init == {letter: sizes[letter] for letter in self.layouts[2]}, "another init")
        return [operands[2]]
