"""Sizes known only at run time: numbers that know how they are computed from those of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

Node = TypeVar("Node", bound=Any)


@dataclass(frozen=True)
class Name:
    """The size of arguments that has a name, and its value in one run."""

    name: str
    value: int

    def __repr__(self) -> str:
        return f"named({self.name!r}, {self.value})"


@dataclass(frozen=True)
class Quotient:
    """The floor of a quotient."""

    numerator: OpenSize
    divisor: int

    def __repr__(self) -> str:
        return f"({self.numerator!r}) // {self.divisor}"

    @property
    def value(self) -> int:
        return int(self.numerator) // self.divisor


Atom = Name | Quotient
Terms = Mapping[Atom, int]
"""How many times each atom is added."""


class OpenSize(int):
    """A constant and a sum of atoms, with its value in one run of a program.

    It is compared by `<` as that number, and equal to what is the same in all runs alone. Sums of open sizes,
    their multiples and floors of their quotients are open sizes, but for those that no atom is left of.
    """

    terms: Terms
    constant: int

    def __new__(cls, terms: Terms, constant: int) -> OpenSize:
        size = super().__new__(cls, _value(terms, constant))
        size.terms, size.constant = terms, constant
        return size

    def __getnewargs__(self) -> tuple[Terms, int]:  # type: ignore[override]
        return self.terms, self.constant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpenSize) and (self.terms, self.constant) == (other.terms, other.constant)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((frozenset(self.terms.items()), self.constant))

    def __add__(self, other: int) -> int:
        if not isinstance(other, OpenSize):
            return OpenSize(self.terms, self.constant + other)
        terms = dict(self.terms)
        for atom, times in other.terms.items():
            terms[atom] = terms.get(atom, 0) + times
        return _size(terms, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> int:
        if isinstance(factor, OpenSize):
            raise TypeError("a product of sizes that are both open")
        return _size({atom: times * factor for atom, times in self.terms.items()}, self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self * -1

    def __sub__(self, other: int) -> int:
        return self + -other

    def __rsub__(self, other: int) -> int:
        return -self + other

    def __floordiv__(self, divisor: int) -> int:
        """What the divisor divides is taken out, so that equal floors are the same."""
        terms = self.terms.items()
        whole = _size({atom: times // divisor for atom, times in terms}, self.constant // divisor)
        rest = _size({atom: times % divisor for atom, times in terms}, self.constant % divisor)
        return whole + OpenSize({Quotient(rest, divisor): 1}, 0) if isinstance(rest, OpenSize) else whole

    def __repr__(self) -> str:
        terms = [f"{atom!r} * {times}" if times != 1 else repr(atom) for atom, times in self.terms.items()]
        return " + ".join([*terms, *([str(self.constant)] if self.constant else [])])


def _value(terms: Terms, constant: int) -> int:
    return sum(atom.value * times for atom, times in terms.items()) + constant


def _size(terms: Terms, constant: int) -> int:
    """An open size, or the number that is left of one."""
    kept = {atom: times for atom, times in terms.items() if times}
    return OpenSize(kept, constant) if kept else constant


def named(name: str, value: int) -> OpenSize:
    """The size of arguments that has this name."""
    return OpenSize({Name(name, value): 1}, 0)


def is_open(size: int) -> bool:
    return isinstance(size, OpenSize)


def names(size: OpenSize) -> Iterator[Name]:
    """Those that a size is computed from."""
    for atom in size.terms:
        yield from [atom] if isinstance(atom, Name) else names(atom.numerator)


def at(node: Node, values: Mapping[str, int]) -> Node:
    """A program, or a part of one, in the run where sizes of these names have these values."""
    if isinstance(node, OpenSize):
        size: Any = node.constant
        for atom, times in node.terms.items():
            if isinstance(atom, Name):
                size += named(atom.name, values.get(atom.name, atom.value)) * times
            else:
                size += at(atom.numerator, values) // atom.divisor * times
        return size  # type: ignore[no-any-return]
    return _mapped(node, lambda each: at(each, values))


def in_numbers(node: Node) -> Node:
    """A program, or a part of one, as if all sizes were known to be what they are in its run."""
    return int(node) if isinstance(node, OpenSize) else _mapped(node, in_numbers)  # type: ignore[return-value]


def _mapped(node: Node, change: Callable[[Any], Any]) -> Node:
    """A node with its parts changed."""
    if isinstance(node, tuple):
        return tuple(map(change, node))  # type: ignore[return-value]
    if is_dataclass(node):
        return type(node)(**{field.name: change(getattr(node, field.name)) for field in fields(node)})
    return node
