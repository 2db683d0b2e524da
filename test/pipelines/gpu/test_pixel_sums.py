"""Sums over the pixels of images of any size by kernels on Vulkan."""

import iree.winograd
import numpy as np
import pytest
from pixel_sum_program import EXPECTED, program
from wide import wide, wide_combinations

SIZES = [(1, 1, 1), (2, 1, 13), (1, 7, 3), (3, 5, 40), (1, 33, 31), (2, 32, 32), (1, 3, 521)]
"""Of a thousand pixels and fewer, which one kernel sums, and of more."""


@pytest.mark.parametrize(
    ("form", "channels"),
    [
        ("pooled", 36),
        *wide_combinations([("rows", 21), ("means", 36), ("pixels", 3), ("means", 64), ("pooled", 3)]),
    ],
)
def test_sums_pixels_of_any_size(form: str, channels: int, gpu_target: str, gpu_device: str) -> None:
    """Integers, whose sums are exact; more pixels than threads share, and channels that are no quads."""
    compiled = iree.winograd.compile(program(form, channels), target=gpu_target, strict=True)
    assert (b"winograd_row_sums_anyx%d" % channels in compiled) == (form != "rows")
    assert b"winograd_row_sums_anyxanyx%d" % channels in compiled
    assert (b"winograd_pixel_sums_anyxanyx%d" % channels in compiled) == (form != "rows")
    # Sums of all pixels are divided where they are added.
    assert form != "pooled" or b"main_dispatch" not in compiled
    run = iree.winograd.load(compiled, gpu_device)
    random = np.random.default_rng(0)
    for size in SIZES:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        error = abs(np.asarray(run(image)) - EXPECTED[form](image))
        bound = BOUNDS[form](image) if form in BOUNDS else 0
        assert np.all(error <= bound)


def _bound_of_means(image: np.ndarray) -> np.ndarray:
    """Of a sum of means of columns. IREE divides: on CUDA by div.full, within 2 ulp, 2^-22 (PTX ISA)."""
    means = abs(image.sum(axis=1)).sum(axis=1) / image.shape[1]
    return (2.0**-22 + image.shape[2] * 2.0**-24) * means[..., None, None]


def _bound_of_pooled(image: np.ndarray) -> np.ndarray:
    """Of a mean of all pixels, whose sum is exact: two divisions, which Vulkan has within 2.5 ulp each."""
    return 5 * 2.0**-23 * abs(image).mean(axis=(1, 2))[..., None, None]


BOUNDS = {"means": _bound_of_means, "pooled": _bound_of_pooled}


@pytest.mark.parametrize("target", ["cuda:sm_90a", *wide(["cuda:sm_80", "hip:gfx942"])])
def test_kernels_compile_for_all_targets(target: str) -> None:
    compiled = bytes(iree.winograd.compile(program("means", 36), target=target, strict=True))
    assert b"winograd_row_sums_anyxanyx36" in compiled and b"winograd_row_sums_anyx36" in compiled
