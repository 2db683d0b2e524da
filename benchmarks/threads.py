"""Times layers and networks on one thread, two, and so on to all cores, beside the other tools.

    python -m benchmarks.threads --jobs 16 --compile-only
    python -m benchmarks.threads --budget 300 --output benchmarks/results/threads.json
    python -m benchmarks.threads_figure benchmarks/results/threads.json docs/threads.svg

A row is a layer or network at one batch size on so many threads; rows that the output already has are
skipped, so that a run can be continued. Ours is called through `load` on an array as numpy allocates it
("ours") and on one aligned to 64 bytes ("ours-aligned"), and runs in `iree-benchmark-module` ("ours-runner").
Of what takes time in there, the rows hold what IREE's own statistics tell, and what a dispatch without work
takes. Arguments of the other tools are bound beforehand.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd.atomic_file import atomic_file
from iree.winograd.pipelines.machines.host import physical_cores
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.isolation import answer_task, run_isolated, tell
from benchmarks.timing import Contender, time_interleaved

if TYPE_CHECKING:
    from benchmarks.thread_subjects import ThreadSubject

COMPILERS = ("ours", "iree", "iree-tiled")
OURS = ("ours", "ours-aligned", "ours-runner")


@dataclass(frozen=True)
class Task:
    """What a process does with a subject at a batch size: compile a program of it, or time rows."""

    name: str
    batch: int
    threads: tuple[int, ...]
    programs: str
    compiler: str | None
    rounds: int
    burst_seconds: float
    deadline: float

    def row_names(self) -> list[str]:
        return [f"{self.name} batch {self.batch} threads {threads}" for threads in self.threads]


class Results:
    """The rows of a JSON file by name, which is written anew with each row."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        stored = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self.rows: dict[str, dict[str, Any]] = stored.get("threads", {})

    def add(self, row: dict[str, Any]) -> None:
        self.rows[f"{row['name']} batch {row['batch']} threads {row['threads']}"] = row
        print(_line(row), flush=True)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(str(self._path)) as unfinished:
                Path(unfinished).write_text(json.dumps({"threads": self.rows}, indent=1) + "\n")


def main() -> None:
    if answer_task(lambda task: _work(Task(**{**task, "threads": tuple(task["threads"])}))):
        return
    options = _parse_arguments()
    deadline = time.time() + options.budget
    results = Results(options.output)
    tasks = [task for task in _tasks(options, deadline) if not set(task.row_names()) <= set(results.rows)]
    if options.compile_only:
        _compile(tasks, options.jobs)
        return
    for task in tasks:
        if time.time() >= deadline:
            break
        missing = [
            threads
            for threads, name in zip(task.threads, task.row_names(), strict=True)
            if name not in results.rows
        ]
        _time_rows(Task(**{**asdict(task), "threads": tuple(missing)}), results)


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.thread_subjects import NAMES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", nargs="+", choices=NAMES, default=list(NAMES), metavar="SUBJECT")
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    cores = physical_cores()
    powers = [2**power for power in range(cores.bit_length()) if 2**power < cores]
    parser.add_argument("--threads", nargs="+", type=int, default=[*powers, cores])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.05, help="seconds of a contender's turn in a round")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no row is begun")
    parser.add_argument(
        "--programs", type=Path, default=Path("build/threads"), help="folder of compiled ones"
    )
    parser.add_argument("--compile-only", action="store_true", help="fill that folder, and time nothing")
    parser.add_argument("--jobs", type=int, default=1, help="programs compiled at once by --compile-only")
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/threads.json")
    return parser.parse_args()


def _tasks(options: argparse.Namespace, deadline: float) -> list[Task]:
    return [
        Task(
            name=name,
            batch=batch,
            threads=tuple(options.threads),
            programs=str(options.programs),
            compiler=None,
            rounds=options.rounds,
            burst_seconds=options.burst,
            deadline=deadline,
        )
        for batch in options.batch
        for name in options.subjects
    ]


