"""Memory as GPU kernels see it: buffers of quads (16 bytes), the memory that a workgroup shares, its threads.

Quads are what all GPUs load and store best. SPIR-V has no loads of vectors from arrays of scalars, so an
array is bound as one of quads where its rows are whole quads, and else as one of scalars that are gathered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

from iree.winograd.dialect.bindings import arith, gpu, ir, llvm, memref, vector
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.dispatch_operations import binding_subspan, workgroup_id
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, short_number
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import splat, vector_type

QUAD = 4
"""Elements that a thread loads, computes and stores side by side, of whatever type."""
OCTET = 2 * QUAD
"""The same of half precision on NVIDIA's GPUs: 16 bytes, too."""
PAIR = QUAD // 2
"""The same where a thread hasn't registers for as many."""
QUAD_BYTES = QUAD * F32.bytes
"""Of a quad of single precision: the most that a thread loads or stores at once."""
LINE_ELEMENTS = 128 // F32.bytes
"""Of single precision, in a line of NVIDIA's caches."""


def thread_id() -> Index:
    """The number of this thread in its workgroup."""
    return Index(gpu.thread_id(gpu.Dimension.x))


def numbers_of_thread(thread: Index, threads: int, count: int) -> Iterator[tuple[Index, Condition]]:
    """The numbers below `count` that a thread has, of so many threads, and for each whether it is one."""
    for begin in range(0, count, threads):
        number = thread + begin
        yield number, Condition(True) if begin + threads <= count else number.less_than(count)


def barrier() -> None:
    """Waits until all threads of the workgroup are here and see what the others wrote."""
    gpu.barrier()


def quad_type(element: ir.Type) -> ir.VectorType:
    """The type of a quad of such elements."""
    return vector_type(QUAD, element)


def constant_quad(value: float, element: ir.Type) -> ir.Value:
    """A quad of equal elements."""
    return splat(value, QUAD, element)


def zero_scalar(element: ir.Type) -> ir.Value:
    """Zero, as a lane of a quad of zeros."""
    return lane(constant_quad(0.0, element), 0)


def quad_or_zero(condition: Condition, value: ir.Value) -> ir.Value:
    """The quad, or a part of one, where the condition holds, zeros elsewhere."""
    zeros = ir.VectorType(value.type).element_type
    if condition.known is not None:
        return value if condition.known else splat(0.0, ir.VectorType(value.type).shape[0], zeros)
    # Vulkan's SPIR-V before 1.4 selects vectors by vectors only.
    width = ir.VectorType(value.type).shape[0]
    lanes = ir.VectorType.get([width], ir.IntegerType.get_signless(1))
    return arith.select(vector.broadcast(lanes, condition.value), value, splat(0.0, width, zeros))


def lane(quad: ir.Value, number: int) -> ir.Value:
    """One element of a quad."""
    return vector.extract(quad, [], [number])


def quad_of(elements: Sequence[ir.Value]) -> ir.Value:
    """Four scalars as a quad, or fewer as a part of one."""
    return vector.from_elements(vector_type(len(elements), elements[0].type), list(elements))


def joined(vectors: Sequence[ir.Value]) -> ir.Value:
    """Vectors side by side as one."""
    if len(vectors) == 1:
        return vectors[0]
    return quad_of([lane(each, i) for each in vectors for i in range(ir.VectorType(each.type).shape[0])])


def transposed(quads: Sequence[ir.Value]) -> list[ir.Value]:
    """Four rows of four elements as four columns."""
    return [quad_of([lane(row, column) for row in quads]) for column in range(QUAD)]


def span(argument: ir.Value, element: ir.Type, count: Index) -> ir.Value:
    """The memory of a kernel's argument as a 1-D memref of `count` elements.

    Raises ValueError within loops and branches: IREE moves buffers of a program into one, and changes where
    they are bound in the first block of a kernel, which is all that it has of it by then.
    """
    parent = ir.InsertionPoint.current.block.owner.operation.name
    if parent != "func.func":
        raise ValueError(f"a buffer is bound in {parent}, not in the first block of a kernel")
    dynamic = ir.ShapedType.get_dynamic_size()
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), [1])
    type_ = ir.MemRefType.get([dynamic if count.known is None else count.known], element, layout)
    sizes = [count.value] if count.known is None else []
    return binding_subspan(type_, argument, _opaque_zero(), sizes)


def _opaque_zero() -> ir.Value:
    """An offset of zero that IREE can't see to be zero.

    Intermediate tensors get offsets in shared allocations after this, and IREE lowers a buffer to SPIR-V only
    if its type admits an offset just where there is one. No grid has so many workgroups.
    """
    x = workgroup_id(0)
    return arith.shrui(x, Index(31).value)


