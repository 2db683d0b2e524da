"""The GPU kernel of elementwise operations on images of unknown sizes, and on vectors of their channels."""

from __future__ import annotations

from dataclasses import dataclass, field

from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, Numbers
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id

GATE_THREADS = 256
_HELD = 2
"""Quads, or octets, of a thread: as many loads of an image are on their way."""


@dataclass(frozen=True)
class GatesKernel:
    """`function` of the elements of each operand, an image of the result's sizes or one vector of channels.

    Quads are numbered, or octets, and channels known: nothing is divided by a size that isn't.
    """

    channels: int
    are_images: tuple[bool, ...]
    """Of the operands."""
    function: VectorFunction
    together: int = QUAD
    """Channels that a thread reads and writes at once."""
    numbers: Numbers = field(default_factory=lambda: NUMBERS, compare=False, repr=False)
    """The target's."""

    @property
    def name(self) -> str:
        return f"winograd_elementwise_anyx{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of quads of the result, or of octets."""
        return (ceildiv(self._vectors(sizes), GATE_THREADS * _HELD),)

    def emit(self, work: Work, *operands_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        *operands, output = operands_and_output
        vectors, together = self._vectors(work.sizes), self.together
        first = work.workgroup[0] * (GATE_THREADS * _HELD) + thread_id()
        numbers = [first + i * GATE_THREADS for i in range(_HELD)]
        loaded = []
        for number in numbers:
            existing = number.minimum(vectors - 1)
            channel = existing % (self.channels // together)
            places = (existing if is_image else channel for is_image in self.are_images)
            read = zip(operands, places, strict=True)
            loaded.append([each.load(place * together, together) for each, place in read])
        for number, elements in zip(numbers, loaded, strict=True):
            computed = self.function.emit(elements, fused_multiply_add=True, numbers=self.numbers)
            output.store(computed, number * together, number.less_than(vectors))

    def _vectors(self, sizes: Sizes) -> Index:
        return sizes.batch * product(sizes.spatial("output")) * (self.channels // self.together)
