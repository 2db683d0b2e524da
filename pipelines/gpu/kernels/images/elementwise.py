"""The GPU kernel of elementwise operations on images in any order, and on what is spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.layouts.places import Places
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, Numbers
from iree.winograd.pipelines.emission.places import source_place
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id

ELEMENTWISE_THREADS = 256
_MOST_HELD = 4
"""Quads of a thread, or half as many octets: loads of an image that are on their way at a time."""
_MANY_THREADS = 1 << 18
"""As many as large GPUs have resident: further ones are for threads that have one already."""


@dataclass(frozen=True)
class SpreadOperand:
    """What a kernel reads for each element of its result: one of the same place, or of some dimensions."""

    dimensions: tuple[int | None, ...] | None
    """Those of the result by which its own are read, None for a first element; None for the same place."""
    places: Places | None = None
    """Of the elements at the same places in a tensor; None for one that has them in this order."""
    origin: int = 0
    """Where the first of what is read by `dimensions` is in its tensor."""

    def holds(self, dimension: int) -> bool:
        """Whether it has an element for each of the result's `dimension`."""
        return self.dimensions is None or dimension in self.dimensions


@dataclass(frozen=True)
class ElementwiseKernel:
    """`function` of the elements of each operand, at each element of a result of f32."""

    extents: tuple[int, ...]
    """Of the result."""
    operands: tuple[SpreadOperand, ...]
    function: VectorFunction | None
    """None for the only operand as it is."""
    destination: Places | None = None
    """Of the result's elements in the larger tensor that they are written to; None for one of its own."""
    together: int = QUAD
    """Elements that a thread loads, computes and stores at a time: quads, or octets of half precision."""
    numbers: Numbers = field(default_factory=lambda: NUMBERS, compare=False, repr=False)
    """The target's."""

    @property
    def name(self) -> str:
        kind = "elementwise"
        if self.function is None:
            kind = "rearranged" if self.destination is None else "inserted"
        return f"winograd_{kind}_{'x'.join(map(str, self.extents))}"

    @property
    def fits(self) -> bool:
        """Whether quads, or octets, of the result read such, or one element, of each operand."""
        places = (self.destination, *(each.places for each in self.operands))
        if any(each is not None and not each.keeps(self.together) for each in places):
            return False
        spread = [each for each in self.operands if each.dimensions is not None]
        last = len(self.extents) - 1
        if any(each.holds(last) for each in spread):
            begins = (each.origin for each in spread if each.holds(last))
            return all(each % self.together == 0 for each in (self.extents[last], *begins))
        read = (d for d in range(last + 1) if any(each.holds(d) for each in spread))
        return prod(self.extents[max(read, default=-1) + 1 :]) % self.together == 0

    def reads_quads(self, operand: SpreadOperand) -> bool:
        """Whether an operand is read by quads or octets, not one element for that of the result."""
        return operand.holds(len(self.extents) - 1)

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of the result."""
        return (Index(ceil_div(self._vectors, self._block)),)

    def emit(self, work: Work, *operands_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        *operands, output = operands_and_output
        first = work.workgroup[0] * self._block + thread_id()
        numbers = [first + i for i in range(0, self._block, ELEMENTWISE_THREADS)]
        exist = [Condition(True)] * len(numbers)
        if self._vectors % self._block:
            exist = [number.less_than(self._vectors) for number in numbers]
            numbers = [number.minimum(self._vectors - 1) for number in numbers]
        places = [number * self.together for number in numbers]
        loaded = [
            [self.loaded(*each, place) for each in zip(self.operands, operands, strict=True)]
            for place in places
        ]
        for place, elements, exists in zip(places, loaded, exist, strict=True):
            to = place if self.destination is None else source_place(self.destination, place)
            output.store(self.computed(elements), to, exists)

    def loaded(self, operand: SpreadOperand, buffer: GlobalBuffer, place: Index) -> ir.Value:
        """What is read of an operand for the quad, or octet, of the result from `place` on."""
        offset = place
        if operand.dimensions is not None:
            indices = [Index(0) if d is None else self._index(place, d) for d in operand.dimensions]
            sizes = [1 if d is None else self.extents[d] for d in operand.dimensions]
            strides = [prod(sizes[place + 1 :]) for place in range(len(sizes))]
            distances = (index * stride for index, stride in zip(indices, strides, strict=True))
            offset = sum(distances, Index(operand.origin))
        elif operand.places is not None:
            offset = source_place(operand.places, place)
        if self.reads_quads(operand):
            return buffer.load(offset, self.together)
        return broadcast(buffer.load_scalar(offset), self.together)

    def computed(self, elements: Sequence[ir.Value]) -> ir.Value:
        """A quad, or octet, of the result by those of the operands."""
        if self.function is None:
            return elements[0]
        return self.function.emit(elements, fused_multiply_add=True, numbers=self.numbers)

    @property
    def _block(self) -> int:
        """Quads, or octets, of a workgroup."""
        most = _MOST_HELD * QUAD // self.together
        return ELEMENTWISE_THREADS * min(most, max(1, self._vectors // _MANY_THREADS))

    @property
    def _vectors(self) -> int:
        """Quads, or octets, of the result."""
        return prod(self.extents) // self.together

    def _index(self, place: Index, dimension: int) -> Index:
        """Along a dimension, of the element at `place`."""
        outer, size = prod(self.extents[:dimension]), self.extents[dimension]
        index = place // prod(self.extents[dimension + 1 :])
        return index if outer == 1 else index % size
