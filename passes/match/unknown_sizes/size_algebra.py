"""Arithmetic of sizes known only at run time, in a normal form: expressions that are the same are equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Number = int | float
Monomial = tuple[int, ...]
"""A product of atoms, by their numbers in order."""

FLOOR_DIVISION = "floor division"
MAXIMUM, MINIMUM = "maximum", "minimum"


@dataclass(frozen=True)
class SizeExpression:
    """A constant and the sum of products of atoms, each a number of times."""

    constant: Number
    terms: tuple[tuple[Monomial, int], ...] = ()

    @property
    def known(self) -> Number | None:
        """Its value, if that doesn't depend on what is known only at run time."""
        return None if self.terms else self.constant


class SizeOfArgument(NamedTuple):
    """The atom that is a size of a program's argument: not negative."""

    argument: int
    dimension: int


@dataclass(frozen=True)
class _Applied:
    """The atom that is a function of expressions."""

    name: str
    operands: tuple[SizeExpression, ...]


_Atom = SizeOfArgument | _Applied


@dataclass
class SizeAlgebra:
    """Builds expressions over the sizes of a program's arguments, which aren't negative.

    Integers are added and multiplied as polynomials. A floor division by a positive number keeps only what
    the number doesn't divide, and one of another is a single one. Two expressions that are the same have the
    same value whatever the arguments' sizes; others may have, too.
    """

    _atoms: list[_Atom] = field(default_factory=list)
    _numbers: dict[_Atom, int] = field(default_factory=dict)

    def size_of(self, argument: int, dimension: int) -> SizeExpression:
        """A size that an argument of the program has."""
        return self._atom(SizeOfArgument(argument, dimension))

    def applied(self, name: str, *operands: SizeExpression) -> SizeExpression:
        """What the function of a name, one of `FUNCTIONS`, gives; nothing else is known of it."""
        return self._atom(_Applied(name, operands))

    def sum(self, first: SizeExpression, second: SizeExpression, times: int = 1) -> SizeExpression:
        """The first and so many times the second, both integers."""
        terms = dict(first.terms)
        for monomial, coefficient in second.terms:
            terms[monomial] = terms.get(monomial, 0) + times * coefficient
        return _of_terms(first.constant + times * second.constant, terms)

    def product(self, first: SizeExpression, second: SizeExpression) -> SizeExpression:
        """The product of two integers."""
        terms: dict[Monomial, Number] = {}
        for left, times in (((), first.constant), *first.terms):
            for right, coefficient in (((), second.constant), *second.terms):
                monomial = tuple(sorted(left + right))
                terms[monomial] = terms.get(monomial, 0) + times * coefficient
        constant = terms.pop((), 0)
        return _of_terms(constant, {monomial: int(each) for monomial, each in terms.items()})

    def floor_divided(self, dividend: SizeExpression, divisor: SizeExpression) -> SizeExpression:
        """The quotient of two integers, rounded downwards."""
        by = divisor.known
        if not isinstance(by, int) or not isinstance(dividend.constant, int) or by < 1:
            return self.applied(FLOOR_DIVISION, dividend, divisor)
        whole = _of_terms(dividend.constant // by, {each: times // by for each, times in dividend.terms})
        rest = _of_terms(dividend.constant % by, {each: times % by for each, times in dividend.terms})
        # A number that divides all but the constant: what the constant has beyond it doesn't count.
        common = math.gcd(by, *(times for _, times in rest.terms))
        assert isinstance(rest.constant, int)
        rest = _of_terms(rest.constant // common, {each: times // common for each, times in rest.terms})
        by //= common
        if by == 1 or not rest.terms:
            return self.sum(whole, rest) if by == 1 else whole
        return self.sum(whole, self._quotient(rest, by))

    def ceiling_divided(self, dividend: SizeExpression, divisor: SizeExpression) -> SizeExpression:
        """The quotient of an integer and a positive one, rounded upwards."""
        beyond = self.sum(divisor, SizeExpression(-1))
        return self.floor_divided(self.sum(dividend, beyond), divisor)

    def remainder(self, dividend: SizeExpression, divisor: SizeExpression) -> SizeExpression:
        """What the floor division leaves."""
        return self.sum(dividend, self.product(self.floor_divided(dividend, divisor), divisor), -1)

    def maximum(self, first: SizeExpression, second: SizeExpression) -> SizeExpression:
        """The larger one of two integers."""
        if self.is_at_least(first, second):
            return first
        return second if self.is_at_least(second, first) else self._of_two(MAXIMUM, first, second)

    def minimum(self, first: SizeExpression, second: SizeExpression) -> SizeExpression:
        """The smaller one."""
        if self.is_at_least(first, second):
            return second
        return first if self.is_at_least(second, first) else self._of_two(MINIMUM, first, second)

    def is_at_least(self, first: SizeExpression, second: SizeExpression) -> bool:
        """Whether the first is certain to be no smaller than the second, both integers."""
        return self.is_natural(self.sum(first, second, -1))

    def is_natural(self, expression: SizeExpression) -> bool:
        """Whether it is certain to be no negative number."""
        natural = all(
            times > 0 and all(self._is_natural_atom(self._atoms[atom]) for atom in monomial)
            for monomial, times in expression.terms
        )
        return natural and isinstance(expression.constant, int) and expression.constant >= 0

    def value(self, expression: SizeExpression, size_of_argument: Callable[[int, int], int]) -> Number | None:
        """Its value for sizes of the arguments, by their numbers and dimensions; None where it has none."""
        values: dict[int, Number] = {}

        def value_of(atom: int) -> Number:
            if atom not in values:
                content = self._atoms[atom]
                if isinstance(content, SizeOfArgument):
                    values[atom] = size_of_argument(*content)
                else:
                    values[atom] = FUNCTIONS[content.name](*map(evaluated, content.operands))
            return values[atom]

        def evaluated(expression: SizeExpression) -> Number:
            products = (times * math.prod(map(value_of, monomial)) for monomial, times in expression.terms)
            return expression.constant + sum(products)

        try:
            return evaluated(expression)
        except (ArithmeticError, ValueError):
            return None

    def _atom(self, atom: _Atom) -> SizeExpression:
        if atom not in self._numbers:
            self._numbers[atom] = len(self._atoms)
            self._atoms.append(atom)
        return SizeExpression(0, (((self._numbers[atom],), 1),))

    def _quotient(self, dividend: SizeExpression, divisor: int) -> SizeExpression:
        """A floor division, of what is rounded downwards before in one with that."""
        for monomial, times in dividend.terms:
            inner = self._atoms[monomial[0]]
            if len(monomial) > 1 or times != 1 or not isinstance(inner, _Applied):
                continue
            if inner.name != FLOOR_DIVISION or not isinstance(inner.operands[1].known, int):
                continue
            first, before = inner.operands[0], inner.operands[1].known
            if before > 0:
                others = self.sum(dividend, SizeExpression(0, ((monomial, 1),)), -1)
                return self.floor_divided(self.sum(first, others, before), SizeExpression(before * divisor))
        return self.applied(FLOOR_DIVISION, dividend, SizeExpression(divisor))

    def _of_two(self, name: str, first: SizeExpression, second: SizeExpression) -> SizeExpression:
        """A function of which the order of two operands doesn't matter."""
        return self.applied(name, *sorted((first, second), key=lambda each: (each.terms, each.constant)))

    def _is_natural_atom(self, atom: _Atom) -> bool:
        if isinstance(atom, SizeOfArgument):
            return True
        natural = map(self.is_natural, atom.operands)
        if atom.name == MAXIMUM:
            return any(natural)
        return atom.name in (FLOOR_DIVISION, MINIMUM) and all(natural)


def _of_terms(constant: Number, terms: Mapping[Monomial, int]) -> SizeExpression:
    return SizeExpression(constant, tuple(sorted((each, times) for each, times in terms.items() if times)))


def _truncating(dividend: Number, divisor: Number) -> Number:
    return math.trunc(dividend / divisor)


def _selected(condition: Number, yes: Number, no: Number) -> Number:
    return yes if condition else no


COMPARISONS: Sequence[str] = (
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "unsigned <",
    "unsigned <=",
    "unsigned >",
    "unsigned >=",
)
"""By the number of a predicate of MLIR."""

FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    FLOOR_DIVISION: lambda dividend, divisor: dividend // divisor,
    MAXIMUM: max,
    MINIMUM: min,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    # Of sizes, which aren't negative, those without a sign are the same.
    "unsigned <": lambda a, b: int(a < b),
    "unsigned <=": lambda a, b: int(a <= b),
    "unsigned >": lambda a, b: int(a > b),
    "unsigned >=": lambda a, b: int(a >= b),
    "arith.divsi": _truncating,
    "arith.divui": lambda dividend, divisor: dividend // divisor,
    "arith.remsi": math.fmod,
    "arith.remui": lambda dividend, divisor: dividend % divisor,
    "arith.select": _selected,
    "arith.andi": lambda a, b: int(a) & int(b),
    "arith.ori": lambda a, b: int(a) | int(b),
    "arith.xori": lambda a, b: int(a) ^ int(b),
    "arith.extsi": lambda number: number,
    "arith.extui": lambda number: number,
    "arith.index_castui": lambda number: number,
    "arith.trunci": lambda number: number,
    "arith.sitofp": float,
    "arith.uitofp": float,
    "arith.fptosi": math.trunc,
    "arith.fptoui": math.trunc,
    "arith.extf": lambda number: number,
    "arith.truncf": lambda number: number,
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
}
"""What is evaluated of numbers, by the names of operations or of functions of the algebra."""
