"""Runs a function of a module in a process of its own, so that no failure of a tool ends more than that.

`run_isolated` waits for it to end; a `Conversation` asks it for one thing after the other. `side_by_side`
keeps the cores busy with such processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

from iree.winograd.pipelines.machines.host import one_processor_per_core

_PREFIX = "@"


@dataclass(frozen=True)
class Limits:
    """`seconds` of time, `memory` in bytes and the `processors` to stay on; None is no limit."""

    seconds: float | None = None
    memory: int | None = None
    processors: frozenset[int] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a process told before it ended, and why it didn't end well, if so."""

    messages: tuple[dict[str, Any], ...]
    failure: str | None


def run_isolated(
    module: str, task: dict[str, Any], *, threads: int = 1, limits: Limits | None = None
) -> Outcome:
    """Run `python -m MODULE TASK`, the task as JSON, with libraries set to so many threads."""
    limits = limits or Limits()
    process = subprocess.Popen(
        _command(module, task),
        env=_environment(threads),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _apply(limits),
    )
    try:
        output, errors = process.communicate(timeout=limits.seconds)
        failure = _failure(process.returncode, errors)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        failure = f"took more than {limits.seconds:.0f} s"
    told = [line[len(_PREFIX) :] for line in output.splitlines() if line.startswith(_PREFIX)]
    return Outcome(tuple(map(json.loads, told)), failure)


class Conversation:
    """A process of `python -m MODULE TASK` that is asked for one thing after the other.

    It tells something when it is ready, and then for each `ask`: its work goes through `questions`. It is set
    to so many threads, stays on `processors`, and has further environment `variables`.
    """

    def __init__(
        self,
        module: str,
        task: dict[str, Any],
        *,
        threads: int = 1,
        processors: frozenset[int] | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        limits = Limits(processors=processors)
        self._process = subprocess.Popen(
            _command(module, task),
            env={**_environment(threads), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: _apply(limits),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def end(self) -> None:
        """Kill the process: who waits for an answer, in whatever thread, gets none."""
        self._process.kill()
        self._process.wait()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """What the process tells of a question. Raises EOFError when it has ended."""
        assert self._process.stdin is not None
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise EOFError(f"ended with exit code {self._process.wait()}") from None
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """What the process tells next. Raises EOFError when it has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_PREFIX):
                answer: dict[str, Any] = json.loads(line[len(_PREFIX) :])
                return answer
        raise EOFError(f"ended with exit code {self._process.wait()}")


def questions() -> Iterator[dict[str, Any]]:
    """What the `Conversation` that started this process asks, until it ends."""
    yield from map(json.loads, sys.stdin)


def side_by_side(
    names: Iterable[str],
    work: Callable[[str, frozenset[int]], None],
    *,
    jobs: int,
    seconds: float,
    threads: int = 1,
) -> None:
    """Do `work` on each name, `jobs` at once, each on the processors that it is given, one for each thread.

    At most one is on a core. After so many `seconds` none is begun. Raises ValueError where there are fewer
    cores than `threads`.
    """
    cores: queue.SimpleQueue[frozenset[int]] = queue.SimpleQueue()
    processors = one_processor_per_core()
    if len(processors) < threads:
        raise ValueError(f"{threads} threads need as many cores, and there are {len(processors)}")
    for job in range(min(jobs, len(processors) // threads)):
        cores.put(frozenset(processors[job * threads : (job + 1) * threads]))
    end = time.monotonic() + seconds

    def on_core(name: str) -> None:
        core = cores.get()
        try:
            if time.monotonic() < end:
                work(name, core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        for finished in [pool.submit(on_core, name) for name in names]:
            finished.result()


def compared(
    module: str,
    task: Callable[[tuple[str, ...]], dict[str, Any]],
    tools: Iterable[str],
    *,
    threads: int = 1,
    limits: Limits,
) -> dict[str, Any]:
    """What a process of `module` tells last of a comparison of tools, without those that end it.

    `task` is the task for so many of them. The process tells which tool it `begins` with, and then a row that
    has a record for each of its `tools`.
    """
    failures: dict[str, Any] = {}
    while True:
        left = tuple(tool for tool in tools if tool not in failures)
        outcome = run_isolated(module, task(left), threads=threads, limits=limits)
        *_, last = [{}, *outcome.messages]
        if "tools" in last:
            # Without times if it was timing that failed.
            failure = {} if outcome.failure is None else {"failure": outcome.failure}
            return {**last, **failure, "tools": failures | last["tools"]}
        if "begins" not in last:
            return {"failure": outcome.failure, "tools": failures}
        failures[last["begins"]] = {"failure": outcome.failure}


def answer_task(work: Callable[[dict[str, Any]], dict[str, Any] | None]) -> bool:
    """Whether one of the above started this process; `work` is then given the task, and its result told."""
    if len(sys.argv) != 2 or not sys.argv[1].startswith("{"):
        return False
    result = work(json.loads(sys.argv[1]))
    if result is not None:
        tell(result)
    return True


def tell(message: dict[str, Any]) -> None:
    """Send a message to the process that started this one."""
    print(_PREFIX + json.dumps(message), flush=True)


def _command(module: str, task: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", module, json.dumps(task)]


def _environment(threads: int) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


def _apply(limits: Limits) -> None:
    if limits.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
    if limits.processors is not None:
        os.sched_setaffinity(0, limits.processors)


def _failure(code: int, errors: str) -> str | None:
    if code == 0:
        return None
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"
