"""The GPU kernel of softmax of rows that a thread has alone, which come and go through shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedScalars,
    barrier,
    lane,
    quad_of,
    thread_id,
)

from .softmax import LOWEST, exponential, inverse_of_sum

SHORT_ROW_THREADS = 128
"""As many rows of a workgroup."""
_SHORTEST_SHARED = 32
"""Elements of rows that several threads share: a workgroup of any target has memory for shorter ones."""


@dataclass(frozen=True)
class ShortRowSoftmaxKernel:
    """Softmax of rows of fewer than 32 elements, which are no whole quads, as of classes of pixels.

    Threads that shared them would read single elements, and wait for each other. Rows that are neighbours in
    memory are loaded and stored by so many elements `together`, or singly.
    """

    rows: int
    """Of an element of the batch."""
    length: int
    safe: bool
    by_instruction: bool
    """As of `SoftmaxKernel`."""
    together: int

    @staticmethod
    def suits(length: int) -> bool:
        """Whether it is for rows of so many elements."""
        return length < _SHORTEST_SHARED and length % QUAD > 0

    @property
    def name(self) -> str:
        return f"winograd_{'safe_' * self.safe}softmax_{self.rows}x{self.length}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of rows of the whole batch."""
        return (ceildiv(sizes.batch * self.rows, SHORT_ROW_THREADS),)

    def emit(self, work: Work, source: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x ... x length to the same."""
        memory = SharedScalars.allocate((SHORT_ROW_THREADS * self.length,), "rows", source.computed)
        first = work.workgroup[0] * (SHORT_ROW_THREADS * self.length)
        count = work.sizes.batch * (self.rows * self.length)
        width = self.together
        # All loads are on their way before the first store.
        places = list(self._places())
        loaded = []
        for place, _ in places:
            there = (first + place).minimum(count - width)
            loaded.append(source.load_scalar(there) if width == 1 else source.load(there, width))
        for (place, exists), value in zip(places, loaded, strict=True):
            lanes = [value] if width == 1 else [lane(value, i) for i in range(width)]

            def keep(place: Index = place, lanes: list = lanes) -> None:  # type: ignore[type-arg]
                for i, each in enumerate(lanes):
                    memory.store(each, [place + i])

            when(exists, keep)
        barrier()
        self._compute(memory)
        barrier()
        for place, exists in places:

            def write(place: Index = place) -> None:
                lanes = [memory.load([place + i]) for i in range(width)]
                if width == 1:
                    output.store_scalar(lanes[0], first + place)
                else:
                    output.store(quad_of(lanes), first + place)

            when(exists & (first + place).less_than(count), write)

    def _places(self) -> Iterator[tuple[Index, Condition]]:
        """Where a workgroup's rows have the elements that a thread moves, and whether they have them."""
        elements = SHORT_ROW_THREADS * self.length
        step = SHORT_ROW_THREADS * self.together
        for i in range(ceil_div(elements, step)):
            place = thread_id() * self.together + i * step
            is_whole = (i + 1) * step <= elements
            yield place, Condition(True) if is_whole else place.less_than(elements)

    def _compute(self, memory: SharedScalars) -> None:
        """Replaces this thread's row."""
        begin = thread_id() * self.length
        values = [memory.load([begin + i]) for i in range(self.length)]
        maximum = reduce(arith.maximumf, values)
        if self.safe:
            maximum = arith.maximumf(maximum, constant_like(maximum, LOWEST))
        exponentials = [
            exponential(arith.subf(each, maximum), by_instruction=self.by_instruction) for each in values
        ]
        inverse = inverse_of_sum(reduce(arith.addf, exponentials), safe=self.safe)
        for i, each in enumerate(exponentials):
            memory.store(arith.mulf(each, inverse), [begin + i])
