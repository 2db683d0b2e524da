"""Images that are computed in part, on whole numbers, which direct convolutions add up exactly."""

from __future__ import annotations

import re
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
STAGE = re.compile(r"^func\.func @stage.*?^}$", re.MULTILINE | re.DOTALL)


def convolution(image: Array, filters: Array, stride: int = 1) -> Array:
    rows, columns = (image.shape[1 + axis] - filters.shape[axis] + 1 for axis in (0, 1))
    return sum(  # type: ignore[return-value]
        image[:, i : i + rows : stride, j : j + columns : stride] @ filters[i, j]
        for i, j in np.ndindex(filters.shape[:2])
    )


def test_computes_what_is_read() -> None:
    text = Path(__file__).with_name("move-strides.mlir").read_text()
    found = STAGE.search(text)
    assert found is not None
    maps = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    function = found[0].replace("@stage", "@main")
    program = iree.winograd.compile(f"{maps}\n{function}", target="cpu", output_tile=1, strict=True)
    generator = np.random.default_rng(0)
    shapes = [
        (2, 17, 16, 8),
        (2, 15, 14, 16),
        (16,),
        (3, 3, 8, 8),
        (1, 1, 8, 16),
        (1, 1, 16, 32),
        (1, 1, 16, 8),
    ]
    arguments = [generator.integers(-4, 5, shape).astype(np.float64) for shape in shapes]
    x, y, bias, *filters = arguments
    image = convolution(convolution(x, filters[0]), filters[1]) + y + bias
    results = iree.winograd.load(program, device="local-sync")(
        *(each.astype(np.float32) for each in arguments)
    )
    for result, last in zip(results, filters[2:], strict=True):
        np.testing.assert_array_equal(np.asarray(result), convolution(image, last, 2))
