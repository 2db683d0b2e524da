"""The CPU kernel that pools windows of an image in place, without a padded copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.tiles.touched_pixels import ImageRow, TouchedPixels
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.problems.windows import known_sizes

from .windows import WindowElement, WindowKernel

_BITS = 16
"""Of a number of half precision."""
_MAGNITUDE = 0x7FFF
"""Of these all but the sign."""
_INFINITIES = {BF16.name: 0x7F80, F16.name: 0x7C00}
"""The bits of infinity."""


@dataclass(frozen=True)
class PoolingKernel(WindowKernel):
    """The maxima of windows.

    In place of an element outside of the image the nearest one inside is read, which the window has, too.
    Numbers of half precision are compared as integers of 16 bits, twice as many of which a vector has.
    """

    kind = "max_pool"

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of a workgroup, of an image of two dimensions of known size."""
        windows = self.windows
        extents, outputs = (known_sizes(each) for each in (windows.extents, windows.outputs))
        image, row = divmod(number, outputs[0])
        first = windows.first(0, row)
        bounds = (ImageRow(image, each) for each in (first, first + windows.size[0] - 1))
        begin, last = (bound.pixel(extents) for bound in bounds)
        written = range(number * outputs[1], (number + 1) * outputs[1])
        return TouchedPixels(range(begin, last + extents[1]), written)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        if image.number.name in _INFINITIES:
            # Nothing is widened.
            image, output = image.with_numbers({}), output.with_numbers({})
        super().emit(work, image, output)

    def _lanes(self, image: Buffer) -> int:
        return self.target.vector_width * F32.bytes // image.number.bytes

    def _reduced(self, elements: Sequence[WindowElement], channel: Index, width: int) -> ir.Value:
        numbers = [each.image.load(each.offset + channel, width) for each in elements]
        infinity = _INFINITIES.get(elements[0].image.number.name)
        with named("maximum"):
            if infinity is None or len(numbers) == 1:
                return reduce(arith.maximumf, numbers)
            order = _Order(numbers[0].type, infinity)
            return order.number(reduce(arith.maxsi, map(order.integer, numbers)))


@dataclass(frozen=True)
class _Order:
    """Integers in the order of numbers of half precision: those behind infinity, which are none, come last.

    A number has its sign before its magnitude, so that magnitudes of negative ones are turned around. Minus
    infinity becomes the least integer, and what would be less becomes the largest.
    """

    type: ir.Type
    """A vector of numbers."""
    infinity: int
    """Its bits."""

    def integer(self, number: ir.Value) -> ir.Value:
        """A vector of integers."""
        bits = arith.bitcast(self._integers, number)
        return arith.subi(self._turned(bits), self._splat(_MAGNITUDE - self.infinity))

    def number(self, integer: ir.Value) -> ir.Value:
        """The vector whose `integer` it is."""
        bits = arith.addi(integer, self._splat(_MAGNITUDE - self.infinity))
        return arith.bitcast(self.type, self._turned(bits))

    def _turned(self, bits: ir.Value) -> ir.Value:
        """With the magnitude turned around where the sign is set, which stays."""
        signs = arith.shrsi(bits, self._splat(_BITS - 1))
        return arith.xori(bits, arith.andi(signs, self._splat(_MAGNITUDE)))

    def _splat(self, number: int) -> ir.Value:
        element = ir.IntegerAttr.get(self._integers.element_type, number)
        return arith.constant(self._integers, ir.DenseElementsAttr.get_splat(self._integers, element))

    @property
    def _integers(self) -> ir.VectorType:
        return vector_type(ir.VectorType(self.type).shape[0], ir.IntegerType.get_signless(_BITS))
