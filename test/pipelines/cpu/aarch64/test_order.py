"""Kernels for AArch64 that wait for each other in memory."""

from __future__ import annotations

import re
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from chained_layers import CHANNELS, SIZE, exact, residual_layers
from guest_process import GuestEndedError
from joined_programs import load_or_skip

SAMPLE = Path(__file__).parents[4] / "samples" / "convolution.mlir"
CALLS = 4
# Which processor they are for is their own matter.
pytestmark = [pytest.mark.wide, pytest.mark.this_machine, pytest.mark.xdist_group("aarch64")]


@pytest.mark.parametrize(("cpu", "counting"), [("neoverse-v1", "ldaddal"), ("cortex-a72", "ldaxr")])
def test_counting_acquires_and_releases(cpu: str, counting: str, tmp_path: Path) -> None:
    """On processors that add atomically by an instruction, and on those that load and store exclusively."""
    flags = [f"--iree-hal-dump-executable-intermediates-to={tmp_path}"]
    iree.winograd.compile(SAMPLE.read_text(), target=f"cpu:{cpu}", flags=flags, threads=4, strict=True)
    (kernel,) = [
        text for path in tmp_path.glob("*.s") if "TPIDR_EL0" in (text := path.read_text(errors="replace"))
    ]
    added = re.findall(r"\b(?:ldadd|ldx|lda?xr)\w*", kernel)
    assert set(added) == {counting}
    # Before a workgroup is counted, between what tells of it, and after the wait.
    assert kernel.count("dmb\tish") >= 4
    assert not re.search(r"dmb\t(?!ish$)", kernel, re.MULTILINE)


@pytest.mark.parametrize("workers", [1, 3, 4])
def test_shares_wait_for_each_other(workers: int) -> None:
    """A kernel that began too early would read what was there before."""
    program = iree.winograd.compile(residual_layers(0), target="cpu:neoverse-v1", threads=4, strict=True)
    image = np.random.default_rng(1).uniform(-1, 1, (1, SIZE, SIZE, CHANNELS)).astype(np.float32)
    loaded = load_or_skip("neoverse-v1", program, workers)
    results = [loaded(image) for _ in range(CALLS)]
    expect_within(results[0], *exact(0, image))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_an_emulator_lacks_what_its_processor_lacks() -> None:
    """Cortex-A72 adds by no single instruction: code for a later processor ends there."""
    program = iree.winograd.compile(residual_layers(0), target="cpu:neoverse-v1", threads=2, strict=True)
    loaded = load_or_skip("cortex-a72", program, 2)
    with pytest.raises(GuestEndedError, match="SIGILL"):
        loaded(np.zeros((1, SIZE, SIZE, CHANNELS), np.float32))


def test_a_program_for_x86_says_so_when_it_is_loaded() -> None:
    program = iree.winograd.compile(SAMPLE.read_text(), target="cpu:haswell", threads=1)
    with pytest.raises(
        iree.winograd.LoadError, match="compiled for x86_64 processors, and this one is aarch64"
    ):
        load_or_skip("cortex-a72", program, 1)
