"""The vocabulary that kernels are written in: index arithmetic that folds, loops, guards, buffers of vectors.

Everything emits at the current insertion point. An `Index` that is known while the kernel is built stays a
Python integer until an op needs it, so a kernel written for any shape prints as if it had been written for
its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod

from iree.winograd.dialect.bindings import arith, ir, memref, scf, vector


@dataclass(frozen=True)
class Index:
    """An index: an integer known while the kernel is built, or an SSA value of type `index`."""

    content: int | ir.Value

    @staticmethod
    def of(value: IndexLike) -> Index:
        return value if isinstance(value, Index) else Index(value)

    @property
    def known(self) -> int | None:
        return self.content if isinstance(self.content, int) else None

    @property
    def value(self) -> ir.Value:
        """The SSA value; a known index becomes a constant here, or is one of `shared_constants`."""
        if not isinstance(self.content, int):
            return self.content
        shared = _shared_constants.get()
        if shared is None:
            return arith.constant(ir.IndexType.get(), self.content, loc=_unnamed_location())
        return shared.index(self.content)

    def __add__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(self.known + other.known)
        if self.known == 0:
            return other
        if other.known == 0:
            return self
        return Index(arith.addi(self.value, other.value))

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(self.known - other.known)
        if other.known == 0:
            return self
        return Index(arith.subi(self.value, other.value))

    def __mul__(self, other: IndexLike) -> Index:
        other = Index.of(other)
        if self.known is not None and other.known is not None:
            return Index(self.known * other.known)
        if self.known == 0 or other.known == 0:
            return Index(0)
        if self.known == 1:
            return other
        if other.known == 1:
            return self
        return Index(arith.muli(self.value, other.value))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: IndexLike) -> Index:
        """The quotient of an index that is not negative."""
        divisor = Index.of(divisor)
        if self.known is not None and divisor.known is not None:
            return Index(self.known // divisor.known)
        return self if divisor.known == 1 else Index(arith.divui(self.value, divisor.value))

    def __mod__(self, divisor: IndexLike) -> Index:
        """The remainder of an index that is not negative."""
        divisor = Index.of(divisor)
        if self.known is not None and divisor.known is not None:
            return Index(self.known % divisor.known)
        return Index(0) if divisor.known == 1 else Index(arith.remui(self.value, divisor.value))

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


IndexLike = Index | int


@dataclass(frozen=True)
class _SharedConstants:
    """Indices that are constants at the beginning of a block, each of them once."""

    block: ir.Block
    indices: dict[int, ir.Value] = field(default_factory=dict)

    def index(self, number: int) -> ir.Value:
        if number not in self.indices:
            with ir.InsertionPoint.at_block_begin(self.block):
                self.indices[number] = arith.constant(ir.IndexType.get(), number, loc=_unnamed_location())
        return self.indices[number]


_shared_constants: ContextVar[_SharedConstants | None] = ContextVar("shared constants", default=None)


@contextmanager
def shared_constants(function: ir.Block) -> Iterator[None]:
    """Has indices that are known be constants of `function`, its first block, for all that is emitted in it.

    One for each use would be a third of a kernel.
    """
    token = _shared_constants.set(_SharedConstants(function))
    try:
        yield
    finally:
        _shared_constants.reset(token)


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


@dataclass(frozen=True)
class LaneMask:
    """Lanes of a vector for which something is done: an SSA value, a vector of `i1`."""

    value: ir.Value

    @staticmethod
    def between(begin: IndexLike, end: IndexLike, width: int) -> LaneMask:
        """Of `width` lanes those from `begin` to `end`, either of which may lie outside of the vector."""
        integer = ir.IntegerType.get_signless(32)
        type_ = ir.VectorType.get([width], integer)
        lanes = arith.constant(
            type_,
            ir.DenseElementsAttr.get([ir.IntegerAttr.get(integer, i) for i in range(width)], type_),
        )
        first, last = (
            vector.broadcast(type_, arith.index_cast(integer, Index.of(bound).value))
            for bound in (begin, end)
        )
        return LaneMask(
            arith.andi(
                arith.cmpi(arith.CmpIPredicate.sge, lanes, first),
                arith.cmpi(arith.CmpIPredicate.slt, lanes, last),
            )
        )


def all_of(conditions: Sequence[Condition]) -> Condition:
    result = Condition(True)
    for condition in conditions:
        result = result & condition
    return result


def ceildiv(dividend: IndexLike, divisor: IndexLike) -> Index:
    return (Index.of(dividend) + (Index.of(divisor) - 1)) // divisor


def unflatten(number: Index, sizes: Sequence[int]) -> tuple[Index, ...]:
    """The row-major coordinates of a position that is numbered within `sizes`."""
    coordinates: list[Index] = []
    for size in reversed(sizes[1:]):
        coordinates.insert(0, number % size)
        number = number // size
    return (number, *coordinates) if sizes else ()


@contextmanager
def named(name: str) -> Iterator[None]:
    """Has what is emitted within carry a name, beside the location that it has.

    The bindings can't name values; `winograd-opt --mlir-use-nameloc-as-prefix` prints these as their names.
    """
    with ir.Location.name(name, ir.Location.current):
        yield


def _unnamed_location() -> ir.Location:
    """The current location without the names of values: that of constants, which print as what they are."""
    location = ir.Location.current
    while isinstance(location, ir.NameLoc) and location.child_loc != ir.Location.unknown():
        location = location.child_loc
    return location


@contextmanager
def loop(upper: IndexLike, step: int = 1, name: str = "i") -> Iterator[Index]:
    """`for i in range(0, upper, step)`; a loop of one known iteration is only its body."""
    upper = Index.of(upper)
    if upper.known is not None and 0 < upper.known <= step:
        yield Index(0)
        return
    bounds = Index(0).value, upper.value, Index(step).value
    with named(name):
        for_op = scf.ForOp(*bounds)
    with ir.InsertionPoint(for_op.body):
        yield Index(for_op.induction_variable)
        scf.yield_([])


def loop_carried(
    upper: IndexLike,
    step: int,
    initial: Sequence[ir.Value],
    body: Callable[[Index, list[ir.Value]], Sequence[ir.Value]],
    name: str = "i",
) -> list[ir.Value]:
    """`for i in range(0, upper, step): values = body(i, values)`; gives the last values."""
    upper = Index.of(upper)
    if upper.known is not None and 0 < upper.known <= step:
        return list(body(Index(0), list(initial)))
    bounds = Index(0).value, upper.value, Index(step).value
    with named(name):
        for_op = scf.ForOp(*bounds, list(initial))
    with ir.InsertionPoint(for_op.body):
        scf.yield_(list(body(Index(for_op.induction_variable), list(for_op.inner_iter_args))))
    return list(for_op.results)


def when(condition: Condition, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Emits `then` under the condition, `otherwise` under its negation; one of them if it is known."""
    if condition.known is not None:
        if condition.known:
            then()
        elif otherwise is not None:
            otherwise()
        return
    if_op = scf.IfOp(condition.value, has_else=otherwise is not None)
    with ir.InsertionPoint(if_op.then_block):
        then()
        scf.yield_([])
    if otherwise is not None:
        with ir.InsertionPoint(if_op.else_block):
            otherwise()
            scf.yield_([])


