"""Programs whose kernels wait for each other in memory, on all numbers of workers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, takewhile
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.compiler import version
from iree.runtime import version as runtime_version
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import LoadError
from iree.winograd.pipelines.on_program.chain_kernels import ChainKernels
from iree.winograd.pipelines.problems.chain import CHAINED_ATTRIBUTE_NAME

SIZE, CHANNELS, LAYERS, CALLS = 10, 32, 8, 20
IDENTITY = "affine_map<(n, h, w, c) -> (n, h, w, c)>"
LARGE_SIZE, SHARES = 48, 16
"""Of images of which shares of so many threads wait for their neighbours alone."""


def residual_layers(seed: int, image_size: int = SIZE) -> str:
    """MLIR of a function that applies convolutions, 3x3 and 1x1 in turn, each added to its image."""
    image_type = f"tensor<1x{image_size}x{image_size}x{CHANNELS}xf32>"
    generator = np.random.default_rng(seed)
    lines = ["%zero = arith.constant 0.0 : f32"]
    image = "%x"
    for layer in range(LAYERS):
        kernel = 3 - 2 * (layer % 2)
        pad, size = kernel // 2, image_size + kernel - 1
        padded = f"tensor<1x{size}x{size}x{CHANNELS}xf32>"
        filters = generator.uniform(-1, 1, (kernel, kernel, CHANNELS, CHANNELS)) / (kernel * CHANNELS)
        values = filters.astype(np.float32).tobytes().hex().upper()
        type_ = f"tensor<{kernel}x{kernel}x{CHANNELS}x{CHANNELS}xf32>"
        lines.append(
            f'%f{layer} = arith.constant dense<"0x{values}"> : {type_}\n'
            f"%p{layer} = tensor.pad {image} low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{\n"
            "^bb0(%i: index, %j: index, %k: index, %l: index):\n  tensor.yield %zero : f32\n"
            f"}} : {image_type} to {padded}\n"
            f"%e{layer} = tensor.empty() : {image_type}\n"
            f"%z{layer} = linalg.fill ins(%zero : f32) outs(%e{layer} : {image_type}) -> {image_type}\n"
            f"%c{layer} = linalg.conv_2d_nhwc_hwcf {{winograd.algorithm = {{"
            f"output_tile = array<i64: {kernel}, {kernel}>, part_size = array<i64: {kernel}, {kernel}>}}}} "
            f"ins(%p{layer}, %f{layer} : {padded}, {type_}) "
            f"outs(%z{layer} : {image_type}) -> {image_type}\n"
            f"%r{layer} = linalg.generic {{indexing_maps = [{', '.join([IDENTITY] * 3)}], "
            'iterator_types = ["parallel", "parallel", "parallel", "parallel"]} '
            f"ins(%c{layer}, {image} : {image_type}, {image_type}) outs(%e{layer} : {image_type}) {{\n"
            "^bb0(%a: f32, %b: f32, %o: f32):\n  %s = arith.addf %a, %b : f32\n  linalg.yield %s : f32\n"
            f"}} -> {image_type}"
        )
        image = f"%r{layer}"
    body = "\n".join([*lines, f"return {image} : {image_type}"])
    return f"func.func @main(%x: {image_type}) -> {image_type} {{\n{body}\n}}"


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
            padded[:, i : i + image.shape[1], j : j + image.shape[2]] @ filters[i, j]
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


@pytest.mark.parametrize("threads", [2, 3, SHARES])
def test_shares_wait_for_what_they_read(threads: int) -> None:
    """Of kernels that begin while others of the kernel before are at work, however few workers there are."""
    source = residual_layers(2, LARGE_SIZE)
    program = iree.winograd.compile(source, target="cpu", threads=SHARES, strict=True)
    size = (1, LARGE_SIZE, LARGE_SIZE, CHANNELS)
    image = np.random.default_rng(3).uniform(-1, 1, size).astype(np.float32)
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    expect_within(expected, *exact(2, image))
    loaded = iree.winograd.load(program, threads=threads)
    for _ in range(CALLS):
        np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


# Its reach, and its operands, a line each.
OPERAND = r" +(?:ro|wo|rw) .*\n"
DISPATCH = re.compile(
    rf"stream\.cmd\.dispatch @[\w:@]+(?:\(%c\d+\w*, %c(-?\d+)\w* : index, index\))? {{\n((?:{OPERAND})+)"
)
RANGE = re.compile(r"(ro|wo|rw) (%\w+)\[%c(\d+)\w* for %c(\d+)")


def test_kernels_at_work_at_once_have_memory_of_their_own(tmp_path: Path) -> None:
    """What a kernel writes isn't where the one before, of which others may be at work, still reads."""
    source = tmp_path / "layers.mlir"
    source.write_text(residual_layers(2, LARGE_SIZE))
    printing = "--mlir-print-ir-before=iree-stream-fuse-dispatch-bindings"
    target = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    ours = [
        "--iree-enable-winograd",
        f"--iree-winograd-threads={SHARES}",
        "--iree-llvmcpu-target-cpu=haswell",
    ]
    printed = subprocess.run(
        [
            TOOL_DIRECTORY / "iree-compile",
            source,
            *target,
            *ours,
            "--compile-to=stream",
            printing,
            "-o",
            tmp_path / "out",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    dispatches = [(int(reach or -1), RANGE.findall(each)) for reach, each in DISPATCH.findall(printed)]
    assert sum(reach >= 0 for reach, _ in dispatches) == LAYERS - 1
    for (_, before), (reach, operands) in pairwise(dispatches):
        # What follows the counts is kept, not read.
        read = takewhile(lambda each: each[0] != "rw", before)
        (written,) = (each for each in operands if each[0] == "wo")
        assert reach < 0 or not any(overlap(each, written) for each in read)


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether ranges, each an access, a resource, an offset and a size, have bytes in common."""
    (_, resource, *numbers), (_, other_resource, *other_numbers) = one, other
    (begin, size), (other_begin, other_size) = map(int, numbers), map(int, other_numbers)
    return resource == other_resource and begin < other_begin + other_size and other_begin < begin + size


def test_calls_of_two_programs_at_a_time(program: bytes, image: npt.NDArray[np.float32]) -> None:
    """Each call counts in memory of its own."""
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    programs = [iree.winograd.load(program, threads=2) for _ in range(2)]

    def call(number: int) -> npt.NDArray[np.float32]:
        return np.asarray(programs[number % 2](image))

    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(call, range(2 * CALLS)):
            np.testing.assert_array_equal(result, expected)


def test_another_runtime_is_not_let_to_wait_for_ever(program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers may begin a kernel that waits before the one that is waited for."""
    monkeypatch.setattr(runtime_version, "VERSION", "3.14.0")
    message = r"wait for each other in an order that IREE's runtime 3\.13\.\* keeps, and this is 3\.14\.0"
    with pytest.raises(LoadError, match=message):
        iree.winograd.load(program, threads=2)
    iree.winograd.load(program, device="local-sync")


CHAINS = Path(__file__).parents[1] / "chain-kernels.mlir"


@pytest.mark.parametrize(("installed", "waits"), [(None, True), ("3.14.0", False), ("4.0.0rc1", False)])
def test_kernels_wait_with_versions_whose_order_of_workgroups_is_tested(
    installed: str | None, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another order they would wait for ever."""
    if installed is not None:
        monkeypatch.setattr(version, "VERSION", installed)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(CHAINS.read_text().partition("// -----")[0]).operation
        ChainKernels(threads=4).run(module)
        assert (CHAINED_ATTRIBUTE_NAME in str(module)) == waits
