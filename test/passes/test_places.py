"""Places in tensors whose elements are read in another order, against numpy's."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.layouts.places import DigitSum
from iree.winograd.passes.match.layouts.places import Places as FoundPlaces
from iree.winograd.passes.match.layouts.rearrangement import match_rearrangement
from iree.winograd.passes.match.navigation import walk

Places = npt.NDArray[np.int64]


class Program:
    """Operations that rearrange a tensor, as MLIR, and on the places of its elements."""

    def __init__(self, *shape: int) -> None:
        self.places = np.arange(prod(shape)).reshape(shape)
        self.argument = self._type
        self.lines: list[str] = []

    @property
    def _type(self) -> str:
        return f"tensor<{'x'.join(map(str, self.places.shape))}xf32>"

    @property
    def text(self) -> str:
        body = "\n".join(self.lines)
        name = f"%{len(self.lines) - 1}" if self.lines else "%x"
        return (
            f"func.func @f(%x: {self.argument}) -> {self._type} {{\n{body}\nreturn {name} : {self._type}\n}}"
        )

    def _add(self, operation: str, places: Places, of: str | None = None) -> None:
        """Adds an operation on the last value, which `operation` has braces for, and its type."""
        source = of or (f"%{len(self.lines) - 1}" if self.lines else "%x")
        before, self.places = self._type, places
        self.lines.append(
            f"%{len(self.lines)} = " + operation.format(source=source, before=before, after=self._type)
        )

    def transpose(self, *order: int) -> None:
        places = self.places.transpose(order)
        shape = "x".join(map(str, places.shape))
        init = f"%e{len(self.lines)}"
        self._add(
            "linalg.transpose ins({source} : {before}) outs(" + init + " : {after}) permutation = "
            f"{list(order)}",
            places,
        )
        self.lines[-1] = f"{init} = tensor.empty() : tensor<{shape}xf32>\n{self.lines[-1]}"

    def expand(self, dimension: int, *sizes: int) -> None:
        shape = self.places.shape
        groups = [[d] for d in range(dimension)]
        groups.append(list(range(dimension, dimension + len(sizes))))
        groups += [[d + len(sizes) - 1] for d in range(dimension + 1, len(shape))]
        result = (*shape[:dimension], *sizes, *shape[dimension + 1 :])
        self._add(
            "tensor.expand_shape {source} "
            + f"{groups} output_shape {list(result)}"
            + " : {before} into {after}",
            self.places.reshape(result),
        )

    def collapse(self, first: int, count: int) -> None:
        shape = self.places.shape
        groups = [[d] for d in range(first)]
        groups.append(list(range(first, first + count)))
        groups += [[d] for d in range(first + count, len(shape))]
        result = (*shape[:first], prod(shape[first : first + count]), *shape[first + count :])
        self._add(
            "tensor.collapse_shape {source} " + f"{groups}" + " : {before} into {after}",
            self.places.reshape(result),
        )

    def slice(self, *bounds: slice) -> None:
        kept = [range(size)[each] for size, each in zip(self.places.shape, bounds, strict=True)]
        parts = [each.start for each in kept], [len(each) for each in kept], [each.step for each in kept]
        self._add(
            "tensor.extract_slice {source}" + " ".join(map(str, parts)) + " : {before} to {after}",
            self.places[bounds],
        )

    def rotate(self, dimension: int, distance: int) -> None:
        whole, number = self.places, len(self.lines)
        source = f"%{number - 1}" if self.lines else "%x"
        sides = [[slice(None)] * whole.ndim for _ in range(2)]
        sides[0][dimension], sides[1][dimension] = slice(distance, None), slice(0, distance)
        types = []
        for side in sides:
            self.places = whole
            bounds = tuple(side)
            kept = [range(size)[each] for size, each in zip(whole.shape, bounds, strict=True)]
            parts = [each.start for each in kept], [len(each) for each in kept], [1] * whole.ndim
            self._add(
                "tensor.extract_slice {source}" + " ".join(map(str, parts)) + " : {before} to {after}",
                whole[bounds],
                source,
            )
            types.append(self._type)
        self.places = whole
        self._add(
            f"tensor.concat dim({dimension}) %{number}, %{number + 1} : ({', '.join(types)})" + " -> {after}",
            np.roll(whole, -distance, dimension),
        )

    def matched(self) -> FoundPlaces:
        """Those of the last value in the argument, which are checked to be what numpy says."""
        with ir.Context():
            module = ir.Module.parse(self.text)
            *_, last = walk(module.operation)
            found = match_rearrangement(last.operands[0])
            assert found is not None and isinstance(found.source, ir.BlockArgument)
            places = found.places
        assert places.elements == self.places.size
        computed = value_of(places.place, np.arange(self.places.size))
        np.testing.assert_array_equal(computed, self.places.ravel())
        return places


def value_of(number: DigitSum, places: Places) -> Places:
    total = np.full_like(places, number.constant)
    for factor, digit in number.terms:
        own = places if digit.number is None else value_of(digit.number, places)
        total += factor * (own // digit.divisor % digit.extent)
    return total


def windows() -> Program:
    """A rotated image that is divided into windows of 2 x 3 pixels, whose channels are kept together."""
    program = Program(2, 6, 9, 8)
    program.rotate(1, 1)
    program.rotate(2, 7)
    program.expand(2, 3, 3)
    program.expand(1, 3, 2)
    program.transpose(0, 1, 3, 2, 4, 5)
    program.collapse(0, 3)
    program.collapse(1, 2)
    return program


def whole() -> Program:
    """The image that windows were of."""
    program = Program(18, 6, 8)
    program.expand(0, 2, 3, 3)
    program.expand(3, 2, 3)
    program.transpose(0, 1, 3, 2, 4, 5)
    program.collapse(3, 2)
    program.collapse(1, 2)
    program.rotate(1, 5)
    program.rotate(2, 2)
    return program


def patches() -> Program:
    """The pixels of an image's patches, as they are divided where the image is channels first."""
    program = Program(2, 8, 4, 12)
    program.transpose(0, 3, 1, 2)
    program.collapse(0, 3)
    program.expand(1, 2, 2)
    program.expand(0, 96, 2)
    program.transpose(0, 2, 1, 3)
    program.collapse(2, 2)
    program.collapse(0, 2)
    program.expand(0, 2, 12, 8)
    program.transpose(0, 3, 2, 1)
    return program


