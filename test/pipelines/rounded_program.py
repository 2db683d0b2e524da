"""A convolution whose operands are rounded to half precision, and its result in float64."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import torch
from convolution_program import Program


@dataclass(frozen=True)
class RoundedProgram(Program):
    """A convolution of numbers of f32 that are rounded, to bf16 for example; products are exact in f32.

    Two products are added at a time, each sum rounded, to sums of 32 channels or of all.
    """

    rounded_type: torch.dtype = torch.bfloat16
    left_out: float = 0.0
    """The part of each product that isn't added."""

    def bound(self) -> float:
        return super().bound() + prod(self.kernel) * self.channels * (2.0**-23 + self.left_out)

    def expected(
        self, image: npt.NDArray[np.float32], filters: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float64]:
        rounded = (
            torch.from_numpy(each.copy()).to(self.rounded_type).float().numpy() for each in (image, filters)
        )
        return super().expected(*rounded, bias)
