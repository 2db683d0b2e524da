"""How large the outputs of a layer can be, by how large what it reads is: for scales of split numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
from iree.winograd.passes.match.epilogues.magnitude import Magnitude, match_magnitude
from iree.winograd.passes.match.values.constants import Array

from .group import ConvolutionGroup

MOST_EXCESS_BITS = 26
"""Of the ratio between a bound and the sums of magnitudes that are surely there, for which pairs of fp16 by
the scale of the bound err by no more than sums of f32 may (`winograd-store-split`)."""
_ROUNDED_UP = 1 + 2.0**-8
"""What covers the rounding of sums of up to 2^14 products, of an epilogue, and of the bound."""


@dataclass(frozen=True)
class OutputBound:
    """Outputs of a pixel are of a magnitude of at most `factor` times its largest number's, and `addend`."""

    factor: float
    addend: float
    excess_bits: float
    """Two to this power is how often the bound has what sums of the largest number surely have."""

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite([self.factor, self.addend, self.excess_bits]).all())


def output_bound(group: ConvolutionGroup) -> OutputBound | None:
    """That of a product of pixels by constant filters; None for others, or where an epilogue has none."""
    filters = group.transformed_taps(group.shape.decomposition)
    magnitude = match_magnitude(group.output_transform) if filters is not None else None
    return None if filters is None or magnitude is None else _bound(filters, magnitude)


def _bound(filters: Array, magnitude: Magnitude) -> OutputBound:
    """That of a product with filters [1, C, K]."""
    scaled = np.abs(filters[0].astype(np.float64)) * magnitude.factor
    largest = scaled.sum(axis=0).max(initial=0.0)
    of_channels = scaled.max(axis=1)
    least = of_channels[of_channels > 0].min(initial=np.inf)
    addend = float(np.max(magnitude.addend)) * _ROUNDED_UP
    excess = float(largest / least)
    return OutputBound(float(largest) * _ROUNDED_UP, addend, log2(excess) if excess > 0 else 0.0)
