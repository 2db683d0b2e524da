"""Index arithmetic that folds, and conditions.

Everything emits at the current insertion point. An `Index` that is known while the kernel is built stays a
Python integer until an op needs it, so a kernel written for any shape prints as if it had been written for
its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.problems.open_launches import LARGEST_SIZE


@dataclass(frozen=True)
class Index:
    """An index: an integer known while the kernel is built, or an SSA value of type `index` and one added.

    What is added stays an integer through further sums and products, as distances from one value should: an
    operation for each would be a fourth of a kernel.
    """

    content: int | ir.Value
    added: int = 0

    @staticmethod
    def of(value: IndexLike) -> Index:
        return value if isinstance(value, Index) else Index(value)

    @property
    def known(self) -> int | None:
        return self.content if isinstance(self.content, int) else None

    @property
    def value(self) -> ir.Value:
        """The SSA value; a known index becomes a constant here, or is one of `shared_values`."""
        if isinstance(self.content, int):
            return _constant(self.content)
        return self.content if self.added == 0 else _computed(arith.addi, self.content, _constant(self.added))

    def __add__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if isinstance(other.content, int):
            return self._plus(other.content)
        if isinstance(self.content, int):
            return other._plus(self.content)
        return Index(_computed(arith.addi, self.content, other.content), self.added + other.added)

    def _plus(self, number: int) -> Index:
        if isinstance(self.content, int):
            return Index(self.content + number)
        return Index(self.content, self.added + number)

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if isinstance(other.content, int):
            return self._plus(-other.content)
        return Index(_computed(arith.subi, self.value, other.content), -other.added)

    def __mul__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(self.known * other.known)
        if self.known == 0 or other.known == 0:
            return Index(0)
        if self.known is not None:
            return other * self.known
        if other.known == 1:
            return self
        if other.known is not None:
            return Index(
                _computed(arith.muli, self.content, _constant(other.known)), self.added * other.known
            )
        return Index(_computed(arith.muli, self.value, other.value))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: IndexLike) -> Index:
        """The quotient of an index that is not negative."""
        divisor = Index.of(divisor)
        if self.known is not None and divisor.known is not None:
            return Index(self.known // divisor.known)
        return self if divisor.known == 1 else _divided_by(arith.divui, self, divisor)

    def __mod__(self, divisor: IndexLike) -> Index:
        """The remainder of an index that is not negative."""
        divisor = Index.of(divisor)
        if self.known is not None and divisor.known is not None:
            return Index(self.known % divisor.known)
        return Index(0) if divisor.known == 1 else _divided_by(arith.remui, self, divisor)

    def __xor__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(self.known ^ other.known)
        return Index(arith.xori(self.value, other.value))

    def minimum(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(min(self.known, other.known))
        return Index(arith.minsi(self.value, other.value))

    def maximum(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(max(self.known, other.known))
        return Index(arith.maxsi(self.value, other.value))

    def at_least(self, other: IndexLike) -> Condition:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Condition(self.known >= other.known)
        return Condition(arith.cmpi(arith.CmpIPredicate.sge, self.value, other.value))

    def equals(self, other: IndexLike) -> Condition:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Condition(self.known == other.known)
        return Condition(arith.cmpi(arith.CmpIPredicate.eq, self.value, other.value))

    def less_than(self, other: IndexLike) -> Condition:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Condition(self.known < other.known)
        return Condition(arith.cmpi(arith.CmpIPredicate.slt, self.value, other.value))

    def within(self, size: IndexLike) -> Condition:
        """Whether it is in `range(size)`: one comparison, as negative numbers are large unsigned ones."""
        size = Index.of(size)
        if self.known is not None and size.known is not None:
            return Condition(0 <= self.known < size.known)
        position, end = (_shortened(each.value) for each in (self, size))
        return Condition(arith.cmpi(arith.CmpIPredicate.ult, position, end))

    def moved_into(self, size: IndexLike) -> Index:
        """The next that is in `range(size)`."""
        size = Index.of(size)
        if not _are_short() or (self.known is not None and size.known is not None):
            return self.maximum(0).minimum(size - 1)
        position, last, first = (_shortened(each.value) for each in (self, size - 1, Index(0)))
        return _lengthened(arith.minsi(arith.maxsi(position, first), last))


IndexLike = Index | int
_LARGEST_DIVIDED = (1 << 32) - 1
_NEAR = 3
"""As far behind an index that is divided as others follow from it."""


@dataclass(frozen=True)
class _SharedValues:
    """Constants at the beginning of a block, and what is computed of indices that aren't, each once."""

    block: ir.Block
    short: bool = False
    constants: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    computed: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)

    def constant(self, key: tuple[object, ...], build: Callable[[], ir.Value]) -> ir.Value:
        if key not in self.constants:
            with ir.InsertionPoint.at_block_begin(self.block):
                self.constants[key] = build()
        return self.constants[key]


_shared_values: ContextVar[_SharedValues | None] = ContextVar("shared values", default=None)


@contextmanager
def shared_values(function: ir.Block, *, short: bool = False) -> Iterator[None]:
    """Has what is known be constants of `function`, its first block, for all that is emitted in it.

    In each block what is computed of the same indices is computed once: with an operation for each use a
    kernel would be half as long again. What is divided there is `short` if it has 32 bits, without a sign.
    """
    token = _shared_values.set(_SharedValues(function, short))
    try:
        yield
    finally:
        _shared_values.reset(token)


