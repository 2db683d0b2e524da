"""Times layers and networks on one thread, two, and so on to all cores, beside the other tools.

    python -m benchmarks.threads --jobs 16 --compile-only
    python -m benchmarks.threads --jobs 16 --budget 300 --output benchmarks/results/threads.json
    python -m benchmarks.threads_figure benchmarks/results/threads.json docs/measurements/threads.svg

A row is a layer or network at one batch size on so many threads; rows that the output already has are
skipped, so that a run can be continued. Each tool has a process of its own, and all take turns: threads that
spin when their work is done have gone to sleep before another tool begins. One thread is on the same
processor in all of them. Ours is called through `load` on an array as numpy allocates it ("ours") and on one
aligned to 64 bytes ("ours-aligned"), and runs in `iree-benchmark-module` ("ours-runner"). Of what takes time
in there, the rows hold what IREE's own statistics tell, and what a dispatch without work takes. "limits" is
what as many threads multiply in registers, and read, and from that the least that the chosen algorithms
could take. Arguments of the other tools are bound beforehand.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from iree.winograd.atomic_file import atomic_file
from iree.winograd.pipelines.machines.host import physical_cores
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.isolation import Conversation, answer_task, run_isolated
from benchmarks.limits import ThreadProbes, filters_of, layers_of
from benchmarks.one_processor import on_one_processor
from benchmarks.thread_tools import PEERS, TOOLS, Preparation, Turn, take_turns

COMPILERS = ("ours", "iree", "iree-tiled")
OURS = ("ours", "ours-aligned", "ours-runner")
_PAUSE_SECONDS = 0.05
"""Between turns. Threads that wait for work spin for some milliseconds at most."""


@dataclass(frozen=True)
class Compilation:
    """A program that a process compiles."""

    name: str
    batch: int
    threads: int
    programs: str
    compiler: str


@dataclass(frozen=True)
class Rows:
    """A subject at a batch size, on numbers of threads."""

    name: str
    batch: int
    threads: tuple[int, ...]

    def row_name(self, threads: int) -> str:
        return f"{self.name} batch {self.batch} threads {threads}"


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


class Tools:
    """A process for each tool, in which a subject is prepared for some numbers of threads."""

    def __init__(self, rows: Rows, programs: Path, tools: Iterable[str], stack: ExitStack) -> None:
        preparations = {
            tool: Preparation(rows.name, rows.batch, rows.threads, str(programs), tool) for tool in tools
        }
        self._conversations = {
            tool: stack.enter_context(
                Conversation("benchmarks.threads", asdict(preparation), threads=max(rows.threads))
            )
            for tool, preparation in preparations.items()
        }
        self.failures: dict[str, dict[str, str]] = {}
        self.shape: tuple[int, ...] = ()
        self._programs: dict[str, str] = {}

    def wait(self) -> None:
        """Return when all are prepared; those that failed are left out."""
        for tool, conversation in list(self._conversations.items()):
            try:
                ready = conversation.answer()
            except EOFError as error:
                self.failures[tool] = {"failure": str(error)}
                del self._conversations[tool]
                continue
            self.failures |= ready["failures"]
            if tool == "ours":
                self._programs, self.shape = ready["programs"], ready["shape"]

    def program(self, threads: int) -> Path:
        """Ours for so many threads. Raises EOFError when it couldn't be prepared."""
        if "ours" in self.failures:
            raise EOFError(self.failures["ours"]["failure"])
        return Path(self._programs[str(threads)])

    def turns(self, turn: Turn) -> Iterator[dict[str, float]]:
        """Median seconds of the contenders of each tool, which take turns in their order or its reverse."""
        conversations = list(self._conversations.values())
        for conversation in conversations[::-1] if turn.backwards else conversations:
            time.sleep(_PAUSE_SECONDS)
            yield conversation.ask(asdict(turn))

    def empty_dispatch_seconds(self, threads: int) -> float:
        time.sleep(_PAUSE_SECONDS)
        seconds: float = self._conversations["ours"].ask({"empty": threads})["seconds"]
        return seconds


def main() -> None:
    if answer_task(_work):
        return
    options = _parse_arguments()
    deadline = time.time() + options.budget
    results = Results(options.output)
    rows = list(_missing(options, results))
    if options.compile_only:
        _compile(rows, options, deadline)
        return
    if options.ahead:
        _time_side_by_side(rows, options, deadline, results)
        return
    for each in rows:
        _time_side_by_side([each], options, deadline, results)


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
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, help="ours among them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.05, help="seconds of a contender's turn in a round")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no row is begun")
    parser.add_argument(
        "--ahead",
        action="store_true",
        help="prepare all subjects at once, then time all on one number of threads after the other",
    )
    parser.add_argument(
        "--programs", type=Path, default=Path("build/threads"), help="folder of compiled ones"
    )
    parser.add_argument("--compile-only", action="store_true", help="fill that folder, and time nothing")
    parser.add_argument("--jobs", type=int, default=1, help="programs compiled at once by --compile-only")
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/threads.json")
    options = parser.parse_args()
    if "ours" not in options.tools or not set(PEERS) & set(options.tools):
        parser.error("--tools needs ours, and another to compare it with")
    return options