def _compile(tasks: Iterable[Task], jobs: int) -> None:
    compilations = list(_compilations(tasks))
    # Those that take long come first, so that no core is left with one when the others are done.
    compilations.sort(key=lambda task: (task.name[0].isdigit(), -task.batch))

    def compile_one(task: Task) -> None:
        outcome = run_isolated("benchmarks.threads", asdict(task))
        if outcome.failure is not None:
            print(f"{task.name}, batch {task.batch}, {task.compiler}: {outcome.failure}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, compilations))


def _compilations(tasks: Iterable[Task]) -> Iterator[Task]:
    for task in tasks:
        for compiler in COMPILERS:
            # Only ours differs by the number of threads.
            for threads in task.threads if compiler == "ours" else task.threads[:1]:
                if time.time() < task.deadline:
                    yield Task(**{**asdict(task), "threads": (threads,), "compiler": compiler})


def _time_rows(task: Task, results: Results) -> None:
    outcome = run_isolated("benchmarks.threads", asdict(task), threads=max(task.threads))
    for row in outcome.messages:
        results.add(row)
    if outcome.failure is not None:
        print(f"{task.name}, batch {task.batch}: {outcome.failure}", flush=True)


def _work(task: Task) -> None:
    from benchmarks.thread_subjects import thread_subject

    subject = thread_subject(task.name, task.batch)
    if task.compiler is not None:
        subject.compiled(Path(task.programs), f"{task.name}-{task.batch}", task.compiler, task.threads[0])
        return
    for threads in task.threads:
        if time.time() < task.deadline:
            tell(measure_row(task, subject, threads))


def measure_row(task: Task, subject: ThreadSubject, threads: int) -> dict[str, Any]:
    """What a subject takes on so many threads in each tool."""
    from benchmarks.compiled import bind_program
    from benchmarks.empty_dispatch import empty_dispatch_seconds
    from benchmarks.stock_runner import dispatch_times, runner_flags, runner_seconds

    contenders = subject.peers(threads)
    failures = {}
    for compiler in COMPILERS[1:]:
        try:
            program = subject.compiled(Path(task.programs), f"{task.name}-{task.batch}", compiler, threads)
            contenders.append(Contender(compiler, bind_program(program, subject.image, threads)[0]))
        except Exception as failure:
            failures[compiler] = {"failure": str(failure).partition("\n")[0]}
    ours = subject.compiled(Path(task.programs), f"{task.name}-{task.batch}", "ours", threads)
    contenders += _our_calls(ours, subject.image, threads)
    flags, shape = runner_flags(threads), subject.image.shape
    samples: dict[str, list[float]] = {}
    for number in range(task.rounds):
        order = contenders if number % 2 == 0 else contenders[::-1]
        timings = time_interleaved(order, rounds=1, burst_seconds=task.burst_seconds)
        taken = {name: timing.median for name, timing in timings.items()}
        taken["ours-runner"] = runner_seconds(ours, shape, flags, task.burst_seconds)
        for name, seconds in taken.items():
            samples.setdefault(name, []).append(seconds)
    timings = {name: Timing(tuple(seconds)) for name, seconds in samples.items()}
    best = min(
        (name for name in timings if not name.startswith(("ours", "iree"))),
        key=lambda name: timings[name].median,
    )
    return {
        "name": task.name,
        "batch": task.batch,
        "threads": threads,
        "contenders": {
            name: {"milliseconds": 1e3 * timing.median, "spread": timing.spread}
            for name, timing in timings.items()
        }
        | failures,
        "best": best,
        "ratios": {name: timings[best].median / timings[name].median for name in OURS},
        "image_bytes": subject.image.nbytes,
        "program_bytes": ours.stat().st_size,
        "empty_dispatch_seconds": empty_dispatch_seconds(threads),
        "kernels": [asdict(kernel) for kernel in dispatch_times(ours, shape, flags)],
    }


def _our_calls(program: Path, image: Any, threads: int) -> list[Contender]:
    """Calls through `load` on an array where numpy puts large ones, 16 bytes into a page, and aligned."""
    import numpy as np
    from iree.winograd.runtime import BUFFER_ALIGNMENT, load

    loaded = load(program, threads=threads)
    contenders = []
    for name, offset in (("ours", 16), ("ours-aligned", 0)):
        memory = np.empty(image.nbytes + 2 * BUFFER_ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % BUFFER_ALIGNMENT + offset
        array = memory[first : first + image.nbytes].view(image.dtype).reshape(image.shape)
        array[...] = image
        contenders.append(Contender(name, lambda array=array: loaded(array)))
    return contenders


def _line(row: dict[str, Any]) -> str:
    ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in row["ratios"].items())
    milliseconds = row["contenders"][row["best"]]["milliseconds"]
    return (
        f"{row['name']}, batch {row['batch']}, {row['threads']} thread(s): "
        f"{row['best']} {milliseconds:.3f} ms over {ratios}"
    )


if __name__ == "__main__":
    main()
