"""Functions of epilogues through CUDA: of few instructions, of which the kernel's text is run here."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from activations import ACTIVATIONS, Activation
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from ptx_interpreter import Kernel
from scheduled_program import ScheduledProgram

CHANNELS = 8
NAME = f"winograd_depthwise_f1x1_1x1_4x16x{CHANNELS}_from_{CHANNELS}"
PROGRAM = ScheduledProgram(
    (4, 16),
    CHANNELS,
    CHANNELS,
    (1, 1),
    (1, 1),
    (1, 1),
    groups=CHANNELS,
    schedule=GpuDepthwiseSchedule(64, 2),
)
QUOTIENTS = {"swish": "rcp.approx.ftz.f32", "gelu": "div.approx.ftz.f32"}
"""One or two instructions, of divisors whose exponents are known."""
SLOW = ("div.full.f32", "div.rn.f32", "rcp.rn.f32", "cvt.rmi", "cvt.rzi")
"""What branches, or has a sixteenth of the rate."""


@pytest.mark.parametrize("activation", QUOTIENTS)
def test_are_accurate_without_what_is_slow(activation: str, tmp_path: Path) -> None:
    """Of numbers that the kernel multiplies by 1 and adds 0 to, large ones too; a NaN stays one."""
    (text,) = replace(PROGRAM, activation=activation).kernels("sm_90a", tmp_path)
    assert QUOTIENTS[activation] in text and not any(each in text for each in SLOW)
    image = np.linspace(-12, 12, 64 * CHANNELS, dtype=np.float32)
    image[:6] = -1e30, -100, 100, 1e30, np.inf, np.nan
    result = np.full_like(image, np.nan)
    filters, bias = np.ones(CHANNELS, np.float32), np.zeros(CHANNELS, np.float32)
    kernel = Kernel.parsed(f".visible .entry{text}", NAME)
    kernel.run([image, filters, bias, result], iter([(0, 0, 0), (1, 0, 0)]))
    with np.errstate(over="ignore"):
        exact = ACTIVATIONS[activation].exact(image.astype(np.float64))
    # What the error function leaves of 1 has its error.
    at_most = 2.0**-21 * np.maximum(np.abs(exact), np.abs(image) if activation == "gelu" else 0)
    numbers = np.isfinite(image)
    assert np.all(np.abs(result[numbers] - exact[numbers]) <= at_most[numbers] + 1e-36)
    assert result[0] == 0 and result[3] == image[3] and result[4] == np.inf and np.isnan(result[5])


@pytest.mark.parametrize(
    ("type_", "roundoff", "error", "of_one"),
    [("f16", 2.0**-11, 2.0**-15.8, 2.0**-26), ("bf16", 2.0**-8, 2.0**-12, 2.0**-21)],
)
def test_what_an_error_function_leaves_of_one_by_an_exponential(
    type_: str,
    roundoff: float,
    error: float,
    of_one: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounded to half precision: GELU of half precision takes three times as long by a quotient."""
    left = f"""%one = arith.constant 1.0 : f32
    %error = math.erf %biased : f32
    %left = arith.addf %error, %one : f32
    %half = arith.truncf %left : f32 to {type_}
    %finished = arith.extf %half : {type_} to f32"""
    monkeypatch.setitem(ACTIVATIONS, "left", Activation(left, np.vectorize(lambda x: math.erfc(-x))))
    (text,) = replace(PROGRAM, activation="left").kernels("sm_90a", tmp_path)
    assert "ex2.approx.ftz.f32" in text and "div" not in text
    image = np.linspace(-6, 6, 64 * CHANNELS, dtype=np.float32)
    image[:8] = -1e30, -100, -7, 7, 100, 1e30, np.inf, np.nan
    result = np.full_like(image, np.nan)
    filters, bias = np.ones(CHANNELS, np.float32), np.zeros(CHANNELS, np.float32)
    kernel = Kernel.parsed(f".visible .entry{text}", NAME)
    kernel.run([image, filters, bias, result], iter([(0, 0, 0), (1, 0, 0)]))
    exact = ACTIVATIONS["left"].exact(image[8:].astype(np.float64))
    # Of the instructions 2^-21 together, of exponents of at most 2^6 2^-17.
    bound = roundoff + error + 2.0**-16
    np.testing.assert_allclose(result[8:], exact, rtol=bound, atol=of_one + 2.0**-25)
    np.testing.assert_array_equal(result[:8], [0, 0, 0, 2, 2, 2, 2, np.nan])


def test_reciprocals_of_any_number_are_those_of_all_exponents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a divisor or its reciprocal is below 2^-126."""
    reciprocal = """%one = arith.constant 1.0 : f32
    %finished = arith.divf %one, %biased : f32"""
    monkeypatch.setitem(ACTIVATIONS, "reciprocal", Activation(reciprocal, lambda values: 1 / values))
    (text,) = replace(PROGRAM, activation="reciprocal").kernels("sm_90a", tmp_path)
    assert "div.full.f32" in text and "ftz" not in text
