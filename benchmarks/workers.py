"""Times programs on workers with one set of flags of IREE's runtime after the other.

    python -m benchmarks.threads --compile-only --batch 1
    python -m benchmarks.workers --threads 16 --output build/workers.json

Each combination of the flags has a process of its own, since the runtime reads them once: how long workers
spin before they sleep, whether each stays on a core, and what the caller asks of the system.
Processes go forth and back through the combinations; all medians are told.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path

from iree import runtime
from iree.runtime import _binding as binding
from iree.winograd.loading.caller_scheduling import CallerScheduling
from iree.winograd.loading.device import Device
from iree.winograd.pipelines.machines.host import WORKER_MEMORY
from iree.winograd.tuning.measuring.bound_program import BoundProgram

from benchmarks.convolutions import resnet_layers
from benchmarks.isolation import answer_task, run_isolated
from benchmarks.timing import Contender, time_interleaved


@dataclass(frozen=True)
class Task:
    """What a process measures: the programs of `folder` for so many threads, on workers with these flags."""

    threads: int
    spin: int
    pinned: bool
    caller: str
    """A value of `CallerScheduling`."""
    folder: str

    @property
    def name(self) -> str:
        where = "pinned" if self.pinned else "free"
        return f"{where}, {self.spin} us of spinning, caller {self.caller}"


def main() -> None:
    if answer_task(lambda task: _measure(Task(**task))):
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--spin", nargs="+", type=int, default=[0, 50, 200], help="microseconds")
    parser.add_argument("--programs", type=Path, default=Path("build/threads"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    tasks = [
        Task(options.threads, spin, pinned, caller.value, str(options.programs))
        for spin, pinned, caller in product(options.spin, (False, True), CallerScheduling)
    ]
    results: dict[str, dict[str, list[float]]] = {}
    for each in [*tasks, *reversed(tasks)]:
        outcome = run_isolated("benchmarks.workers", asdict(each))
        if outcome.failure is not None:
            raise SystemExit(f"{each.name}: {outcome.failure}")
        for layer, milliseconds in outcome.messages[-1].items():
            results.setdefault(each.name, {}).setdefault(layer, []).append(milliseconds)
    for name, times in results.items():
        print(f"{name}: " + ", ".join(f"{layer} {medians}" for layer, medians in times.items()))
    if options.output is not None:
        options.output.write_text(
            json.dumps({"threads": options.threads, "workers": results}, indent=1) + "\n"
        )


@cache
def _open(task: Task) -> Device:
    """The device; it has to outlive what programs return."""
    runtime.flags.parse_flags(
        f"--task_topology_group_count={0 if task.pinned else task.threads}",
        f"--task_topology_max_group_count={task.threads}",
        f"--task_worker_spin_us={task.spin}",
        f"--task_worker_local_memory={WORKER_MEMORY}",
    )
    hal = binding.create_hal_driver("local-task").create_default_device(allocators=["caching"])
    return Device(
        "local-task", hal, in_host_memory=True, workers=task.threads, caller=CallerScheduling(task.caller)
    )


def _measure(task: Task) -> dict[str, float]:
    """Milliseconds of a call of each layer, batch 1."""
    device = _open(task)
    contenders = []
    for layer in resnet_layers(1):
        shape = f"{layer.height}x{layer.width}x{layer.channels}"
        image = layer.random_operands().image
        program = Path(task.folder, f"{shape}-1-ours-{task.threads}.vmfb")
        bound = BoundProgram(program, [device.copy_from_host(image)], device)
        contenders.append(Contender(shape, bound.run))
    timings = time_interleaved(contenders, rounds=3, burst_seconds=0.03)
    return {name: round(1e3 * timing.median, 4) for name, timing in timings.items()}


if __name__ == "__main__":
    main()
