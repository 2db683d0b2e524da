"""Pooling whose windows don't fit the padded image: they overhang it, or leave a rest of it.

torch-mlir divides the means of windows that overhang by wrong numbers. IREE can't compile pooling to a single
window that leaves a rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.importers.onnx_nodes.pooling_any_size import average_pool_any_size
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from iree.winograd.importers.onnx_nodes.values import Array


@dataclass(frozen=True)
class _Windows:
    """The windows along one dimension of `size` elements, as many as rounding up or down makes."""

    size: int
    taps: int
    stride: int
    dilation: int
    low: int
    high: int
    rounds_up: bool

    @property
    def count(self) -> int:
        """How many there are: where they may overhang, each starts before the padding at the end."""
        steps = self.size + self.low + self.high - self.dilation * (self.taps - 1) - 1
        if not self.rounds_up:
            return steps // self.stride + 1
        count = ceil_div(steps, self.stride) + 1
        return count - (1 if (count - 1) * self.stride >= self.size + self.low else 0)

    @property
    def overhang(self) -> int:
        """By how many elements the last one exceeds the padded image, which it may fall short of."""
        end = (self.count - 1) * self.stride + self.dilation * (self.taps - 1) + 1
        return end - (self.size + self.low + self.high)

    @property
    def rest(self) -> int:
        """How many elements at the end of the padded image a single window leaves."""
        return max(-self.overhang, 0) if self.count == 1 else 0

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
    if _fits_by_itself(rewriting):
        return
    windows = _windows(rewriting)
    if windows is None:
        if rewriting.attributes.get("ceil_mode", 0):
            average_pool_any_size(rewriting)
        return
    if all(each.overhang <= 0 for each in windows):
        _leave_no_rest(rewriting, windows)
        return
    attributes = rewriting.attributes
    low = [0, 0, *(each.low for each in windows)]
    high = [0, 0, *(each.high + max(each.overhang, 0) for each in windows)]
    pads = rewriting.constant_of([*low, *high], np.int64)
    padded = rewriting.add("Pad", rewriting.node.input[0], pads)
    kept = {name: attributes[name] for name in ("kernel_shape", "strides", "dilations") if name in attributes}
    means = rewriting.add("AveragePool", padded, **kept)
    counts = _outer([each.elements(bool(attributes.get("count_include_pad", 0))) for each in windows])
    factors = np.prod([each.taps for each in windows]) / counts
    dtype = rewriting.dtype(rewriting.node.input[0])
    rewriting.add(
        "Mul", means, rewriting.constant_of(factors[None, None], dtype), into=rewriting.node.output[0]
    )


@rewrites("MaxPool")
def max_pool(rewriting: Rewriting) -> None:
    """Cuts off what a single window leaves; the indices of a second result are those of the whole image."""
    windows = None if _fits_by_itself(rewriting) else _windows(rewriting)
    if (
        windows is not None
        and len(rewriting.node.output) == 1
        and all(each.overhang <= 0 for each in windows)
    ):
        _leave_no_rest(rewriting, windows)


def _fits_by_itself(rewriting: Rewriting) -> bool:
    """Whether the node is padded so that its windows fit; takes out that they may overhang."""
    if not rewriting.text("auto_pad", "NOTSET").startswith("SAME"):
        return False
    if rewriting.attributes.pop("ceil_mode", 0):
        node = rewriting.node
        rewriting.add(node.op_type, node.input[0], into=node.output[0], **rewriting.attributes)
    return True


def _leave_no_rest(rewriting: Rewriting, windows: Sequence[_Windows]) -> None:
    """Has windows that don't overhang be those of less padding, or of a part of the image."""
    attributes = {
        name: value for name, value in rewriting.attributes.items() if name not in ("auto_pad", "ceil_mode")
    }
    if not rewriting.attributes.get("ceil_mode", 0) and not any(each.rest for each in windows):
        return
    image, high = rewriting.node.input[0], [each.high - each.rest for each in windows]
    if min(high) < 0:
        axes = range(2, 2 + len(windows))
        ends = [each.size + min(end, 0) for each, end in zip(windows, high, strict=True)]
        bounds = ([0] * len(windows), ends, axes)
        image = rewriting.add(
            "Slice", image, *(rewriting.constant_of(list(each), np.int64) for each in bounds)
        )
    attributes["pads"] = [*(each.low for each in windows), *(max(end, 0) for end in high)]
    rewriting.add(rewriting.node.op_type, image, into=rewriting.node.output[0], **attributes)


def _windows(rewriting: Rewriting) -> list[_Windows] | None:
    """The windows along each dimension of the image; None where its sizes are known only at run time."""
    sizes = (rewriting.shape(rewriting.node.input[0]) or (None,) * 3)[2:]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    taps = rewriting.attributes["kernel_shape"]
    ones, zeros = [1] * len(taps), [0] * 2 * len(taps)
    strides = rewriting.attributes.get("strides", ones)
    dilations = rewriting.attributes.get("dilations", ones)
    pads = rewriting.attributes.get("pads", zeros)
    low, high = pads[: len(taps)], pads[len(taps) :]
    rounds_up = [bool(rewriting.attributes.get("ceil_mode", 0))] * len(taps)
    each = zip(known, taps, strides, dilations, low, high, rounds_up, strict=True)
    return [_Windows(*values) for values in each]


def _outer(factors: Sequence[Array]) -> Array:
    """The products of one element of each, a dimension per factor."""
    return reduce(np.multiply.outer, factors)
