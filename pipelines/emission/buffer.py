"""Arrays of elements in memory, read and written by vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from iree.winograd.dialect.bindings import ir, memref, vector
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .control_flow import loop, named
from .index import Condition, Index, IndexLike
from .numbers.known import NUMBERS, Numbers, number_of
from .numbers.number import Number
from .vectors import LaneMask, broadcast, splat, vector_type


@dataclass(frozen=True)
class Buffer:
    """A dense row-major array in a 1-D memref, addressed by element offsets.

    Kernels compute one offset per tile and add known distances to it, which become displacements of the
    machine's addressing modes; a memref of full rank would leave that to be rediscovered by the optimiser.
    """

    memref: ir.Value
    extents: tuple[IndexLike, ...]
    origin: IndexLike = field(default=0, kw_only=True)
    """Elements before the first one: a slice of a larger array starts there, and has that one's extents."""
    numbers: Numbers = field(default_factory=lambda: NUMBERS, kw_only=True, compare=False, repr=False)
    """How the processor converts elements."""

    @cached_property
    def element(self) -> ir.Type:
        """The type of the elements in memory."""
        return ir.MemRefType(self.memref.type).element_type

    @cached_property
    def number(self) -> Number:
        """What that is as a type of numbers: loads widen to the one that is computed with, stores narrow."""
        return number_of(self.element, self.numbers)

    @property
    def computed(self) -> ir.Type:
        """The type of elements that were loaded, and of those to be stored."""
        return self.number.computed.type

    @property
    def known_extents(self) -> tuple[int, ...]:
        """The extents. Raises ValueError where one of them is known only at run time."""
        known = tuple(extent for extent in self.extents if isinstance(extent, int))
        if len(known) != len(self.extents):
            raise ValueError(f"an array of {self.extents} has extents that are known only at run time")
        return known

    def stride(self, dimension: int) -> IndexLike:
        """Elements between neighbours along a dimension: a number where the extents after it are known."""
        if self._known_strides is not None:
            return self._known_strides[dimension]
        return element_count(self.extents[dimension % len(self.extents) + 1 :])

    @cached_property
    def _known_strides(self) -> tuple[int, ...] | None:
        """All strides, None where one of the extents is known only at run time; each is asked for often."""
        inner: list[int] = [1]
        for extent in reversed(self.extents[1:]):
            if not isinstance(extent, int):
                return None
            inner.append(extent * inner[-1])
        return tuple(reversed(inner))

    def known_stride(self, dimension: int) -> int:
        """`stride`. Raises ValueError where it is known only at run time."""
        stride = self.stride(dimension)
        if not isinstance(stride, int):
            raise ValueError(f"an array of {self.extents} has strides that are known only at run time")
        return stride

    def offset(self, indices: Sequence[IndexLike]) -> Index:
        """The element offset of a position."""
        return Index.of(self.origin) + self.distance(indices)

    def distance(self, indices: Sequence[IndexLike]) -> Index:
        """Elements from one position to another that lies so much further along each dimension."""
        result = Index(0)
        for dimension, index in enumerate(indices):
            result = result + Index.of(index) * self.stride(dimension)
        return result

    def with_numbers(self, numbers: Numbers) -> Buffer:
        """The same whose elements are converted as the processor does."""
        return replace(self, numbers=numbers)

    def load(self, offset: IndexLike, width: int, valid: Condition | None = None) -> ir.Value:
        """The `width` elements from `offset` on, or zeros where the condition does not hold."""
        index = [Index.of(offset).value]
        if valid is None or valid.known:
            return self.number.widened(vector.load(vector_type(width, self.element), self.memref, index))
        if valid.known is False:
            return splat(0.0, width, self.computed)
        mask, zeros = broadcast(valid.value, width), splat(0.0, width, self.element)
        loaded = vector.maskedload(vector_type(width, self.element), self.memref, index, mask, zeros)
        return self.number.widened(loaded)

    def store(self, value: ir.Value, offset: IndexLike, valid: Condition | None = None) -> None:
        """Writes a vector from `offset` on where the condition holds."""
        index, value = [Index.of(offset).value], self.number.narrowed(value)
        if valid is None or valid.known:
            vector.store(value, self.memref, index)
        elif valid.known is None:
            mask = broadcast(valid.value, ir.VectorType(value.type).shape[0])
            vector.maskedstore(self.memref, index, mask, value)

    def store_two(self, first: ir.Value, second: ir.Value, offset: IndexLike) -> None:
        """Writes two vectors, one behind the other, which the buffer's number narrows as two."""
        vector.store(self.number.two_narrowed(first, second), self.memref, [Index.of(offset).value])

    def load_lanes(self, offset: IndexLike, mask: LaneMask) -> ir.Value:
        """The elements from `offset` on, one a lane, or zeros where the mask does not hold."""
        width = ir.VectorType(mask.value.type).shape[0]
        index, zeros = [Index.of(offset).value], splat(0.0, width, self.element)
        loaded = vector.maskedload(vector_type(width, self.element), self.memref, index, mask.value, zeros)
        return self.number.widened(loaded)

    def store_lanes(self, value: ir.Value, offset: IndexLike, mask: LaneMask) -> None:
        """Writes the lanes of a vector for which the mask holds, the first one at `offset`."""
        narrowed = self.number.narrowed(value)
        vector.maskedstore(self.memref, [Index.of(offset).value], mask.value, narrowed)

    def prefetch(self, offset: IndexLike, *, to_write: bool = False, to_l2: bool = False) -> None:
        """Brings the cache line of an element into L1, or L2; the offset need not be within the buffer."""
        memref.prefetch(self.memref, [Index.of(offset).value], to_write, 2 if to_l2 else 3, True)

    def load_scalar(self, offset: IndexLike, valid: Condition | None = None) -> ir.Value:
        """An element, or zero where the condition doesn't hold."""
        if valid is None or valid.known:
            return self.number.widened(memref.load(self.memref, [Index.of(offset).value]))
        return vector.extract(self.load(offset, 1, valid), [], [0])


