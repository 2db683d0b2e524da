"""One network in several tools, in one process: the error of each, and their times side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from iree.winograd.report.schema import DecisionReport, convolutions, is_left_to_iree
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.model_tools import TOOLS, Prepare, PreparedModel
from benchmarks.subject import Subject
from benchmarks.timing import Contender, time_interleaved

STOCK_TOOLS = ("iree", "iree-tiled")
IREE_TOOLS = ("ours", *STOCK_TOOLS)
_MAX_ROUNDS = 15


@dataclass(frozen=True)
class Convolutions:
    """How many of a program's convolutions got our kernels, and how many IREE's, by reason."""

    ours: int
    left: dict[str, int]


class Comparison:
    """What became of a network in each tool: a record by its name, with a `failure` if it has one."""

    def __init__(self, subject: Subject, threads: int, tools: Mapping[str, Prepare] = TOOLS) -> None:
        self._subject = subject
        self._threads = threads
        self._tools = tools
        self._prepared: dict[str, PreparedModel] = {}
        self.records: dict[str, dict[str, Any]] = {}

    def prepare(self, tools: Iterable[str], begin: Callable[[str], None] = lambda tool: None) -> None:
        """Import and compile the network in each tool, and run it once; `begin` is told of each before."""
        for tool in tools:
            begin(tool)
            try:
                prepared = self._tools[tool](self._subject, self._threads)
                error = self._subject.error(prepared.results())
            except Exception as failure:
                self.records[tool] = {"failure": _summary(failure)}
                continue
            self._prepared[tool] = prepared
            self.records[tool] = {
                "error": error,
                "import_seconds": prepared.import_seconds,
                "compile_seconds": prepared.compile_seconds,
                "size": prepared.size,
            }
            if prepared.report is not None:
                self.records[tool]["convolutions"] = asdict(count_convolutions(prepared.report))

    def programs(self) -> dict[str, bytes]:
        """What tools that were prepared load, by the name of the tool, of those that load a file."""
        prepared = self._prepared.items()
        return {tool: each.program() for tool, each in prepared if each.program is not None}

    def time(self, rounds: int, burst_seconds: float) -> None:
        """Time all that were prepared side by side, as `time_interleaved` does."""
        contenders = [Contender(tool, prepared.run) for tool, prepared in self._prepared.items()]
        self._record(time_interleaved(contenders, rounds=rounds, burst_seconds=burst_seconds))

    def time_within(
        self,
        seconds: float,
        burst_seconds: float,
        *,
        least_rounds: int = 1,
        clock: Callable[[], float] = perf_counter,
        probes: Sequence[Contender] = (),
    ) -> dict[str, Timing]:
        """Time what was prepared in as many rounds as fit into `seconds`, at least `least_rounds`.

        IREE alone is timed after the others, as long again: of networks that it takes seconds for, the others
        would have one round beside it. `probes` take turns with the others; their timings are returned.
        """
        probed: dict[str, Timing] = {}
        for is_stock in (False, True):
            tools = {
                name: prepared
                for name, prepared in self._prepared.items()
                if (name in STOCK_TOOLS) == is_stock
            }
            if tools:
                contenders = [Contender(tool, prepared.run) for tool, prepared in tools.items()]
                contenders += () if is_stock else probes
                round_seconds = sum(_round_seconds(each.run, burst_seconds) for each in contenders)
                rounds = min(_MAX_ROUNDS, max(least_rounds, math.floor(seconds / round_seconds)))
                timings = time_interleaved(
                    contenders, rounds=rounds, burst_seconds=burst_seconds, clock=clock
                )
                self._record({tool: timings[tool] for tool in tools})
                probed |= {name: timing for name, timing in timings.items() if name not in tools}
        return probed

    def _record(self, timings: dict[str, Timing]) -> None:
        for tool, timing in timings.items():
            self.records[tool] |= {
                "milliseconds": 1e3 * timing.median,
                "spread": timing.spread,
                "speedup": speedup(timings, tool),
            }


def count_convolutions(report: DecisionReport) -> Convolutions:
    """What a report says of a whole program."""
    left: dict[str, int] = {}
    found = convolutions(report)
    for convolution in found:
        if is_left_to_iree(convolution):
            left[convolution["reason"]] = left.get(convolution["reason"], 0) + 1
    return Convolutions(len(found) - sum(left.values()), left)


def speedup(timings: dict[str, Timing], tool: str) -> float | None:
    """How many times faster `tool` is than the best of the others that don't use IREE; None without one."""
    others = [timing.median for name, timing in timings.items() if name not in (tool, *IREE_TOOLS)]
    return min(others) / timings[tool].median if others else None


def _round_seconds(run: Callable[[], Any], burst_seconds: float) -> float:
    """A call that isn't timed, and a burst that ends with the call in which its time is over."""
    begin = perf_counter()
    run()
    return 2 * (perf_counter() - begin) + burst_seconds


def _summary(failure: Exception) -> str:
    lines = [line for line in str(failure).splitlines() if line.strip()]
    return f"{type(failure).__name__}: {lines[0] if lines else ''}"
