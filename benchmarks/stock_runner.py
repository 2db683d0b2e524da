"""Programs in `iree-benchmark-module`, as a user without Python runs them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import iree.runtime

RUNNER = Path(iree.runtime._binding.__file__).with_name("iree-benchmark-module")

_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME = r"([\d.]+) (ns|us|ms|s)\b"
_CALLS = re.compile(r"host_execute_queue p=\d+ q=\d+ execute +count=(\d+)")
_DISPATCH = re.compile(
    rf"host_execute (?P<name>\S+) +count=(?P<count>\d+) total={_TIME}.* tiles=(?P<tiles>\d+) tile_sum={_TIME}"
)


@dataclass(frozen=True)
class DispatchTime:
    """What a dispatch of a program takes in one call of it, all dispatches of a kernel together.

    `seconds` pass from the start of its first workgroup to the end of its last one, `busy_seconds` are those
    of all `workgroups` together.
    """

    kernel: str
    dispatches: float
    workgroups: float
    seconds: float
    busy_seconds: float


def runner_flags(threads: int) -> tuple[str, ...]:
    """Those with which `iree-benchmark-module` and `iree-run-module` use so many threads."""
    # Without a cache results would be in memory that is mapped, and faulted in, anew on each call.
    caching = "--device_allocator=caching"
    if threads == 1:
        return ("--device=local-sync", caching)
    return ("--device=local-task", f"--task_topology_max_group_count={threads}", caching)


def runner_seconds(program: Path, shape: Sequence[int], flags: Sequence[str], seconds: float) -> float:
    """Seconds of a call of function `main` on an f32 argument of `shape`, repeated for `seconds`.

    Raises CalledProcessError when the program fails.
    """
    output = _run(
        program, shape, (*flags, f"--benchmark_min_time={seconds:.3f}s", "--benchmark_format=json")
    ).stdout
    (result,) = json.loads(output)["benchmarks"]
    return float(result["real_time"]) * _UNITS[result["time_unit"]]


def dispatch_times(program: Path, shape: Sequence[int], flags: Sequence[str]) -> list[DispatchTime]:
    """What each kernel of function `main` takes. Raises CalledProcessError when the program fails."""
    finished = _run(program, shape, (*flags, "--benchmark_min_time=0.05s", "--print_device_statistics=true"))
    return parse_statistics(finished.stdout + finished.stderr)


def parse_statistics(text: str) -> list[DispatchTime]:
    """The kernels in what `--print_device_statistics` prints."""
    calls = sum(int(count) for count in _CALLS.findall(text))
    return [
        DispatchTime(
            kernel=found["name"],
            dispatches=int(found["count"]) / calls,
            workgroups=int(found["tiles"]) / int(found["count"]),
            seconds=_seconds(found[3], found[4]) / calls,
            busy_seconds=_seconds(found[6], found[7]) / calls,
        )
        for found in _DISPATCH.finditer(text)
    ]


def _seconds(value: str, unit: str) -> float:
    return float(value) * _UNITS[unit]


def _run(program: Path, shape: Sequence[int], flags: Sequence[str]) -> subprocess.CompletedProcess[str]:
    argument = f"--input={'x'.join(map(str, shape))}xf32=0.5"
    command = [RUNNER, f"--module={program}", "--function=main", argument, *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True)