def _missing(options: argparse.Namespace, results: Results) -> Iterator[Rows]:
    """The rows that the results don't have yet."""
    for batch in options.batch:
        for name in options.subjects:
            rows = Rows(name, batch, tuple(options.threads))
            left = tuple(threads for threads in rows.threads if rows.row_name(threads) not in results.rows)
            if left:
                yield replace(rows, threads=left)


def _compile(rows: Iterable[Rows], options: argparse.Namespace, deadline: float) -> None:
    compilations = list(_compilations(rows, options))
    # Those that take long come first, so that no core is left with one when the others are done.
    compilations.sort(key=lambda task: (task.name[0].isdigit(), -task.batch))

    def compile_one(task: Compilation) -> None:
        if time.time() >= deadline:
            return
        outcome = run_isolated("benchmarks.threads", asdict(task))
        if outcome.failure is not None:
            print(f"{task.name}, batch {task.batch}, {task.compiler}: {outcome.failure}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(compile_one, compilations))


def _compilations(rows: Iterable[Rows], options: argparse.Namespace) -> Iterator[Compilation]:
    for each in rows:
        for compiler in COMPILERS:
            if compiler.partition("-")[0] not in options.tools:
                continue
            # Only ours differs by the number of threads.
            for threads in each.threads if compiler == "ours" else each.threads[:1]:
                yield Compilation(each.name, each.batch, threads, str(options.programs), compiler)


def _work(task: dict[str, Any]) -> None:
    if "tool" in task:
        take_turns(Preparation(**{**task, "threads": tuple(task["threads"])}))
        return
    from benchmarks.thread_subjects import thread_subject

    compilation = Compilation(**task)
    thread_subject(compilation.name, compilation.batch).compiled(
        Path(compilation.programs),
        f"{compilation.name}-{compilation.batch}",
        compilation.compiler,
        compilation.threads,
    )


def _time_side_by_side(
    all_rows: Sequence[Rows], options: argparse.Namespace, deadline: float, results: Results
) -> None:
    """Prepare the subjects side by side, and time them on one number of threads after the other."""
    if time.time() >= deadline:
        return
    with ExitStack() as stack:
        prepared = {rows: Tools(rows, options.programs, options.tools, stack) for rows in all_rows}
        for tools in prepared.values():
            tools.wait()
        for threads in options.threads:
            for rows, tools in prepared.items():
                if threads not in rows.threads or time.time() >= deadline:
                    continue
                try:
                    results.add(measure_row(rows, tools, threads, options.rounds, options.burst))
                except EOFError as error:
                    print(f"{rows.row_name(threads)}: {error}", flush=True)


def measure_row(rows: Rows, tools: Tools, threads: int, rounds: int, burst_seconds: float) -> dict[str, Any]:
    """What a subject takes on so many threads in each tool. Raises EOFError when one ends."""
    from benchmarks.stock_runner import dispatch_times, runner_flags, runner_seconds

    program, flags = tools.program(threads), runner_flags(threads)
    samples: dict[str, list[float]] = {}
    for number in range(rounds):
        turn = Turn(threads, burst_seconds, backwards=number % 2 == 1)
        taken = {name: seconds for each in tools.turns(turn) for name, seconds in each.items()}
        time.sleep(_PAUSE_SECONDS)
        with on_one_processor() if threads == 1 else nullcontext():
            taken["ours-runner"] = runner_seconds(program, tools.shape, flags, burst_seconds)
        for name, seconds in taken.items():
            samples.setdefault(name, []).append(seconds)
    timings = {name: Timing(tuple(seconds)) for name, seconds in samples.items()}
    best = min(
        (name for name in timings if not name.startswith(("ours", "iree", "limit"))),
        key=lambda name: timings[name].median,
    )
    return {
        "name": rows.name,
        "batch": rows.batch,
        "threads": threads,
        "contenders": {
            name: {"milliseconds": 1e3 * timing.median, "spread": timing.spread}
            for name, timing in timings.items()
        }
        | tools.failures,
        "best": best,
        "ratios": {name: timings[best].median / timings[name].median for name in OURS},
        "limit": _limit(program, rows.batch, timings, threads),
        "program_bytes": program.stat().st_size,
        "empty_dispatch_seconds": tools.empty_dispatch_seconds(threads),
        "kernels": [asdict(kernel) for kernel in dispatch_times(program, tools.shape, flags)],
    }


def _limit(program: Path, batch: int, timings: Mapping[str, Timing], threads: int) -> dict[str, Any] | None:
    """The least that the layers of a program take at the rates of this row's turns; None where none was
    measured. They are medians, as all times are: what a machine does at its best says little of the others.
    """
    if not set(ThreadProbes.names) <= set(timings):
        return None
    layers = layers_of(program.with_suffix(".json"), batch)
    filters = filters_of(layers)
    limits = ThreadProbes(threads, filters).limits(
        {name: timings[name].median for name in ThreadProbes.names}
    )
    return asdict(limits) | {
        "milliseconds": 1e3 * limits.seconds(layers),
        "operations": sum(layer.operations for layer in layers),
        "filter_bytes": filters,
    }


def _line(row: Mapping[str, Any]) -> str:
    ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in row["ratios"].items())
    milliseconds = row["contenders"][row["best"]]["milliseconds"]
    return (
        f"{row['name']}, batch {row['batch']}, {row['threads']} thread(s): "
        f"{row['best']} {milliseconds:.3f} ms over {ratios}"
    )


if __name__ == "__main__":
    main()
