"""Programs whose kernels wait for each other in memory, on all numbers of workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.dialect.algebra.numerics import error_bound

SIZE, CHANNELS, LAYERS, CALLS = 10, 32, 8, 20
IMAGE = f"tensor<1x{SIZE}x{SIZE}x{CHANNELS}xf32>"


def residual_layers(seed: int) -> str:
    """MLIR of a function that applies convolutions, 3x3 and 1x1 in turn, each added to its image."""
    generator = np.random.default_rng(seed)
    lines = ["%zero = arith.constant 0.0 : f32"]
    image = "%x"
    for layer in range(LAYERS):
        kernel = 3 - 2 * (layer % 2)
        pad, size = kernel // 2, SIZE + kernel - 1
        padded = f"tensor<1x{size}x{size}x{CHANNELS}xf32>"
        filters = generator.uniform(-1, 1, (kernel, kernel, CHANNELS, CHANNELS)) / (kernel * CHANNELS)
        values = filters.astype(np.float32).tobytes().hex().upper()
        type_ = f"tensor<{kernel}x{kernel}x{CHANNELS}x{CHANNELS}xf32>"
        lines.append(
            f'%f{layer} = arith.constant dense<"0x{values}"> : {type_}\n'
            f"%p{layer} = tensor.pad {image} low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{\n"
            "^bb0(%i: index, %j: index, %k: index, %l: index):\n  tensor.yield %zero : f32\n"
            f"}} : {IMAGE} to {padded}\n"
            f"%e{layer} = tensor.empty() : {IMAGE}\n"
            f"%z{layer} = linalg.fill ins(%zero : f32) outs(%e{layer} : {IMAGE}) -> {IMAGE}\n"
            f"%c{layer} = linalg.conv_2d_nhwc_hwcf {{winograd.algorithm = {{"
            f"output_tile = array<i64: {kernel}, {kernel}>, part_size = array<i64: {kernel}, {kernel}>}}}} "
            f"ins(%p{layer}, %f{layer} : {padded}, {type_}) "
            f"outs(%z{layer} : {IMAGE}) -> {IMAGE}\n"
            f"%r{layer} = arith.addf %c{layer}, {image} : {IMAGE}"
        )
        image = f"%r{layer}"
    body = "\n".join([*lines, f"return {image} : {IMAGE}"])
    return f"func.func @main(%x: {IMAGE}) -> {IMAGE} {{\n{body}\n}}"


def exact(seed: int, image: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], float]:
    """What `residual_layers` computes, with a bound on the errors of all that its layers round."""
    generator = np.random.default_rng(seed)
    values, bound = image.astype(np.float64), 0.0
    for layer in range(LAYERS):
        kernel = 3 - 2 * (layer % 2)
        filters = generator.uniform(-1, 1, (kernel, kernel, CHANNELS, CHANNELS)) / (kernel * CHANNELS)
        filters = filters.astype(np.float32).astype(np.float64)
        pad, largest = kernel // 2, 1 / (kernel * CHANNELS)
        padded = np.pad(values, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        convolved = error_bound((kernel, kernel), (kernel, kernel), CHANNELS) * largest
        # Errors of the image come with as many products as there are taps and channels, and by themselves.
        bound = (1 + kernel) * bound + convolved * (np.abs(values).max() + bound)
        values = values + sum(
            padded[:, i : i + SIZE, j : j + SIZE] @ filters[i, j]
            for i in range(kernel)
            for j in range(kernel)
        )
        bound += (np.abs(values).max() + bound) * 2.0**-24
    return values, bound


@pytest.fixture(scope="module")
def program() -> bytes:
    return iree.winograd.compile(residual_layers(0), target="cpu", threads=4, strict=True)


@pytest.fixture(scope="module")
def image() -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).uniform(-1, 1, (1, SIZE, SIZE, CHANNELS)).astype(np.float32)


def test_agrees_with_float64(program: bytes, image: npt.NDArray[np.float32]) -> None:
    expect_within(iree.winograd.load(program, device="local-sync")(image), *exact(0, image))


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_waits_on_any_number_of_workers(program: bytes, image: npt.NDArray[np.float32], threads: int) -> None:
    """A kernel that began too early would read what was there before."""
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    loaded = iree.winograd.load(program, threads=threads)
    for _ in range(CALLS):
        np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


def test_calls_of_two_programs_at_a_time(program: bytes, image: npt.NDArray[np.float32]) -> None:
    """Each call counts in memory of its own."""
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    programs = [iree.winograd.load(program, threads=2) for _ in range(2)]

    def call(number: int) -> npt.NDArray[np.float32]:
        return np.asarray(programs[number % 2](image))

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(call, range(2 * CALLS)):
            np.testing.assert_array_equal(result, expected)
