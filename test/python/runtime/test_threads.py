"""The threads that a program runs on, and the caller that waits for them."""

import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import iree.compiler
import iree.runtime
import iree.winograd
import numpy as np
import pytest
from iree.winograd.errors import InvalidOptionError
from iree.winograd.loading.caller_scheduling import (
    CallerScheduling,
    SchedulingAttributes,
    scheduling_attributes,
    set_attributes,
)
from iree.winograd.loading.device import _open_host_device, open_device
from iree.winograd.loading.process_changes import UNCHANGED_VARIABLE
from iree.winograd.loading.runtime import ThreadsWarning, load
from iree.winograd.pipelines.machines.host import physical_cores
from loaded_programs import random_array
from own_threads import own_threads
from small_programs import CONVOLUTION


def test_the_number_of_threads_is_as_asked(vmfb: bytes) -> None:
    before = own_threads().keys()
    x = random_array(4, 64)
    # No other test asks for these and no machine has as many cores, so the devices are new.
    for threads in (11, 13):
        np.testing.assert_array_equal(load(vmfb, "local-task", threads=threads)(x), 2 * x)
    added = own_threads().keys() - before
    assert 11 + 13 <= len(added) <= 11 + 13 + 2 * 2


def test_one_thread_is_the_calling_one(vmfb: bytes) -> None:
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(vmfb, "local-task", threads=1)(x), 2 * x)
    assert open_device("local-task", 1) is open_device("local-sync")


def test_a_number_of_threads_may_be_any_integer(vmfb: bytes) -> None:
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(vmfb, "local-task", threads=np.int64(2))(x), 2 * x)


def test_as_many_threads_as_cores_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", os.cpu_count)
    assert open_device("local-task", physical_cores()) is open_device("local-task")


@pytest.mark.parametrize(
    ("device", "threads"), [("local-task", 0), ("local-sync", 2), ("local-task", "2"), ("local-task", 1.5)]
)
def test_a_number_of_threads_that_makes_no_sense(vmfb: bytes, device: str, threads: Any) -> None:
    with pytest.raises(InvalidOptionError, match=f"got {threads!r} for '{device}'"):
        load(vmfb, device, threads=threads)


@pytest.mark.parametrize("device", [None, 3])
def test_a_device_that_is_no_text(vmfb: bytes, device: Any) -> None:
    with pytest.raises(InvalidOptionError, match=f"device must be a URI of IREE's runtime, got {device}"):
        load(vmfb, device)