def vector_type(width: int, element: ir.Type) -> ir.VectorType:
    return ir.VectorType.get([width], element)


def splat(value: float, width: int, element: ir.Type) -> ir.Value:
    """A constant vector of `width` equal lanes of a floating-point type."""
    type_ = vector_type(width, element)
    return arith.constant(
        type_, ir.DenseElementsAttr.get_splat(type_, ir.FloatAttr.get(type_.element_type, float(value)))
    )


def broadcast(scalar: ir.Value, width: int) -> ir.Value:
    return vector.broadcast(vector_type(width, scalar.type), scalar)


def multiply_add(a: ir.Value, b: ir.Value, addend: ir.Value, fused: bool) -> ir.Value:
    """a * b + addend; without FMA in the target a fused one would be a call into a library."""
    return vector.fma(a, b, addend) if fused else arith.addf(arith.mulf(a, b), addend)


@dataclass(frozen=True)
class Buffer:
    """A dense row-major array in a 1-D memref, addressed by element offsets.

    Kernels compute one offset per tile and add known distances to it, which become displacements of the
    machine's addressing modes; a memref of full rank would leave that to be rediscovered by the optimiser.
    """

    memref: ir.Value
    extents: tuple[int, ...]
    origin: IndexLike = field(default=0, kw_only=True)
    """Elements before the first one: a slice of a larger array starts there, and has that one's extents."""

    @property
    def element(self) -> ir.Type:
        """The type of the elements."""
        return ir.MemRefType(self.memref.type).element_type

    def stride(self, dimension: int) -> int:
        """Elements between neighbours along a dimension; the first extent, maybe dynamic, has no part."""
        return prod(self.extents[dimension % len(self.extents) + 1 :])

    def offset(self, indices: Sequence[IndexLike]) -> Index:
        """The element offset of a position."""
        result = Index.of(self.origin)
        for dimension, index in enumerate(indices):
            result = result + Index.of(index) * self.stride(dimension)
        return result

    def load(self, offset: IndexLike, width: int, valid: Condition | None = None) -> ir.Value:
        """The `width` elements from `offset` on, or zeros where the condition does not hold."""
        index = [Index.of(offset).value]
        if valid is None or valid.known:
            return vector.load(vector_type(width, self.element), self.memref, index)
        if valid.known is False:
            return splat(0.0, width, self.element)
        mask, zeros = broadcast(valid.value, width), splat(0.0, width, self.element)
        return vector.maskedload(vector_type(width, self.element), self.memref, index, mask, zeros)

    def store(self, value: ir.Value, offset: IndexLike, valid: Condition | None = None) -> None:
        """Writes a vector from `offset` on where the condition holds."""
        index = [Index.of(offset).value]
        if valid is None or valid.known:
            vector.store(value, self.memref, index)
        elif valid.known is None:
            mask = broadcast(valid.value, ir.VectorType(value.type).shape[0])
            vector.maskedstore(self.memref, index, mask, value)

    def load_lanes(self, offset: IndexLike, mask: LaneMask) -> ir.Value:
        """The elements from `offset` on, one a lane, or zeros where the mask does not hold."""
        width = ir.VectorType(mask.value.type).shape[0]
        index, zeros = [Index.of(offset).value], splat(0.0, width, self.element)
        return vector.maskedload(vector_type(width, self.element), self.memref, index, mask.value, zeros)

    def store_lanes(self, value: ir.Value, offset: IndexLike, mask: LaneMask) -> None:
        """Writes the lanes of a vector for which the mask holds, the first one at `offset`."""
        vector.maskedstore(self.memref, [Index.of(offset).value], mask.value, value)

    def prefetch(self, offset: IndexLike, *, to_write: bool = False, to_l2: bool = False) -> None:
        """Brings the cache line of an element into L1, or L2; the offset need not be within the buffer."""
        memref.prefetch(self.memref, [Index.of(offset).value], to_write, 2 if to_l2 else 3, True)

    def load_scalar(self, offset: IndexLike) -> ir.Value:
        return memref.load(self.memref, [Index.of(offset).value])


