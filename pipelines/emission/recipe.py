"""Recipes as vector code: a straight-line program per 1-D transform, nested over a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Generic, TypeVar

from iree.winograd.dialect.algebra.recipe import Operation, Recipe
from iree.winograd.dialect.bindings import arith, ir

from .buffer import Buffer
from .control_flow import loop, named, when
from .index import Condition, Index
from .vectors import multiply_add, splat

Position = tuple[Index, ...]
"""The position of an element within a tile."""
Element = tuple[int, ...]
"""The same, known."""
Coordinate = TypeVar("Coordinate", int, Index)
Result = TypeVar("Result")
Load = Callable[[Position], ir.Value]
Store = Callable[[Position, ir.Value], None]


@dataclass(frozen=True)
class OnTheEdge(Generic[Result]):
    """A `Load` or a `Store` of a tile that lacks elements: they are zeros, or aren't stored."""

    each: Callable[..., Result]
    """On condition that the element exists."""
    line_exists: Callable[[Position], Condition]
    """Whether a line that a recipe is applied to does, by its place in the other dimensions."""
    of_line: Callable[..., Result]
    """For lines that exist: on condition that the element does."""

    def __call__(self, *access: Any) -> Result:
        return self.each(*access)


def emit_recipe(recipe: Recipe, inputs: Sequence[ir.Value], fused_multiply_add: bool) -> list[ir.Value]:
    """Applies a 1-D transform to vectors; without FMA in the target a product and a sum take its place."""
    vector_type = ir.VectorType(inputs[0].type)
    width, element = vector_type.shape[0], vector_type.element_type
    values = list(inputs)

    def emit(operation: Operation) -> ir.Value:
        a = values[operation.a]
        if operation.kind == "negate":
            return arith.negf(a)
        if operation.kind == "multiply":
            return arith.mulf(a, splat(float(operation.constant or 0), width, element))
        assert operation.b is not None
        b = values[operation.b]
        if operation.kind == "add":
            return arith.addf(a, b)
        if operation.kind == "subtract":
            return arith.subf(a, b)
        factor = splat(float(operation.constant or 0), width, element)
        return multiply_add(a, factor, b, fused_multiply_add)

    with named("transformed"):
        for operation in recipe.operations:
            values.append(emit(operation))
    return [splat(0.0, width, element) if output is None else values[output] for output in recipe.outputs]


def emit_unrolled(recipes: Sequence[Recipe], load: Load, store: Store, fused_multiply_add: bool) -> None:
    """Applies one recipe per dimension to a tile, the first dimension first, all of it straight-line code.

    All elements are loaded first, so that none waits for another.
    """
    extents = [range(recipe.inputs) for recipe in recipes]
    loaded = {element: load(tuple(map(Index, element))) for element in product(*extents)}
    for element, value in _transformed(loaded, recipes, fused_multiply_add).items():
        store(tuple(map(Index, element)), value)


def emit_in_parts(
    recipes: Sequence[Recipe],
    parts: Sequence[Sequence[int]],
    load: Load,
    store: Store,
    fused_multiply_add: bool,
) -> None:
    """`emit_unrolled` for few registers: some of the first dimension's outputs after the others.

    Each of the `parts` loads the lines that it depends on anew, and one at a time.
    """
    first, *others = recipes
    for part in parts:
        read, recipe = first.part(part)
        planes: dict[int, dict[Element, ir.Value]] = {output: {} for output in part}
        for rest in product(*(range(other.inputs) for other in others)):
            line = [load(tuple(map(Index, (i, *rest)))) for i in read]
            for output, value in zip(part, emit_recipe(recipe, line, fused_multiply_add), strict=True):
                planes[output][rest] = value
        for output, plane in planes.items():
            for rest, value in _transformed(plane, others, fused_multiply_add).items():
                store(tuple(map(Index, (output, *rest))), value)


def _transformed(
    tile: Mapping[Element, ir.Value], recipes: Sequence[Recipe], fused_multiply_add: bool
) -> Mapping[Element, ir.Value]:
    """The tile after one recipe per dimension, the first dimension first."""
    for dimension, recipe in enumerate(recipes):
        lines = dict.fromkeys((*element[:dimension], *element[dimension + 1 :]) for element in tile)
        transformed: dict[Element, ir.Value] = {}
        for rest in lines:
            line = [tile[_inserted(rest, dimension, i)] for i in range(recipe.inputs)]
            for i, value in enumerate(emit_recipe(recipe, line, fused_multiply_add)):
                transformed[_inserted(rest, dimension, i)] = value
        tile = transformed
    return tile


