"""What calibration concludes from times, and what the system says of caches."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.winograd.calibration.cpu import cache_levels, detect_cache_sizes, useful_cores, wake_seconds
from iree.winograd.calibration.gpu import cache_of, copy_bandwidths, resident_workgroups
from iree.winograd.calibration.sampling import MIN_ROUNDS, least_seconds
from iree.winograd.calibration.topology import cache_sizes
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.machines.units import KIBIBYTE

BANDWIDTHS = {
    size * KIBIBYTE: rate
    for size, rate in (
        (8, 400.0),
        (16, 420.0),
        (32, 410.0),
        (64, 200.0),
        (128, 210.0),
        (256, 190.0),
        (512, 200.0),
        (1024, 150.0),
        (2048, 90.0),
        (4096, 100.0),
    )
}


def test_levels_take_their_bandwidth_from_buffers_within_them() -> None:
    levels = cache_levels(BANDWIDTHS, [48 * KIBIBYTE, 1024 * KIBIBYTE, 16384 * KIBIBYTE])
    assert [level.size // KIBIBYTE for level in levels] == [48, 1024, 16384]
    assert [level.bandwidth for level in levels] == [410.0, 200.0, 95.0]


def test_a_level_is_not_faster_than_the_one_inside_of_it() -> None:
    disturbed = {size: 50.0 if size <= 32 * KIBIBYTE else rate for size, rate in BANDWIDTHS.items()}
    levels = cache_levels(disturbed, [48 * KIBIBYTE, 1024 * KIBIBYTE])
    assert [level.bandwidth for level in levels] == [50.0, 50.0]


def test_sizes_show_as_drops_of_bandwidth() -> None:
    sizes = [size // KIBIBYTE for size in detect_cache_sizes(BANDWIDTHS)]
    assert sizes == [32, 1024]


@pytest.mark.parametrize(
    ("gain", "threads", "physical", "cores"),
    [
        (1.0, 2, 2, 1),  # virtual cores that are threads of one
        (1.1, 2, 1, 1),  # threads of one core, as the system says
        (1.9, 2, 2, 2),
        (47.0, 128, 64, 64),  # clocks fall where all work
        (20.0, 128, 64, 20),
        (0.4, 4, 4, 1),
    ],
)
def test_useful_cores_are_those_that_gain(gain: float, threads: int, physical: int, cores: int) -> None:
    assert useful_cores(gain, threads, physical) == cores


def test_waking_is_what_several_workgroups_take_longer_than_one() -> None:
    assert wake_seconds(alone=200e-6, woken=215e-6) == pytest.approx(15e-6)


def test_waking_is_unknown_where_one_thread_did_all_the_work() -> None:
    assert wake_seconds(alone=200e-6, woken=395e-6) is None


def test_caches_of_the_system(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        ((1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "1024K"), (3, "Unified", "32M"))
    ):
        index = tmp_path / "cpu0" / "cache" / f"index{number}"
        index.mkdir(parents=True)
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (index / name).write_text(f"{value}\n")
    assert cache_sizes(tmp_path) == (48 << 10, 1 << 20, 32 << 20)


def test_caches_are_unknown_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert cache_sizes(tmp_path) == ()


def test_copies_show_cache_memory_and_launch_apart() -> None:
    launch, cache, memory, size_of_cache = 3e-6, 6e12, 4e12, 32 << 20
    durations = {2 << 10: launch}
    for exponent in range(20, 30):
        size = 1 << exponent
        durations[size] = launch + min(size, size_of_cache) / cache + max(0, size - size_of_cache) / memory
    bandwidths = copy_bandwidths(durations)
    assert bandwidths[32 << 20] == pytest.approx(cache)
    assert bandwidths[512 << 20] == pytest.approx(memory)
    assert min(bandwidths) >= 8 << 20  # smaller ones are hardly longer than a launch
    assert cache_of(bandwidths, memory) == (size_of_cache, pytest.approx(cache))


def test_no_cache_shows_where_all_copies_are_as_fast() -> None:
    assert cache_of({1 << 20: 1.1e9, 1 << 24: 1.0e9}, 1.0e9) is None


@pytest.mark.parametrize("multiprocessors", [2, 80, 132, 1023])
def test_multiprocessors_show_as_a_step_in_time(multiprocessors: int) -> None:
    assert resident_workgroups(lambda count: 1e-4 * ceil_div(count, multiprocessors), 4096) == multiprocessors


@pytest.mark.parametrize("multiprocessors", [1, 5000])
def test_multiprocessors_may_not_show(multiprocessors: int) -> None:
    assert resident_workgroups(lambda count: 1e-4 * ceil_div(count, multiprocessors), 4096) is None


def test_the_fastest_call_counts_but_not_the_first() -> None:
    now = 0.0
    costs = iter([0.001, *[5.0, 2.0, 3.0] * 10])

    def run() -> None:
        nonlocal now
        now += next(costs)

    parts: list[float] = []
    assert least_seconds({"run": run}, 0.1, parts.append, clock=lambda: now) == {"run": 2.0}
    assert len(parts) == MIN_ROUNDS and parts == sorted(parts) and parts[-1] == 1.0