@pytest.mark.parametrize("program", [windows(), whole(), patches()], ids=["windows", "whole", "patches"])
def test_orders_that_keep_channels_together(program: Program) -> None:
    places = program.matched()
    channels = program.places.shape[-1]
    assert places.keeps(4) and places.keeps(channels) and not places.keeps(2 * channels)
    assert not places.is_identity


def test_an_order_that_is_undone_is_none() -> None:
    program = Program(2, 6, 4)
    program.expand(1, 3, 2)
    program.transpose(0, 2, 1, 3)
    program.transpose(0, 2, 1, 3)
    program.collapse(1, 2)
    program.rotate(1, 4)
    assert not program.matched().is_identity
    program = Program(2, 6, 4)
    program.transpose(2, 0, 1)
    program.transpose(1, 2, 0)
    assert program.matched().is_identity


def test_parts_that_overlap_are_no_rotation() -> None:
    """Nor are those that leave a part out: together they have as many elements as what is rotated."""
    whole = "tensor<2x8x4xf32>"
    for first, count in ((3, 3), (5, 2), (2, 6)):
        sizes = f"[2, {count}, 4]", f"[2, {8 - count}, 4]"
        types = f"tensor<2x{count}x4xf32>", f"tensor<2x{8 - count}x4xf32>"
        text = f"""func.func @f(%x: {whole}) -> {whole} {{
          %a = tensor.extract_slice %x[0, {first}, 0] {sizes[0]} [1, 1, 1] : {whole} to {types[0]}
          %b = tensor.extract_slice %x[0, 0, 0] {sizes[1]} [1, 1, 1] : {whole} to {types[1]}
          %c = tensor.concat dim(1) %a, %b : ({types[0]}, {types[1]}) -> {whole}
          return %c : {whole}
        }}"""
        with ir.Context():
            module = ir.Module.parse(text)
            *_, last = walk(module.operation)
            found = match_rearrangement(last.operands[0])
            assert (found is not None) == (first + count == 8)


@pytest.mark.parametrize("seed", range(40))
def test_random_orders(seed: int) -> None:
    generator = np.random.default_rng(seed)
    program = Program(*generator.choice([1, 2, 3, 4, 6, 12], 3))
    for _ in range(6):
        shape = program.places.shape
        dimension = int(generator.integers(len(shape)))
        size = shape[dimension]
        kind = generator.integers(5)
        if kind == 0:
            program.transpose(*map(int, generator.permutation(len(shape))))
        elif kind == 1 and len(shape) < 6:
            part = int(generator.choice([each for each in range(1, size + 1) if size % each == 0]))
            program.expand(dimension, part, size // part)
        elif kind == 2 and dimension + 1 < len(shape):
            program.collapse(dimension, 2)
        elif kind == 3 and size > 1:
            program.rotate(dimension, int(generator.integers(1, size)))
        elif kind == 4 and size > 2:
            bounds = [slice(None)] * len(shape)
            bounds[dimension] = slice(1, size, int(generator.integers(1, 3)))
            program.slice(*bounds)
    if program.lines:
        kept = program.matched()
        flat = program.places.ravel()
        for run in (2, 4):
            if kept.keeps(run):
                starts = flat[::run]
                np.testing.assert_array_equal(flat.reshape(-1, run), starts[:, None] + np.arange(run))
                assert not (starts % run).any()
