"""Programs that are odd in one way each agree with IREE's own code, and keep our kernels."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from wide import sampled

PROGRAMS = sorted((Path(__file__).parent / "odd_programs").glob("*.mlir"))
SIGNATURE = re.compile(r"func\.func @main\((?P<arguments>.*?)\)\s*->", re.DOTALL)
TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(f32|i32)>")
DYNAMIC_SIZE = 2
TOLERANCE = 1e-5
"""Of the largest output: by default an algorithm may have a mean error of 1e-6."""


def arguments_of(text: str) -> list[np.ndarray]:
    """Random arguments of the types of `@main`: integers are small and positive, unknown sizes are 2."""
    generator = np.random.default_rng(0)
    signature = SIGNATURE.search(text)
    assert signature is not None
    arguments = []
    for sizes, element in TENSOR.findall(signature["arguments"]):
        shape = [DYNAMIC_SIZE if size == "?" else int(size) for size in sizes.split("x")[:-1]]
        arguments.append(
            generator.uniform(-1, 1, shape).astype(np.float32)
            if element == "f32"
            else generator.integers(1, 3, shape, np.int32)
        )
    return arguments


def run(text: str, *, enable_winograd: bool) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", iree.winograd.RewriteWarning)
        compiled = iree.winograd.compile(text, target="cpu", enable_winograd=enable_winograd)
    results = iree.winograd.load(compiled, device="local-sync")(*arguments_of(text))
    return [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("path", sampled(PROGRAMS, PROGRAMS[::9]), ids=lambda path: path.stem)
def test_agrees_with_iree(path: Path) -> None:
    text = path.read_text()
    expected, actual = (run(text, enable_winograd=enabled) for enabled in (False, True))
    for stock, ours in zip(expected, actual, strict=True):
        assert ours.shape == stock.shape and ours.dtype == stock.dtype
        np.testing.assert_allclose(ours, stock, atol=TOLERANCE * np.abs(stock).max(initial=0), rtol=0)
