"""What a program spends in each of its dispatches, measured by IREE's own tools, on CUDA by CUPTI."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import iree.runtime
import numpy as np
import numpy.typing as npt
from iree.winograd.errors import CallError
from iree.winograd.loading.device import KEPT_MEMORY_VARIABLES
from iree.winograd.loading.runtime import load
from iree.winograd.pipelines.machines.host import WORKER_MEMORY
from iree.winograd.running.cuda_events import cuda_events
from iree.winograd.targets import driver_name

NO_LAYERS: Mapping[str, Sequence[str]] = MappingProxyType({})
_CALLS = 20
_TOOLS = Path(iree.runtime.__file__).parents[1] / "_runtime_libs"


@dataclass(frozen=True)
class DispatchTime:
    """A dispatch: its place among those of a call, the kernel's name, and the median of its seconds.

    `layer` is the name of the layer that it computes, empty where the program doesn't say. `limit` are the
    seconds that all dispatches of that layer together can't take less than, None where that isn't known.
    """

    place: int
    kernel: str
    seconds: float
    layer: str = ""
    limit: float | None = None


@dataclass(frozen=True)
class Profile:
    """The dispatches of a call in order, and all events of all calls that were measured."""

    dispatches: tuple[DispatchTime, ...]
    events: tuple[Mapping[str, Any], ...]

    def table(self) -> str:
        """A row per dispatch, the slowest first, and the sum; with limits of layers where some are known."""
        total = sum(each.seconds for each in self.dispatches) or 1.0
        ordered = sorted(self.dispatches, key=lambda each: each.seconds, reverse=True)
        width = max((len(each.kernel) for each in self.dispatches if each.layer), default=0)
        limits = {each.layer: each.limit for each in self.dispatches if each.limit is not None}
        rows = (
            f"{each.place:5} {1e3 * each.seconds:10.3f} ms {each.seconds / total:7.1%}  "
            f"{_limit(each.limit) if limits else ''}{each.kernel:{width}}  {each.layer}".rstrip()
            for each in ordered
        )
        limit = _limit(sum(limits.values())) if limits else ""
        return "\n".join((f"{'':5} {1e3 * total:10.3f} ms {1:7.1%}  {limit}all dispatches", *rows))

    def trace(self) -> dict[str, Any]:
        """The events in the format of Chrome's traces, which Perfetto shows."""
        return {
            "displayTimeUnit": "ns",
            "traceEvents": [
                {
                    "name": event["key"],
                    "cat": "dispatch",
                    "ph": "X",
                    "ts": start / 1e3,
                    "dur": event["duration_ns"] / 1e3,
                    "pid": event["physical_device_ordinal"],
                    "tid": event["queue_ordinal"],
                    "args": {"workgroups": event["workgroup_count"]},
                }
                for event, start in zip(self.events, _starts(self.events), strict=True)
            ],
        }


def profile(
    program: Path,
    function: str,
    arguments: Sequence[npt.NDArray[Any]],
    device: str,
    threads: int | None,
    layers: Mapping[str, Sequence[str]] = NO_LAYERS,
) -> Profile:
    """Measures the dispatches of a function in some calls of it: on `threads` of this machine, or on a GPU.

    That is what `device` names where there are no threads. `layers` are the names of those that each kernel
    computes, in the order of a call.
    Raises `CallError` when IREE's tools fail, or the device doesn't tell when it runs what: on CUDA for
    want of torch's profiler.
    """
    if driver_name(device) == "cuda":
        loaded = getattr(load(program, device), function)
        events: Sequence[Mapping[str, Any]] = cuda_events(lambda: loaded(*arguments), _CALLS)
    else:
        events = _tools_events(program, function, arguments, device, threads)
    if not events:
        raise CallError(f"device {device} doesn't tell when it runs which dispatch")
    return Profile(with_layers(dispatch_times(events), layers), tuple(events))


