"""`AveragePool` whose windows overhang images of sizes that are known only at run time."""

from __future__ import annotations

from math import prod

import numpy as np
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


def average_pool_any_size(rewriting: Rewriting) -> None:
    """Pads what windows may overhang, and multiplies means by numbers that are computed of the image's sizes.

    Refuses the node where elements of its windows have gaps between them.
    """
    attributes, image = rewriting.attributes, rewriting.node.input[0]
    taps = attributes["kernel_shape"]
    rank = len(taps)
    if any(dilation != 1 for dilation in attributes.get("dilations", ())):
        rewriting.refuse("ceil_mode, dilations and sizes that are known only at run time")
    strides = attributes.get("strides", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    windows = [
        _Windows(rewriting, axis, *sizes)
        for axis, sizes in enumerate(zip(taps, strides, pads[:rank], pads[rank:], strict=True), start=2)
    ]
    widths = [0, 0, *pads[:rank], 0, 0, *(each.overhung for each in windows)]
    padded = rewriting.add("Pad", image, rewriting.constant_of(widths, np.int64))
    result = rewriting.add("AveragePool", padded, kernel_shape=taps, strides=strides)
    counts_padding = bool(attributes.get("count_include_pad", 0))
    dtype = rewriting.values.element_type(image)
    for axis, each in enumerate(windows, start=2):
        along = rewriting.constant_of([-1] + [1] * (1 + rank - axis), np.int64)
        elements = rewriting.add("Cast", each.elements(counts_padding), to=dtype)
        result = rewriting.add("Div", result, rewriting.add("Reshape", elements, along))
    sums = rewriting.scalar_like(float(prod(taps)), image)
    rewriting.add("Mul", result, sums, into=rewriting.node.output[0])


class _Windows:
    """Those along one dimension of the image, of whatever size it is."""

    def __init__(self, rewriting: Rewriting, axis: int, taps: int, stride: int, low: int, high: int) -> None:
        self.rewriting = rewriting
        self.taps, self.stride, self.low, self.high = taps, stride, low, high
        self.size = rewriting.add(
            "Gather", rewriting.add("Shape", rewriting.node.input[0]), self.integer(axis)
        )

    def integer(self, number: int) -> str:
        return self.rewriting.constant_of(number, np.int64)

    @property
    def overhung(self) -> int:
        """With so many elements behind the image windows that fit are the right ones, which overhang it.

        They begin before the padding at the end, none a whole stride behind the one that fits without.
        """
        return min(self.high + self.stride, self.taps) - 1

    @property
    def count(self) -> str:
        """How many there are."""
        steps = self._plus(self.size, self.low + self.overhung - self.taps)
        return self._plus(self.rewriting.add("Div", steps, self.integer(self.stride)), 1)

    def elements(self, with_padding: bool) -> str:
        """How many elements of each window count: those of the image, or of the padded one."""
        add, zero = self.rewriting.add, self.integer(0)
        places = add("Mul", add("Range", zero, self.count, self.integer(1)), self.integer(self.stride))
        starts = self._plus(places, -self.low)
        end = self._plus(self.size, self.high) if with_padding else self.size
        ends = self.rewriting.lesser(self._plus(starts, self.taps), end)
        if not with_padding:
            starts = self.rewriting.greater(starts, zero)
        return add("Sub", ends, starts)

    def _plus(self, numbers: str, number: int) -> str:
        return self.rewriting.add("Add", numbers, self.integer(number)) if number else numbers