def emit_rolled(
    recipes: Sequence[Recipe],
    load: Load,
    store: Store,
    fused_multiply_add: bool,
    temporaries: Sequence[Buffer],
) -> None:
    """Applies one recipe per dimension to a tile, the first dimension first, as a loop over lines for each.

    `temporaries` hold a tile between two dimensions, of `extents_between`; their innermost extent is the
    vectors' width. Loops keep the code of large tiles short. On the edge lines that don't exist are zeros, or
    aren't computed: what is left to ask of elements is the same for all lines.
    """
    extents = [recipe.inputs for recipe in recipes]
    for dimension, recipe in enumerate(recipes):
        source = load if dimension == 0 else _loader(temporaries[dimension - 1])
        target = store if dimension == len(recipes) - 1 else _storer(temporaries[dimension])
        with _positions([extent for d, extent in enumerate(extents) if d != dimension]) as rest:
            _Line(recipe, rest, dimension, fused_multiply_add).emit(source, target, temporaries)
        extents[dimension] = len(recipe.outputs)


@dataclass(frozen=True)
class _Line:
    """A line of a tile, at a place in the other dimensions than its own, that a recipe is applied to."""

    recipe: Recipe
    rest: Position
    dimension: int
    fused_multiply_add: bool

    def emit(self, load: Load, store: Store, temporaries: Sequence[Buffer]) -> None:
        if isinstance(load, OnTheEdge):
            assert not isinstance(store, OnTheEdge), "a transform reads an image or writes one"
            transform, clear = partial(self._transform, load.of_line, store), partial(self._clear, store)
            when(load.line_exists(self.rest), transform, partial(clear, temporaries))
        elif isinstance(store, OnTheEdge):
            when(store.line_exists(self.rest), partial(self._transform, load, store.of_line))
        else:
            self._transform(load, store)

    def _transform(self, load: Load, store: Store) -> None:
        line = [load(self._place(i)) for i in range(self.recipe.inputs)]
        for i, value in enumerate(emit_recipe(self.recipe, line, self.fused_multiply_add)):
            store(self._place(i), value)

    def _clear(self, store: Store, temporaries: Sequence[Buffer]) -> None:
        tile = temporaries[self.dimension]
        for i in range(len(self.recipe.outputs)):
            store(self._place(i), splat(0.0, tile.known_extents[-1], tile.computed))

    def _place(self, i: int) -> Position:
        return _inserted(self.rest, self.dimension, Index(i))


def extents_between(recipes: Sequence[Recipe]) -> Iterator[tuple[int, ...]]:
    """Those of a tile after each dimension but the last, one fewer than there are recipes."""
    extents = [recipe.inputs for recipe in recipes]
    for dimension, recipe in enumerate(recipes[:-1]):
        extents[dimension] = len(recipe.outputs)
        yield tuple(extents)


def _inserted(rest: Sequence[Coordinate], dimension: int, i: Coordinate) -> tuple[Coordinate, ...]:
    coordinates = list(rest)
    coordinates.insert(dimension, i)
    return tuple(coordinates)


@contextmanager
def _positions(extents: Sequence[int]) -> Iterator[Position]:
    """A loop over all positions within `extents`."""
    if not extents:
        yield ()
        return
    with loop(extents[0], name="line") as first, _positions(extents[1:]) as rest:
        yield (first, *rest)


def _loader(buffer: Buffer) -> Load:
    width = buffer.known_extents[-1]
    return lambda position: buffer.load(buffer.offset([*position, 0]), width)


def _storer(buffer: Buffer) -> Store:
    return lambda position, value: buffer.store(value, buffer.offset([*position, 0]))


def flattened(element: Position, alpha: Sequence[int]) -> Index:
    """The row-major number of an element within a tile."""
    number = Index(0)
    for i, extent in zip(element, alpha, strict=True):
        number = number * extent + i
    return number
