"""What programs take on other numbers of threads than they are compiled for.

    python -m benchmarks.other_threads --compiled 16 4 --threads 16 8 4 --output build/other-threads.json

For each subject and number of threads the programs compiled for these and for others take turns, called
through `load`. Printed are the times, and those of the others over that of the one compiled for the threads.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.isolation import answer_task, run_isolated, tell
from benchmarks.timing import Contender, time_interleaved


@dataclass(frozen=True)
class Task:
    """A subject at a batch size, programs compiled for numbers of threads, and those that they run on."""

    name: str
    batch: int
    compiled: tuple[int, ...]
    threads: tuple[int, ...]
    programs: str
    rounds: int


def main() -> None:
    if answer_task(_measure):
        return
    from benchmarks.thread_subjects import NAMES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subjects", nargs="+", choices=NAMES, default=list(NAMES), metavar="SUBJECT")
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--compiled", nargs="+", type=int, required=True, help="numbers of threads")
    parser.add_argument("--threads", nargs="+", type=int, required=True, help="those to run on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=Path, default=Path("build/threads"))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for batch in options.batch:
        for name in options.subjects:
            threads, compiled = tuple(options.threads), tuple(options.compiled)
            task = Task(name, batch, compiled, threads, str(options.programs), options.rounds)
            outcome = run_isolated("benchmarks.other_threads", asdict(task), threads=max(threads))
            rows += outcome.messages
            for row in outcome.messages:
                print(_line(row), flush=True)
            if outcome.failure is not None:
                print(f"{name}, batch {batch}: {outcome.failure}", flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps({"other_threads": rows}, indent=1) + "\n")


def _measure(task: dict[str, Any]) -> None:
    from iree.winograd.loading.runtime import load

    from benchmarks.thread_subjects import thread_subject

    subject = thread_subject(task["name"], task["batch"])
    for threads in task["threads"]:
        contenders = []
        for compiled in sorted({threads, *task["compiled"]}):
            program = subject.compiled(
                Path(task["programs"]), f"{task['name']}-{task['batch']}", "ours", compiled
            )
            contenders.append(
                Contender(str(compiled), partial(load(program, threads=threads), subject.image))
            )
        timings = time_interleaved(contenders, rounds=task["rounds"])
        own = timings[str(threads)].median
        tell(
            {
                "name": task["name"],
                "batch": task["batch"],
                "threads": threads,
                "milliseconds": {compiled: 1e3 * timing.median for compiled, timing in timings.items()},
                "over_own": {compiled: timing.median / own for compiled, timing in timings.items()},
            }
        )


def _line(row: dict[str, Any]) -> str:
    times = ", ".join(
        f"for {compiled} {row['milliseconds'][compiled]:.3f} ({over:.2f})"
        for compiled, over in row["over_own"].items()
    )
    return f"{row['name']}, batch {row['batch']}, on {row['threads']} thread(s), compiled {times}"


if __name__ == "__main__":
    main()