def _tools_events(
    program: Path,
    function: str,
    arguments: Sequence[npt.NDArray[Any]],
    device: str,
    threads: int | None,
) -> Sequence[Mapping[str, Any]]:
    """What IREE's tools record of calls, an event for each dispatch."""
    on_cpu = threads is not None
    if on_cpu:
        # local-sync, which one thread has otherwise, doesn't record a program's only dispatch.
        device = "local-task"
    with tempfile.TemporaryDirectory() as folder:
        bundle = Path(folder, "profile.ireeprof")
        # The tools cut a file's name at an @.
        module = Path(folder, "program.vmfb")
        module.symlink_to(program.absolute())
        inputs = []
        for number, argument in enumerate(arguments):
            path = Path(folder, f"{number}.npy")
            np.save(path, argument)
            inputs.append(f"--input=@{path}")
        _run(
            "iree-benchmark-module",
            f"--module={module}",
            f"--function={function}",
            f"--device={device}",
            *_workers(threads),
            f"--benchmark_min_time={_CALLS}x",
            f"--device_profiling_mode={'host-execution' if on_cpu else 'dispatch-events'}",
            f"--device_profiling_output={bundle}",
            *inputs,
        )
        lines = _run("iree-profile", "dispatch", "--dispatch_events", "--format=jsonl", str(bundle))
    rows = map(json.loads, lines.splitlines())
    kind = "host_dispatch_event" if on_cpu else "dispatch_event"
    return [row for row in rows if row["type"] == kind and row["valid"]]


def with_layers(
    dispatches: Sequence[DispatchTime], layers: Mapping[str, Sequence[str]]
) -> tuple[DispatchTime, ...]:
    """`dispatches` with the names of their layers; a loop runs a kernel's again and again."""
    counts = Counter[str]()
    named = []
    for each in dispatches:
        names = layers.get(each.kernel) or ("",)
        named.append(replace(each, layer=names[counts[each.kernel] % len(names)]))
        counts[each.kernel] += 1
    return tuple(named)


def with_limits(dispatches: Sequence[DispatchTime], limits: Mapping[str, float]) -> tuple[DispatchTime, ...]:
    """`dispatches` with the limits of their layers, seconds by name."""
    return tuple(replace(each, limit=limits.get(each.layer)) for each in dispatches)


def _limit(seconds: float | None) -> str:
    """A cell of the table."""
    return " " * 24 if seconds is None else f"limit {1e3 * seconds:10.3f} ms".ljust(24)


def _workers(threads: int | None) -> tuple[str, ...]:
    if threads is None:
        return ()
    return (f"--task_topology_group_count={threads}", f"--task_worker_local_memory={WORKER_MEMORY}")


def _starts(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """Nanoseconds from the first event to each; GPUs count ticks, which durations tell the length of."""
    ticks = sum(event.get("duration_ticks", 0) for event in events)
    length = sum(event["duration_ns"] for event in events) / ticks if ticks else 1.0
    times = [event.get("start_host_time_ns", event.get("start_tick", 0)) for event in events]
    return [(time - min(times)) * length for time in times]


def dispatch_times(events: Sequence[Mapping[str, Any]]) -> tuple[DispatchTime, ...]:
    """Medians over the calls, by place; by kernel where not all calls have the same dispatches."""
    ordered = sorted(events, key=lambda event: event["event_id"])
    per_call = len(ordered) // _CALLS if len(ordered) % _CALLS == 0 else None
    samples: dict[tuple[int, str], list[float]] = {}
    for number, (event, nanoseconds) in enumerate(zip(ordered, _own_nanoseconds(ordered), strict=True)):
        place = 0 if per_call is None else number % per_call
        samples.setdefault((place, event["key"]), []).append(1e-9 * nanoseconds)
    return tuple(
        DispatchTime(number, kernel, statistics.median(seconds))
        for number, ((_, kernel), seconds) in enumerate(sorted(samples.items()))
    )


def _own_nanoseconds(ordered: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    """Those of each event, on a CPU without what passed before the end of those before it.

    Kernels begin early, and wait for others.
    """
    end = 0
    for event in ordered:
        finished = event.get("end_host_time_ns")
        if finished is None:
            yield event["duration_ns"]
            continue
        yield max(0, min(event["duration_ns"], finished - end))
        end = max(end, finished)


def _run(tool: str, *arguments: str) -> str:
    command = [str(_TOOLS / tool), *arguments]
    environment = {**os.environ, **KEPT_MEMORY_VARIABLES}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CallError(f"{tool} failed: {reason}")
    return outcome.stdout