def copy_elements(
    source: Buffer, source_offset: Index, target: Buffer, target_offset: Index, count: Index, width: int
) -> None:
    """Copies `count` neighbouring elements, by vectors and then one by one."""
    _by_vectors(
        count,
        width,
        lambda i, lanes: target.store(source.load(source_offset + i, lanes), target_offset + i),
    )


def clear_elements(target: Buffer, offset: Index, count: Index, width: int) -> None:
    """Sets `count` neighbouring elements to zero, by vectors and then one by one."""
    _by_vectors(count, width, lambda i, lanes: target.store(splat(0.0, lanes, target.element), offset + i))


def _by_vectors(count: Index, width: int, body: Callable[[Index, int], None]) -> None:
    whole = count // width * width
    with loop(whole, width) as i:
        body(i, width)
    with loop(count - whole) as i:
        body(whole + i, 1)


def scratch(extents: tuple[int, ...], element: ir.Type, name: str) -> Buffer:
    """Memory of one workgroup for elements of a type, supplied by the runtime."""
    space = ir.Attribute.parse("#iree_codegen.workgroup_local")
    with named(name):
        allocation = memref.AllocOp(ir.MemRefType.get([prod(extents)], element, memory_space=space), [], [])
    return Buffer(allocation.result, extents)


def vector_width_for(extent: int, widest: int) -> int:
    """The widest power of two of lanes, at most `widest`, that fits in `extent` elements."""
    width = widest
    while width > extent:
        width //= 2
    return width


def for_each_vector(extent: int, width: int, body: Callable[[Index], None], name: str) -> None:
    """Covers `extent >= width` elements by vectors; the last one overlaps its neighbour rather than run over.

    Overlap instead of masks: every access is in bounds and unmasked on every target, and what is written
    twice is written with the same values.
    """
    with loop(extent, width, name) as start:
        body(start if extent % width == 0 else start.minimum(extent - width))