def test_kernels_for_another_number_of_threads_are_named(vmfb: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.vmfb"
    iree.winograd.compile(CONVOLUTION, target="cpu:x86-64", threads=2, output=path)
    with pytest.warns(
        ThreadsWarning, match=r"model\.vmfb' is compiled for 2 thread.* runs on 1: .*-threads=1"
    ):
        load(path, "local-sync")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(path, "local-task", threads=2)
        # Without kernels of ours all numbers are alike.
        load(vmfb, "local-sync")


def test_threads_that_open_a_device_at_once_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    created = []

    def create(device: str) -> MagicMock:
        created.append(device)
        time.sleep(0.1)
        return MagicMock()

    monkeypatch.setattr("iree.winograd.loading.device.binding.create_hal_driver", create)
    monkeypatch.setattr(iree.runtime.flags, "parse_flags", lambda *flags: None)
    with ThreadPoolExecutor(2) as pool:
        # No other test asks for as many, so the device is new.
        first, second = pool.map(lambda _: open_device("local-task", 17), range(2))
    assert first is second and len(created) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads be batch work")
def test_a_caller_leaves_cores_to_workers_while_it_waits(
    vmfb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = []

    def set_policy(thread: int, policy: int, parameters: os.sched_param) -> None:
        policies.append(policy)

    monkeypatch.setattr(os, "sched_setscheduler", set_policy)
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", lambda: 12)
    x = random_array(4, 64)
    # No other test asks for these, so the devices are new: more workers than cores, and fewer.
    load(vmfb, "local-task", threads=14)(x)
    assert policies == [os.SCHED_BATCH, os.SCHED_OTHER]
    load(vmfb, "local-task", threads=6)(x)
    load(vmfb, "local-sync")(x)
    assert len(policies) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads ask for slices")
def test_a_caller_keeps_short_slices_where_workers_take_all_cores(
    vmfb: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def set_and_record(attributes: SchedulingAttributes) -> None:
        asked.append(attributes.runtime)
        set_attributes(attributes)

    monkeypatch.setattr("iree.winograd.loading.caller_scheduling.set_attributes", set_and_record)
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", lambda: 15)
    x = random_array(4, 64)

    def call() -> tuple[int, int]:
        before = scheduling_attributes()
        assert before is not None
        # No other test asks for these, so the devices are new: fewer than all cores, and all.
        load(vmfb, "local-task", threads=7)(x)
        load(vmfb, "local-sync")(x)
        assert not asked
        for _ in range(2):
            load(vmfb, "local-task", threads=15)(x)
        after = scheduling_attributes()
        assert after is not None
        assert (after.policy, after.nice) == (before.policy, before.nice)
        return before.runtime, after.runtime

    # A thread of its own, which takes them with it.
    with ThreadPoolExecutor(1) as pool:
        before, after = pool.submit(call).result()
    assert asked == [100_000]
    # Linux before 6.12 tells, and grants, no slices.
    assert after == (100_000 if before else 0)


@pytest.mark.parametrize("attributes", [SchedulingAttributes(policy=3), None], ids=["other", "untold"])
def test_callers_keep_what_was_chosen_for_them(
    attributes: SchedulingAttributes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iree.winograd.loading.caller_scheduling.scheduling_attributes", lambda: attributes)
    monkeypatch.setattr("iree.winograd.loading.caller_scheduling.set_attributes", pytest.fail)

    def call() -> None:
        with CallerScheduling.SHORT_SLICES.applied():
            pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


@pytest.mark.parametrize(
    ("threads", "cores", "processors", "groups", "spins"),
    [
        (2, 2, 2, 0, (0, 0)),
        (16, 16, 16, 16, (100, 0)),
        (8, 8, 16, 0, (1000, 1000)),
        (4, 16, 16, 4, (1000, 1000)),
        (9, 8, 8, 9, (0, 0)),
    ],
    ids=["few cores", "many cores", "cores of two processors", "some of the cores", "too many"],
)
def test_workers_spin_and_stay_where_it_helps(
    threads: int,
    cores: int,
    processors: int,
    groups: int,
    spins: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", lambda: processors)
    monkeypatch.setattr("iree.winograd.loading.device.physical_cores", lambda: cores)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(iree.runtime.flags, "parse_flags", lambda *flags: parsed.extend(flags))
    monkeypatch.setattr("iree.winograd.loading.device.binding.create_hal_driver", MagicMock())
    monkeypatch.setattr("iree.winograd.loading.device._open_host_device", _open_host_device.__wrapped__)
    for alone, spin in zip((True, False), spins, strict=True):
        parsed.clear()
        open_device("local-task", threads, alone=alone)
        assert f"--task_topology_group_count={groups}" in parsed
        assert f"--task_worker_spin_us={spin}" in parsed


@pytest.mark.parametrize("variable", ["", "malloc", "scheduling, affinity", "all"])
def test_a_user_has_the_process_left_as_it_is(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    limits: list[int] = []
    for name in ("available_processors", "physical_cores"):
        monkeypatch.setattr(f"iree.winograd.loading.device.{name}", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(iree.runtime.flags, "parse_flags", lambda *flags: parsed.extend(flags))
    monkeypatch.setattr("iree.winograd.loading.device.binding.create_hal_driver", MagicMock())
    monkeypatch.setattr("iree.winograd.loading.device._open_host_device", _open_host_device.__wrapped__)
    monkeypatch.setattr("iree.winograd.loading.device._keep_freed_memory", limits.append)
    monkeypatch.setenv(UNCHANGED_VARIABLE, variable)
    device = open_device("local-task", 2)
    assert bool(limits) == (variable not in ("malloc", "all"))
    changes_threads = variable in ("", "malloc")
    assert (device.caller is CallerScheduling.BATCH_WORK) == changes_threads
    assert f"--task_topology_group_count={0 if changes_threads else 2}" in parsed
    limits.clear()
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    open_device("local-task", 2)
    assert limits == []
    monkeypatch.setenv(UNCHANGED_VARIABLE, "malloc,everything")
    with pytest.raises(
        InvalidOptionError, match="IREE_WINOGRAD_UNCHANGED names 'everything', none of affinity, "
    ):
        open_device("local-task", 2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets threads be batch work")
@pytest.mark.parametrize("call", ["sched_getaffinity", "sched_getscheduler", "sched_setscheduler"])
def test_a_caller_in_a_sandbox(vmfb: bytes, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, call, refuse)
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(vmfb, "local-task", threads=2)(x), 2 * x)
