"""What is computed of a number by constants per channel: `scale * number + shift`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.values.constants import Array


@dataclass(frozen=True)
class ChannelAffine:
    """`scale * number + shift`, in float64, with one element per channel."""

    scale: Array
    shift: Array

    @staticmethod
    def identity(channels: int) -> ChannelAffine:
        return ChannelAffine(np.ones(channels), np.zeros(channels))

    @property
    def scales(self) -> bool:
        return bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        return bool(np.any(self.shift))

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.scale).all() and np.isfinite(self.shift).all())

    def after(self, first: ChannelAffine) -> ChannelAffine:
        """This, of what `first` computes."""
        return ChannelAffine(self.scale * first.scale, self.scale * first.shift + self.shift)

    def then(self, operation: ir.Operation, other: Array, *, is_left: bool) -> ChannelAffine | None:
        """What `operation` computes of this, its left operand or its right one, and of `other`.

        None where that isn't of this form.
        """
        if operation.name == "arith.addf":
            return ChannelAffine(self.scale, self.shift + other)
        if operation.name == "arith.mulf":
            return ChannelAffine(self.scale * other, self.shift * other)
        if operation.name == "arith.subf" and is_left:
            return ChannelAffine(self.scale, self.shift - other)
        if operation.name == "arith.divf" and is_left and np.all(other != 0):
            return ChannelAffine(self.scale / other, self.shift / other)
        return None