@dataclass(frozen=True)
class Condition:
    """A truth value: known while the kernel is built, or an SSA value of type `i1`."""

    content: bool | ir.Value

    @property
    def known(self) -> bool | None:
        return self.content if isinstance(self.content, bool) else None

    @property
    def value(self) -> ir.Value:
        if isinstance(self.content, bool):
            return arith.constant(ir.IntegerType.get_signless(1), int(self.content))
        return self.content

    def __and__(self, other: Condition) -> Condition:
        if self.known is not None:
            return other if self.known else self
        if other.known is not None:
            return self if other.known else other
        return Condition(arith.andi(self.value, other.value))

    def __or__(self, other: Condition) -> Condition:
        if self.known is not None:
            return self if self.known else other
        if other.known is not None:
            return other if other.known else self
        return Condition(arith.ori(self.value, other.value))


def all_of(conditions: Sequence[Condition]) -> Condition:
    result = Condition(True)
    for condition in conditions:
        result = result & condition
    return result


def select_index(condition: Condition, yes: IndexLike, no: IndexLike) -> Index:
    """`yes` where the condition holds, `no` elsewhere."""
    if condition.known is not None:
        return Index.of(yes if condition.known else no)
    return Index(arith.select(condition.value, Index.of(yes).value, Index.of(no).value))


def kept_where(condition: Condition, position: Index) -> Index:
    """`position` where the condition holds, for which it isn't negative, and 0 elsewhere."""
    if not _are_short() or condition.known is not None or position.known is not None:
        return select_index(condition, position, 0)
    return _lengthened(arith.select(condition.value, *map(_shortened, (position.value, Index(0).value))))


def ceildiv(dividend: IndexLike, divisor: IndexLike) -> Index:
    return (Index.of(dividend) + (Index.of(divisor) - 1)) // divisor


def divided(number: Index, divisor: IndexLike) -> tuple[Index, Index]:
    """The quotient and the remainder of an index, what is added to which is behind one that isn't negative.

    By a divisor that isn't known the index before is divided, once for all of up to three behind it: a
    division takes as long as ten other operations.
    """
    divisor, ahead = Index.of(divisor), number.added
    if divisor.known is not None or number.known is not None or not 0 < ahead <= _NEAR:
        return number // divisor, number % divisor
    before = Index(number.content)
    quotient, remainder = before // divisor, before % divisor + ahead
    for _ in range(ahead):
        is_behind = remainder.at_least(divisor)
        quotient = select_index(is_behind, quotient + 1, quotient)
        remainder = select_index(is_behind, remainder - divisor, remainder)
    return quotient, remainder


def unflatten(number: Index, sizes: Sequence[IndexLike]) -> tuple[Index, ...]:
    """The row-major coordinates of a position that is numbered within `sizes`."""
    coordinates: list[Index] = []
    for size in reversed(sizes[1:]):
        coordinates.insert(0, number % size)
        number = number // size
    return (number, *coordinates) if sizes else ()


def short_size(size: ir.Value) -> ir.Value:
    """A size of less than 2^31 as a value that compilers know to be so short."""
    return arith.andi(size, _constant(LARGEST_SIZE))


def short_number(position: Sequence[IndexLike], extents: Sequence[IndexLike]) -> Index:
    """The number of a position among so many along each dimension, less than 2^32 in all: by 32 bits, if
    sizes are short. Of one that doesn't exist it is any."""
    number = Index.of(position[0])
    if not _are_short():
        for index, extent in zip(position[1:], extents[1:], strict=True):
            number = number * extent + index
        return number
    word = _shortened(number.value)
    for index, extent in zip(position[1:], extents[1:], strict=True):
        row = arith.muli(word, _shortened(Index.of(extent).value))
        word = arith.addi(row, _shortened(Index.of(index).value))
    return _lengthened(word)


def _are_short() -> bool:
    shared = _shared_values.get()
    return shared is not None and shared.short


def _shortened(value: ir.Value) -> ir.Value:
    """An index of a size or a position as one of 32 bits, if these are short."""
    return arith.index_cast(ir.IntegerType.get_signless(32), value) if _are_short() else value


def _lengthened(value: ir.Value) -> Index:
    """One that isn't negative of 32 bits as an index."""
    return Index(arith.index_castui(ir.IndexType.get(), value))


def _divided_by(operation: Callable[[ir.Value, ir.Value], ir.Value], number: Index, divisor: Index) -> Index:
    """A quotient or a remainder.

    Of 64 bits by one that isn't known it takes GPUs as long as a hundred other operations, or a branch to
    that of 32.
    """
    if not _are_short() or divisor.known is not None:
        return Index(_computed(operation, number.value, divisor.value))
    mask = _constant(_LARGEST_DIVIDED)
    dividend, by = (_computed(arith.andi, each.value, mask) for each in (number, divisor))
    return Index(_computed(operation, dividend, by))


def _computed(operation: Callable[[ir.Value, ir.Value], ir.Value], a: ir.Value, b: ir.Value) -> ir.Value:
    """The result of an operation on two indices, one for all uses in a block: values are added at its end."""
    shared = _shared_values.get()
    if shared is None:
        return operation(a, b)
    key = (ir.InsertionPoint.current.block, operation, a, b)
    if key not in shared.computed:
        shared.computed[key] = operation(a, b)
    return shared.computed[key]


def _constant(number: int) -> ir.Value:
    return shared_constant(
        (number,), lambda: arith.constant(ir.IndexType.get(), number, loc=_unnamed_location())
    )


def shared_constant(key: tuple[object, ...], build: Callable[[], ir.Value]) -> ir.Value:
    """The constant of a key, built once for all that is emitted within `shared_values`."""
    shared = _shared_values.get()
    return build() if shared is None else shared.constant(key, build)


def _unnamed_location() -> ir.Location:
    """The current location without the names of values: that of constants, which print as what they are."""
    location = ir.Location.current
    while isinstance(location, ir.NameLoc) and location.child_loc != ir.Location.unknown():
        location = location.child_loc
    return location
