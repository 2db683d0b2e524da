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
from chained_layers import CHANNELS, LAYERS, SIZE, compile_shared, exact, residual_layers
from iree.compiler import version
from iree.runtime import version as runtime_version
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import LoadError
from iree.winograd.pipelines.on_program.chain_kernels import ChainKernels
from iree.winograd.pipelines.problems.chain import CHAINED_ATTRIBUTE_NAME
from iree.winograd.pipelines.problems.reflection import ORDER_KEY

pytestmark = pytest.mark.xdist_group("chains")

CALLS = 20
LARGE_SIZE, SHARES = 48, 16
"""Of images of which shares of so many threads wait for their neighbours alone."""


@pytest.fixture(scope="module")
def program() -> bytes:
    return compile_shared(residual_layers(0), 4)


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


@pytest.fixture(scope="module")
def open_program() -> bytes:
    return compile_shared(residual_layers(3, None), 4)


@pytest.mark.parametrize("threads", [1, 2, 4, 7])
def test_kernels_that_are_told_sizes_wait(open_program: bytes, threads: int) -> None:
    """Also where all have fewer workgroups than shares, and where none has work: nobody waits for ever."""
    assert ORDER_KEY.encode() in open_program
    alone = iree.winograd.load(open_program, device="local-sync")
    loaded = iree.winograd.load(open_program, threads=threads)
    for size in ((SIZE, SIZE), (1, 1), (0, 5), (37, 23), (0, 0), (3, 0), (LARGE_SIZE, LARGE_SIZE), (2, 9)):
        image = np.random.default_rng(1).uniform(-1, 1, (1, *size, CHANNELS)).astype(np.float32)
        expected = np.asarray(alone(image))
        assert expected.shape == image.shape
        if image.size:
            expect_within(expected, *exact(3, image))
        for _ in range(CALLS):
            np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


def test_shares_wait_for_what_they_read() -> None:
    """Of kernels that begin while others of the kernel before are at work, however few workers there are."""
    source = residual_layers(2, LARGE_SIZE)
    program = compile_shared(source, SHARES)
    size = (1, LARGE_SIZE, LARGE_SIZE, CHANNELS)
    image = np.random.default_rng(3).uniform(-1, 1, size).astype(np.float32)
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    expect_within(expected, *exact(2, image))
    for threads in (2, 3, SHARES):
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


@pytest.mark.this_machine
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