@dataclass(frozen=True)
class GlobalBuffer(Buffer):
    """An array in the device's memory, addressed by element offsets.

    `by_quads` says that its memref has quads for elements, or octets: all offsets are then multiples of four,
    or eight. `size` counts elements of that memory. An array without `strides` is dense and row-major.
    """

    by_quads: bool
    size: Index
    argument: ir.Value
    """The kernel's argument that the array is bound from."""
    strides: tuple[IndexLike, ...] | None = None
    """Elements between neighbours along each dimension, those along the last one neighbours if by quads."""
    has_pixels_in_order: bool = True
    """Whether neighbours along all dimensions but the last lie equally far apart, as in a dense array."""
    gathered: int = QUAD
    """Elements that are loaded and stored at once of an array of scalars."""
    is_constant: bool = False
    """Whether no kernel of the program writes it."""

    def stride(self, dimension: int) -> IndexLike:
        return super().stride(dimension) if self.strides is None else self.strides[dimension]

    @cached_property
    def element(self) -> ir.Type:
        element = super().element
        return ir.VectorType(element).element_type if self.by_quads else element

    @cached_property
    def together(self) -> int:
        """Elements that are loaded and stored at once: of what its memref has for elements, or of a quad."""
        element = ir.MemRefType(self.memref.type).element_type
        return int(ir.VectorType(element).shape[0]) if self.by_quads else self.gathered

    @property
    def memref_element_bytes(self) -> int:
        """Of what its memref has for elements: quads, octets or scalars."""
        return self.number.bytes * (self.together if self.by_quads else 1)

    @property
    def address(self) -> Index:
        """Of its first byte."""
        metadata = memref.ExtractStridedMetadataOp(self.memref)
        pointer = Index(memref.extract_aligned_pointer_as_index(self.memref))
        return pointer + Index(metadata.offset) * self.memref_element_bytes

    def pixel_offset(self, position: Sequence[IndexLike], channel: IndexLike) -> Index:
        """As `offset`, of a pixel that exists or isn't read: of unknown sizes by its number of 32 bits."""
        sizes = self.extents[1:-1]
        if self.strides is not None or all(isinstance(each, int) for each in sizes):
            return self.offset([*position, channel])
        number = short_number(position, self.extents[:-1])
        return Index.of(self.origin) + number * self.extents[-1] + channel

    def prefetch(self, offset: IndexLike, *, to_write: bool = False, to_l2: bool = True) -> None:
        """Brings the cache line of an element into the L2 of NVIDIA's GPUs; it has to be within the array."""
        assert to_l2 and not to_write
        address = self.address + Index.of(offset) * self.number.bytes
        number = arith.index_cast(ir.IntegerType.get_signless(64), address.value)
        llvm.inline_asm(None, [number], "prefetch.global.L2 [$0];", "l", has_side_effects=True)

    def viewed_as(self, element: ir.Type, elements: int = 1) -> ir.Value:
        """The same memory as a memref of scalars, or of vectors of so many `elements`."""
        type_ = element if elements == 1 else vector_type(elements, element)
        width = element_bytes(str(element)) * elements
        return span(self.argument, type_, self.size * self.number.bytes // width)

    def load(self, offset: IndexLike, width: int = QUAD, valid: Condition | None = None) -> ir.Value:
        """The quad, or octet, from `offset` on, or zeros where the condition does not hold.

        The offset has to be within the array in either case. Elements of a quad that would lie behind the end
        of the array are some others of it. An octet of an array by quads is two of these.
        """
        assert width % self.together == 0
        offset = Index.of(offset)
        if self.by_quads:
            first, count = offset // self.together, width // self.together
            value = joined([self.number.widened(self._load(first + i)) for i in range(count)])
        else:
            places = [(offset + i * self.stride(-1)).minimum(self.size - 1) for i in range(width)]
            value = quad_of([self.load_scalar(place) for place in places])
        return value if valid is None else quad_or_zero(valid, value)

    def load_stored(self, offset: IndexLike) -> ir.Value:
        """The quad, or octet, from `offset` on of an array by such, in the type that it has in memory."""
        return self._load(Index.of(offset) // self.together)

    def _load(self, place: Index) -> ir.Value:
        """That of a number."""
        return memref.load(self.memref, [place.value])

    def by(self, elements: int) -> GlobalBuffer:
        """The same array, of which so many elements are loaded and stored at once.

        As a vector, where rows of the array are whole ones. More than a quad of it are two quads unless they
        are 16 bytes that begin at multiples of as many. Raises ValueError as `span` does.
        """
        is_wider = self.by_quads and elements > self.together
        if (self.by_quads and self.together == elements) or (is_wider and not self._has(elements)):
            return self
        if not self.by_quads and not self._has_rows_of(elements):
            return replace(self, gathered=elements)
        viewed = span(self.argument, vector_type(elements, self.element), self.size // elements)
        return replace(self, memref=viewed, by_quads=True)

    def _has_rows_of(self, elements: int) -> bool:
        """Whether rows of an array of scalars begin at multiples of so many, and end there."""
        numbers = [*self.extents[-1:], self.origin]
        is_whole = all(isinstance(each, int) and each % elements == 0 for each in numbers)
        return is_whole and bool(self.extents) and self.strides is None

    def _has(self, elements: int) -> bool:
        """Whether an array by quads has vectors of so many elements, which threads load and store at once."""
        return elements * self.number.bytes <= QUAD_BYTES and self.begins_rows_at(elements)

    def begins_rows_at(self, elements: int) -> bool:
        """Whether all rows of an array by quads are known to begin at multiples of so many elements."""
        distances = self.extents[-1:] if self.strides is None else self.strides[:-1]
        known = [self.origin, *distances]
        return self.by_quads and all(isinstance(each, int) and each % elements == 0 for each in known)

    def store_stored(self, value: ir.Value, offset: IndexLike) -> None:
        """Writes such a one."""
        memref.store(value, self.memref, [(Index.of(offset) // self.together).value])

    def store_scalar(self, value: ir.Value, offset: IndexLike) -> None:
        """Writes one element of an array that isn't by quads."""
        self._store(value, Index.of(offset))

    def store(self, value: ir.Value, offset: IndexLike, valid: Condition | None = None) -> None:
        """Writes a quad, or octet, from `offset` on where the condition holds."""
        self.store_first(value, offset, Index(QUAD), Condition(True) if valid is None else valid)

    def load_first(
        self,
        offset: Index,
        count: Index,
        valid: Condition,
        stride: IndexLike = 1,
        *,
        is_within: bool = False,
    ) -> ir.Value:
        """As `load`, with zeros for all but the first `count` elements. An array by quads has all of them.

        Elements are every `stride`-th along the last dimension, of which an array by quads has all. Where it
        `is_within` the array has all `count` of them in either case.
        """
        if self.by_quads:
            assert stride == 1
            return self.load(offset, self.together, valid)
        return self._load_scalars(
            offset, map(Index, range(self.together)), count, valid, stride, is_within=is_within
        )

    def _load_scalars(
        self,
        offset: Index,
        lanes: Iterable[Index],
        count: Index,
        valid: Condition,
        stride: IndexLike,
        *,
        is_within: bool,
    ) -> ir.Value:
        """Such lanes of the quad that `load_first` says, of an array that isn't by quads."""
        distance = self.stride(-1) * stride
        zero = zero_scalar(self.computed)
        elements = []
        for number in lanes:
            is_counted = number.less_than(count)
            if is_counted.known is False:
                elements.append(zero)
                continue
            exists = valid & is_counted
            place = offset + number * distance
            if not (is_within and is_counted.known):
                place = place.minimum(self.size - 1)
            scalar = self.load_scalar(place)
            elements.append(scalar if exists.known else arith.select(exists.value, scalar, zero))
        return quad_of(elements)

    def store_first(self, value: ir.Value, offset: IndexLike, count: Index, valid: Condition) -> None:
        """Writes the first `count` elements of a quad where the condition holds; all of them if by quads."""
        offset = Index.of(offset)
        if self.by_quads:
            when(valid, lambda: self._store(value, offset // self.together))
            return
        for i in range(self.together):
            exists = valid & Index(i).less_than(count)
            place = offset + i * self.stride(-1)
            when(exists, lambda i=i, place=place: self._store(lane(value, i), place))  # type: ignore[misc]

    def _store(self, value: ir.Value, place: Index) -> None:
        memref.store(self.number.narrowed(value), self.memref, [place.value])


@dataclass(frozen=True)
class HalfQuads(GlobalBuffer):
    """An array of whose quads a thread loads and stores one half, by the offset of the quad."""

    half: Index = field(kw_only=True)
    """0 or 1."""
    pairs: ir.Value | None = field(kw_only=True)
    """The memref with pairs for elements where the array is by quads."""

    @staticmethod
    def of(buffer: GlobalBuffer, half: Index) -> HalfQuads:
        """Raises ValueError as `span` does."""
        pairs = buffer.viewed_as(buffer.element, PAIR) if buffer.by_quads else None
        values = {each.name: getattr(buffer, each.name) for each in fields(GlobalBuffer)}
        return HalfQuads(**values, half=half, pairs=pairs)

    def load(self, offset: IndexLike, width: int = QUAD, valid: Condition | None = None) -> ir.Value:
        """A pair."""
        assert width == QUAD
        exists = Condition(True) if valid is None else valid
        return self.load_first(Index.of(offset), Index(QUAD), exists)

    def load_first(
        self,
        offset: Index,
        count: Index,
        valid: Condition,
        stride: IndexLike = 1,
        *,
        is_within: bool = False,
    ) -> ir.Value:
        if self.pairs is None:
            return self._load_scalars(offset, self._lanes(), count, valid, stride, is_within=is_within)
        loaded = memref.load(self.pairs, [(offset // PAIR + self.half).value])
        return quad_or_zero(valid, self.number.widened(loaded))

    def store_first(self, value: ir.Value, offset: IndexLike, count: Index, valid: Condition) -> None:
        offset = Index.of(offset)
        narrowed = self.number.narrowed(value)
        if self.pairs is not None:
            pairs, place = self.pairs, offset // PAIR + self.half
            when(valid, lambda: memref.store(narrowed, pairs, [place.value]))
            return
        for number, of_quad in enumerate(self._lanes()):
            exists, place = valid & of_quad.less_than(count), offset + of_quad * self.stride(-1)
            scalar = lane(narrowed, number)
            when(exists, lambda scalar=scalar, place=place: memref.store(scalar, self.memref, [place.value]))  # type: ignore[misc]

    def _lanes(self) -> list[Index]:
        """Of a quad, those of its half."""
        return [self.half * PAIR + number for number in range(PAIR)]


@dataclass(frozen=True)
class SharedBuffer:
    """Quads in the memory that the threads of a workgroup share, loaded whole or in parts."""

    memref: ir.Value
    width: int = QUAD
    """Elements that are loaded at once, which divide a quad."""

    @staticmethod
    def allocate(extents: tuple[int, ...], name: str, element: ir.Type, width: int = QUAD) -> SharedBuffer:
        """Memory for `extents` quads of such elements."""
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        *outer, quads = extents
        with ir.Location.name(name):
            sizes = [*outer, quads * (QUAD // width)]
            type_ = ir.MemRefType.get(sizes, vector_type(width, element), memory_space=space)
            return SharedBuffer(memref.AllocOp(type_, [], []).result, width)

    def load(self, indices: Sequence[IndexLike]) -> ir.Value:
        """`width` elements; the last index counts such."""
        return memref.load(self.memref, [Index.of(index).value for index in indices])

    def store(self, value: ir.Value, indices: Sequence[IndexLike]) -> None:
        """A quad; the last index counts quads."""
        *outer, quad = indices
        if self.width == QUAD:
            self.store_part(value, indices)
            return
        parts = QUAD // self.width
        type_ = vector_type(self.width, ir.VectorType(value.type).element_type)
        for part in range(parts):
            elements = vector.extract_strided_slice(type_, value, [part * self.width], [self.width], [1])
            self.store_part(elements, [*outer, Index.of(quad) * parts + part])

    def store_part(self, value: ir.Value, indices: Sequence[IndexLike]) -> None:
        """`width` elements; the last index counts such."""
        memref.store(value, self.memref, [Index.of(index).value for index in indices])


@dataclass(frozen=True)
class SharedScalars:
    """Elements in the memory that the threads of a workgroup share, stored singly."""

    memref: ir.Value

    @staticmethod
    def allocate(extents: tuple[int, ...], name: str, element: ir.Type) -> SharedScalars:
        """Memory for `extents` such elements; for `load_quad` the innermost is a multiple of four."""
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        with ir.Location.name(name):
            type_ = ir.MemRefType.get(list(extents), element, memory_space=space)
            return SharedScalars(memref.AllocOp(type_, [], []).result)

    def load(self, indices: Sequence[IndexLike]) -> ir.Value:
        return memref.load(self.memref, [Index.of(index).value for index in indices])

    def load_quad(self, indices: Sequence[IndexLike]) -> list[ir.Value]:
        """The four elements from a position on, a multiple of four."""
        *outer, first = map(Index.of, indices)
        return [memref.load(self.memref, [index.value for index in (*outer, first + i)]) for i in range(QUAD)]

    def store(self, value: ir.Value, indices: Sequence[IndexLike]) -> None:
        memref.store(value, self.memref, [Index.of(index).value for index in indices])
