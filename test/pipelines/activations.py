"""Functions that are applied to the results of layers: as MLIR, and in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Activation:
    """A function as MLIR, of `%biased`, and in float64; it has at most the slope `slope`."""

    text: str
    exact: Callable[[Array], Array]
    slope: float = 1.0


ACTIVATIONS = {
    "relu": Activation(
        "%finished = arith.maximumf %biased, %zero : f32", lambda values: np.maximum(values, 0)
    ),
    "swish": Activation(
        """%one = arith.constant 1.0 : f32
    %negative = arith.negf %biased : f32
    %exponential = math.exp %negative : f32
    %sum = arith.addf %exponential, %one : f32
    %sigmoid = arith.divf %one, %sum : f32
    %finished = arith.mulf %biased, %sigmoid : f32""",
        lambda values: values / (1 + np.exp(-values)),
        1.1,
    ),
    "hard swish": Activation(
        """%three = arith.constant 3.0 : f32
    %six = arith.constant 6.0 : f32
    %shifted = arith.addf %biased, %three : f32
    %positive = arith.maximumf %shifted, %zero : f32
    %gate = arith.minimumf %positive, %six : f32
    %product = arith.mulf %biased, %gate : f32
    %finished = arith.divf %product, %six : f32""",
        lambda values: values * np.clip(values + 3, 0, 6) / 6,
        1.5,
    ),
    "gelu": Activation(
        """%half = arith.constant 0.5 : f32
    %one = arith.constant 1.0 : f32
    %root = arith.constant 0.7071067811865476 : f32
    %scaled = arith.mulf %biased, %root : f32
    %error = math.erf %scaled : f32
    %sum = arith.addf %error, %one : f32
    %part = arith.mulf %sum, %half : f32
    %finished = arith.mulf %biased, %part : f32""",
        lambda values: values / 2 * (1 + np.vectorize(math.erf)(values / math.sqrt(2))),
        1.13,
    ),
}
