"""Padding of transposed convolutions that torch-mlir lowers wrongly, whatever model they are of."""

from __future__ import annotations

from collections.abc import Sequence


def uncovered_padding(
    padding: Sequence[int], taps: Sequence[int], dilation: Sequence[int], output_padding: Sequence[int]
) -> list[int]:
    """What to crop at both ends of each spatial dimension, after a convolution that pads so much less.

    Padding of a transposed convolution takes results away, at both ends, and output padding adds some at the
    end. torch-mlir has fewer zeros around the image instead. Where these don't suffice for the padding, it
    cuts off the image at both ends, and reads beyond it if output padding makes up for that at the one. So
    what the filter's extent doesn't cover of such padding is cropped; other padding is lowered rightly.

    Raises ValueError for sequences of several lengths.
    """
    extents = [d * (size - 1) for d, size in zip(dilation, taps, strict=True)]
    return [
        p - extent if extent < p < extent + more else 0
        for p, extent, more in zip(padding, extents, output_padding, strict=True)
    ]
