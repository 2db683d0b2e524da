"""The algebra of sizes: what it brings to one form is equal, and forms that torch writes of one size are."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

from iree.winograd.passes.match.unknown_sizes.size_algebra import SizeAlgebra, SizeExpression

Sizes = tuple[int, int]
Function = Callable[[Sizes], int]


def constant(number: int) -> SizeExpression:
    return SizeExpression(number)


def drawn(random_: random.Random, algebra: SizeAlgebra, depth: int) -> tuple[SizeExpression, Function]:
    """A random expression of two sizes, and the same in integers of Python."""
    kinds = ["+", "-", "*", "//", "ceil", "%", "max", "min"]
    kind = random_.choice(["size", "number"] if depth == 0 else kinds)
    if kind == "size":
        of = random_.randrange(2)
        return algebra.size_of(0, of), lambda sizes: sizes[of]
    if kind == "number":
        number = random_.randint(-4, 4)
        return constant(number), lambda sizes: number
    first, first_of = drawn(random_, algebra, depth - 1)
    if kind in ("//", "ceil", "%"):
        by = random_.randint(1, 6)
        divided = {
            "//": (algebra.floor_divided, lambda a: a // by),
            "ceil": (algebra.ceiling_divided, lambda a: -(-a // by)),
            "%": (algebra.remainder, lambda a: a % by),
        }
        of_algebra, of_integers = divided[kind]
        return of_algebra(first, constant(by)), lambda sizes: of_integers(first_of(sizes))
    second, second_of = drawn(random_, algebra, depth - 1)
    combined = {
        "+": (algebra.sum, lambda a, b: a + b),
        "-": (lambda a, b: algebra.sum(a, b, -1), lambda a, b: a - b),
        "*": (algebra.product, lambda a, b: a * b),
        "max": (algebra.maximum, max),
        "min": (algebra.minimum, min),
    }
    of_two, of_integers_of_two = combined[kind]
    return of_two(first, second), lambda sizes: of_integers_of_two(first_of(sizes), second_of(sizes))


def test_random_expressions_have_the_values_of_integers_and_equal_ones_are_equal() -> None:
    random_, algebra = random.Random(0), SizeAlgebra()
    points = [(a, b) for a in (0, 1, 2, 3, 7, 12, 29, 60) for b in (0, 1, 5, 8, 31)]
    found: dict[SizeExpression, set[tuple[int, ...]]] = defaultdict(set)
    for _ in range(1500):
        expression, function = drawn(random_, algebra, random_.randint(1, 4))
        values = tuple(map(function, points))
        evaluated = [algebra.value(expression, lambda _, of, point=point: point[of]) for point in points]
        assert evaluated == list(values), expression
        assert not algebra.is_natural(expression) or min(values) >= 0
        found[expression].add(values)
    assert all(len(values) == 1 for values in found.values())
    assert len(found) < 1200, "hardly any are brought to one form"


def test_forms_of_one_size_are_one() -> None:
    algebra = SizeAlgebra()
    size = algebra.size_of(0, 2)

    def halved(expression: SizeExpression, added: int) -> SizeExpression:
        """A layer of stride 2, whose window and padding add so much before and 1 after."""
        return algebra.sum(
            algebra.floor_divided(algebra.sum(expression, constant(added)), constant(2)), constant(1)
        )

    quarter = halved(halved(size, -1), -1)
    assert quarter == algebra.ceiling_divided(size, constant(4))
    doubled = algebra.product(size, constant(2))
    assert halved(doubled, -2) == size
    assert halved(doubled, -1) == size
    assert algebra.remainder(algebra.sum(doubled, constant(3)), constant(2)) == constant(1)
    assert algebra.maximum(algebra.sum(size, constant(3)), size) == algebra.sum(size, constant(3))


def test_sizes_that_differ_only_where_they_are_cut_off_differ() -> None:
    algebra = SizeAlgebra()
    size = algebra.size_of(0, 2)
    assert algebra.minimum(size, constant(10**6)) != size
    assert algebra.size_of(0, 3) != size
    assert algebra.floor_divided(size, constant(2)) != algebra.ceiling_divided(size, constant(2))
