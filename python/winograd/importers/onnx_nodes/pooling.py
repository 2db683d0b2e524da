"""`AveragePool` whose last windows overhang the padded image, which torch-mlir divides by wrong numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from iree.winograd.importers.onnx_nodes.values import Array


@dataclass(frozen=True)
class _Windows:
    """The windows along one dimension of `size` elements, as many as rounding up makes."""

    size: int
    taps: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def count(self) -> int:
        """How many there are: each starts before the padding at the end."""
        extent = self.dilation * (self.taps - 1) + 1
        padded = self.size + self.low + self.high
        count = -(-(padded - extent) // self.stride) + 1
        return count - (1 if (count - 1) * self.stride >= self.size + self.low else 0)

    @property
    def overhang(self) -> int:
        """By how many elements the last one exceeds the padded image, which it may fall short of."""
        end = (self.count - 1) * self.stride + self.dilation * (self.taps - 1) + 1
        return end - (self.size + self.low + self.high)

    def elements(self, with_padding: bool) -> Array:
        """How many elements of each window count: those of the image, or of the padded one."""
        places = np.arange(self.count)[:, None] * self.stride + np.arange(self.taps) * self.dilation
        low, high = (
            (0, self.low + self.size + self.high) if with_padding else (self.low, self.low + self.size)
        )
        return np.asarray(((places >= low) & (places < high)).sum(axis=1))


@rewrites("AveragePool")
def average_pool(rewriting: Rewriting) -> None:
    """Pads what windows overhang as well, and corrects the means of those that count fewer elements."""
    if not rewriting.attributes.get("ceil_mode", 0):
        return
    attributes = {name: value for name, value in rewriting.attributes.items() if name != "ceil_mode"}
    image, result = rewriting.node.input[0], rewriting.node.output[0]
    if rewriting.text("auto_pad", "NOTSET").startswith("SAME"):
        # Its padding makes windows fit.
        rewriting.add("AveragePool", image, into=result, **attributes)
        return
    windows = _windows(rewriting)
    if all(each.overhang <= 0 for each in windows):
        rewriting.add("AveragePool", image, into=result, **attributes)
        return
    low = [0, 0, *(each.low for each in windows)]
    high = [0, 0, *(each.high + max(each.overhang, 0) for each in windows)]
    padded = rewriting.add("Pad", image, rewriting.constant_of([*low, *high], np.int64))
    kept = {name: attributes[name] for name in ("kernel_shape", "strides", "dilations") if name in attributes}
    means = rewriting.add("AveragePool", padded, **kept)
    counts = _outer([each.elements(bool(attributes.get("count_include_pad", 0))) for each in windows])
    factors = np.prod([each.taps for each in windows]) / counts
    dtype = rewriting.dtype(image)
    rewriting.add("Mul", means, rewriting.constant_of(factors[None, None], dtype), into=result)


def _windows(rewriting: Rewriting) -> list[_Windows]:
    sizes = (
        rewriting.known_shape(0)[2:]
        if None not in (rewriting.shape(rewriting.node.input[0]) or ())[2:]
        else ()
    )
    taps = rewriting.attributes["kernel_shape"]
    ones = [1] * len(taps)
    strides, dilations = (
        rewriting.attributes.get("strides", ones),
        rewriting.attributes.get("dilations", ones),
    )
    pads = rewriting.attributes.get("pads", [0] * 2 * len(taps))
    low, high = pads[: len(taps)], pads[len(taps) :]
    return [_Windows(*each) for each in zip(sizes, taps, strides, dilations, low, high, strict=True)]


def _outer(factors: Sequence[Array]) -> Array:
    """The products of one element of each, a dimension per factor."""
    return reduce(np.multiply.outer, factors)