def element_count(extents: Sequence[IndexLike]) -> IndexLike:
    """The elements of an array of these extents: a number where they are known."""
    count: IndexLike = prod(extent for extent in extents if isinstance(extent, int))
    for extent in extents:
        if isinstance(extent, Index):
            count = extent * count
    return count


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
    _by_vectors(count, width, lambda i, lanes: target.store(splat(0.0, lanes, target.computed), offset + i))


def _by_vectors(count: Index, width: int, body: Callable[[Index, int], None]) -> None:
    whole = count // width * width
    with loop(whole, width) as i:
        body(i, width)
    with loop(count - whole) as i:
        body(whole + i, 1)


def scratch(extents: tuple[int, ...], element: ir.Type, name: str) -> Buffer:
    """Memory of one workgroup for elements of a type, supplied by the runtime, that begins a cache line."""
    return ScratchMemory.of(extents, element, name).buffer


@dataclass(frozen=True)
class ScratchMemory:
    """Memory of one workgroup, supplied by the runtime, that begins a cache line, and where it lies."""

    buffer: Buffer
    address: Index
    """In bytes."""

    @staticmethod
    def of(extents: tuple[int, ...], element: ir.Type, name: str) -> ScratchMemory:
        """Emits it for elements of a type.

        On a single thread the runtime has it from the C library, at any multiple of 16 bytes: vectors of 64
        would mostly lie in two lines.
        """
        space = ir.Attribute.parse("#iree_codegen.workgroup_local")
        size, byte = prod(extents), ir.IntegerType.get_signless(8)
        padded = [size * element.width // 8 + CACHE_LINE_BYTES]
        with named(name):
            supplied = memref.AllocOp(ir.MemRefType.get(padded, byte, memory_space=space), [], []).result
            memory = memref.memory_space_cast(ir.MemRefType.get(padded, byte), supplied)
            address = Index(memref.extract_aligned_pointer_as_index(memory))
            to_line = (Index(0) - address) % CACHE_LINE_BYTES
            aligned = memref.view(ir.MemRefType.get([size], element), memory, to_line.value, [])
        return ScratchMemory(Buffer(aligned, extents), address + to_line)
