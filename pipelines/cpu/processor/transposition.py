"""Copies that transpose: lines of neighbouring elements become columns, a block in registers at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.vectors import LaneMask, for_each_vector, vector_width_for

MAX_INTERLEAVED_CHANNELS = 3
"""Of an image whose pixels are written by whole vectors; each channel more is one more shuffle of each."""

EXCHANGED_HALVES = 8
"""Elements of two bytes, in 16, within which instructions of x86 and of Arm exchange them; those of four they
exchange within whole vectors."""


@dataclass(frozen=True)
class Span:
    """The elements of a line from `begin` to `end` that exist."""

    begin: Index
    end: Index

    def mask(self, start: Index, width: int) -> LaneMask:
        """Which of `width` elements from `start` on they are."""
        return LaneMask.between(self.begin - start, self.end - start, width)


class LineSource(Protocol):
    """Lines of neighbouring elements that lie in memory, or are computed where they are wanted."""

    def load(
        self, line: Index, element: Index, extents: tuple[int, int], span: Span | None
    ) -> list[ir.Value]:
        """A vector of each of `extents`, lines by elements, from `line` and `element` on."""


@dataclass(frozen=True)
class Lines:
    """Lines of neighbouring elements of a buffer, each `stride` elements after the one before."""

    buffer: Buffer
    first: Index
    stride: IndexLike

    def load(
        self, line: Index, element: Index, extents: tuple[int, int], span: Span | None
    ) -> list[ir.Value]:
        count, width = extents
        mask = None if span is None else span.mask(element, width)
        origin = self.first + line * self.stride + element
        offsets = [origin + i * self.stride for i in range(count)]
        with named("line"):
            if mask is None:
                return [self.buffer.load(offset, width) for offset in offsets]
            return [self.buffer.load_lanes(offset, mask) for offset in offsets]

    def store(self, vectors: list[ir.Value], line: Index, element: Index, span: Span | None) -> None:
        """Writes a vector to each line from `line` and `element` on."""
        mask = None if span is None else span.mask(element, ir.VectorType(vectors[0].type).shape[0])
        origin = self.first + line * self.stride + element
        for i, value in enumerate(vectors):
            offset = origin + i * self.stride
            if mask is None:
                self.buffer.store(value, offset)
            else:
                self.buffer.store_lanes(value, offset, mask)


def copy_transposed(
    source: LineSource,
    target: Lines,
    extents: tuple[int, int],
    widest: int,
    *,
    longest: int | None = None,
    read: Span | None = None,
    written: Span | None = None,
) -> None:
    """target[i, j] = source[j, i] for `extents`, lines by elements of the source.

    Of source lines the elements `read` are read, the others taken to be zero; of target lines the elements
    `written` are written; all unless given. Blocks are of powers of two, at most `widest` lines of `longest`
    elements, of as many unless given. A line that one holds is in one, whose last elements are left out; else
    the last blocks overlap their neighbours.
    """
    lines = vector_width_for(extents[0], widest)
    length = min(longest or widest, 1 << (extents[1] - 1).bit_length())
    copied = min(length, extents[1])
    if copied < length:
        whole = Span(Index(0), Index(copied)) if read is None else read
        read = Span(whole.begin, whole.end.minimum(copied))

    def copy_block(line: Index, element: Index) -> None:
        block = source.load(line, element, (lines, length), read)
        target.store(transposed_block(block)[:copied], element, line, written)

    for_each_vector(
        extents[0],
        lines,
        lambda line: for_each_vector(extents[1], copied, partial(copy_block, line), "element"),
        "line",
    )


def copy_interleaved(source: Lines, target: Lines, extents: tuple[int, IndexLike], width: int) -> None:
    """As `copy_transposed` where the lines of the target are whole, and lie side by side.

    For a few source lines: what is written goes over several target lines. Elements past the last whole
    vector are copied by a masked one, unless it is known that the last vector may overlap its neighbour.
    """
    lines, length = extents[0], Index.of(extents[1])

    def copy_block(element: Index, read: Span | None = None, written: Span | None = None) -> None:
        block = source.load(Index(0), element, (lines, width), read)
        side_by_side = Lines(target.buffer, target.first, 0)
        for i, value in enumerate(interleaved_block(block)):
            side_by_side.store([value], Index(0), element * lines + i * width, written)

    if length.known is not None and length.known >= width:
        for_each_vector(length.known, width, copy_block, "element")
        return
    whole = length // width * width
    with loop(whole, width, "element") as element:
        copy_block(element)
    when(
        (length - whole).at_least(1),
        lambda: copy_block(whole, Span(Index(0), length), Span(Index(0), length * lines)),
    )


def interleaved_block(lines: list[ir.Value]) -> list[ir.Value]:
    """The elements of vectors in turns, in as many vectors."""
    count, width = len(lines), ir.VectorType(lines[0].type).shape[0]

    def interleaved(first: int) -> ir.Value:
        places = [divmod(first + lane, count) for lane in range(width)]
        merged = lines[0]
        for number, line in enumerate(lines[1:], start=1):
            # Lanes of the first line go to their places with those of the second.
            kept = [element for element, _ in places] if number == 1 else list(range(width))
            taken = [
                width + element if owner == number else kept[lane]
                for lane, (element, owner) in enumerate(places)
            ]
            merged = vector.shuffle(merged, line, taken)
        return merged

    with named("interleaved"):
        return [interleaved(first) for first in range(0, count * width, width)]


def transposed_block(lines: list[ir.Value]) -> list[ir.Value]:
    """The columns of a block of vectors, as many and as long as a power of two says."""
    count, length = len(lines), ir.VectorType(lines[0].type).shape[0]
    if count >= length:
        return columns_of_joined([joined(lines[i::length]) for i in range(length)])
    with named("transposed"):
        exchanged = _exchanged(lines)
        return [_part(vector_, first, count) for first in range(0, length, count) for vector_ in exchanged]


def columns_of_joined(vectors: list[ir.Value]) -> list[ir.Value]:
    """The columns of a block of lines no longer than there are of them.

    The first of as many vectors as a line has elements are the first line and every so many-th, `joined`, the
    second one is that of the lines after these.
    """
    with named("transposed"):
        # A column of every `length` lines lies side by side once their elements are exchanged.
        return _exchanged(vectors)


def _exchanged(vectors: list[ir.Value]) -> list[ir.Value]:
    """Transposes every square of neighbouring lanes, as many as there are vectors.

    The two halves of the vectors are interleaved, as often as takes each lane to its place: of a perfect
    shuffle of the numbers of vector and lane, each step is a rotation by one bit.
    """
    size, lanes = len(vectors), ir.VectorType(vectors[0].type).shape[0]
    half = size // 2
    for _ in range(size.bit_length() - 1):
        vectors = [
            _interleaved(one, other, lanes, size, first)
            for one, other in zip(vectors[:half], vectors[half:], strict=True)
            for first in (0, half)
        ]
    return vectors


def _interleaved(one: ir.Value, other: ir.Value, lanes: int, size: int, first: int) -> ir.Value:
    """Of every `size` lanes those from `first` on, `size / 2` of each vector in turn."""
    taken = [
        start + first + i // 2 + (lanes if i % 2 else 0)
        for start in range(0, lanes, size)
        for i in range(size)
    ]
    return vector.shuffle(one, other, taken)


def joined(vectors: list[ir.Value]) -> ir.Value:
    """Vectors of one length, as many as a power of two says, one after the other."""
    while len(vectors) > 1:
        lanes = range(2 * ir.VectorType(vectors[0].type).shape[0])
        vectors = [
            vector.shuffle(one, other, list(lanes))
            for one, other in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _part(whole: ir.Value, first: int, count: int) -> ir.Value:
    return vector.shuffle(whole, whole, list(range(first, first + count)))
