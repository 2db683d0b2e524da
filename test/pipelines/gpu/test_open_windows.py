"""Max pooling of f32 images of any size through CUDA: its text is run here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from checked_programs import compile_rewritten
from pooling_program import maxima, program
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from wide import wide

ARCHITECTURE = "sm_90a"
SIZES = [(1, 1), (2, 5), (7, 4), (9, 11)]
"""Of images: smaller than a window, too."""


@dataclass(frozen=True)
class Pooling:
    window: int
    stride: int
    padding: int
    channels: int

    @property
    def keeps_size(self) -> bool:
        """Whether kernels aren't told the sizes of results, which are those of images."""
        return self.stride == 1 and 2 * self.padding == self.window - 1

    def kernel(self, folder: Path) -> Kernel:
        text = program("1", None, self.channels, self.window, self.stride, self.padding)
        compile_rewritten(text, f"cuda:{ARCHITECTURE}", [f"--iree-hal-dump-executable-files-to={folder}"])
        spilled = spilled_bytes(folder, ARCHITECTURE)
        (found,) = (path.read_text() for path in folder.glob("*.ptx"))
        (name,) = re.findall(r"\.entry (winograd_window_max_\w+)\(", found)
        assert spilled[name] == 0
        return Kernel.parsed(found, name)


POOLINGS = [Pooling(5, 1, 2, 32), *wide([Pooling(3, 2, 1, 36), Pooling(2, 2, 0, 5), Pooling(4, 3, 1, 8)])]


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_maxima_are_nan_where_an_element_is(pooling: Pooling, tmp_path: Path) -> None:
    """Maxima are exact. IREE's code for `arith.maximumf` gives the other number for a NaN."""
    kernel = pooling.kernel(tmp_path)
    random = np.random.default_rng(0)
    for height, width in SIZES:
        rows, columns = (
            (extent + 2 * pooling.padding - pooling.window) // pooling.stride + 1
            for extent in (height, width)
        )
        if min(rows, columns) < 1:
            continue
        image = random.standard_normal((1, height, width, pooling.channels)).astype(np.float32)
        image[0, 0, 0, 0], image[0, -1, -1, 1], image[0, height // 2, 0, 2] = np.nan, np.inf, -np.inf
        result = np.zeros((1, rows, columns, pooling.channels), np.float32)
        told = [height, width, *([] if pooling.keeps_size else [rows, columns])]
        words = [np.array(word) for size in told for word in (size, 0)]
        grid = product(range(rows * columns), range(-(-pooling.channels // 4)), range(1))
        kernel.run([image, result, *words], grid)
        expected = maxima(image, pooling.window, pooling.stride, pooling.padding)
        np.testing.assert_array_equal(result, expected)
