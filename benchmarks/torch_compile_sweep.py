"""Calls `torch.compile(backend="winograd")` as programs do, on a network of each family of the zoos.

    python -m benchmarks.torch_compile_sweep --jobs 16 --output build/sweep.json
    python -m benchmarks.torch_compile_sweep --jobs 16 --failures --output build/failures.json
    python -m benchmarks.report build/sweep.json build/failures.json

The zoos are those of pytorchcv and timm. Each network is called with batches of 2, 3 and 1, then with images
of another size, where it takes them. Options are as they are by default, the cache is empty, and each network
has a process of its own on a core of its own. Errors are those of a call's outputs, |result - exact| /
|exact| in the 2-norm, against eager in double precision. Times are of calls after the first ones, in turns
with eager ones. With `--failures` every step fails once, on networks that take little: neither may there be
an exception, nor a result that is off.
Networks that the output already has are skipped, so that a run can be continued.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from benchmarks.compile_contenders import (
    CALLS_UNTIL_DECIDED,
    EAGER,
    OURS,
    keep_inductors_cache_in,
    keep_our_cache_in,
)
from benchmarks.isolation import Limits, answer_task, run_isolated, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved
from benchmarks.torch_compile_report import failures_of_call, failures_of_step
from benchmarks.torch_compile_zoo import largest_error

if TYPE_CHECKING:
    import torch

    from benchmarks.failing_steps import Step
    from benchmarks.networks.network import Network

TITLE, FAILURES_TITLE = "torch_compile_sweep", "torch_compile_failures"

BATCHES = (2, 3, 1)
_ROUNDS, _BURST_SECONDS = 5, 0.02
_PARTS_OF_SIZE = (0.5, 0.625, 0.75, 1.0, 1.125)
"""Of the size that a network is made for: it is called with the first ones that it takes."""


@dataclass(frozen=True)
class Task:
    """A network to call, the folder of the caches, and whether steps are to fail."""

    network: str
    folder: str
    failures: bool


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    from benchmarks.networks.sweep import FAMILIES, SMALL_FAMILIES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=FAMILIES, metavar="NETWORK")
    parser.add_argument("--failures", action="store_true", help="have each step fail once")
    parser.add_argument("--jobs", type=int, default=1, help="networks at once, at most one per core")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a network")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--memory", type=float, default=16, help="GiB for a network")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, FAILURES_TITLE if options.failures else TITLE)
    networks = options.networks or (SMALL_FAMILIES if options.failures else FAMILIES)

    def call(network: str, processors: frozenset[int]) -> None:
        row = _row(network, options, processors)
        results.add(network, row)
        print(f"{network}: {_summary(row)}", flush=True)

    side_by_side(
        [name for name in networks if name not in results.rows],
        call,
        jobs=options.jobs,
        seconds=options.budget,
    )


def _row(network: str, options: argparse.Namespace, processors: frozenset[int]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_isolated(
            "benchmarks.torch_compile_sweep",
            asdict(Task(network, folder, options.failures)),
            limits=Limits(options.limit, int(options.memory * 2**30), processors),
        )
    *_, row = [{}, *outcome.messages]
    return row if outcome.failure is None else {**row, "failure": outcome.failure}


def _summary(row: dict[str, Any]) -> str:
    found = [text for call in row.get("calls", ()) for text in failures_of_call(call)]
    found += [text for step in row.get("steps", ()) for text in failures_of_step(step)]
    if "failure" in row:
        found.append(row["failure"])
    count = len(row.get("calls", ())) or len(row.get("steps", ()))
    return f"{count}, {'; '.join(found) or 'holds'}"


def _work(task: Task) -> None:
    keep_our_cache_in(task.folder)
    keep_inductors_cache_in(task.folder, "inductor")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import torch

    from benchmarks.networks.sweep import FAMILIES

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    network = FAMILIES[task.network]
    model = network.calibrated()
    inputs = _inputs(network, model)
    if task.failures:
        _fail_each_step(model, inputs[0])
    else:
        _call_each(model, inputs)


def _inputs(network: Network, model: torch.nn.Module) -> list[torch.Tensor]:
    """Images of the batches, and of another size where `model` takes it."""
    import torch

    channels, *size = network.input_shape
    if len(size) != 2 or channels not in (1, 3):
        return [network.input(batch) for batch in BATCHES]
    sizes: list[tuple[int, ...]] = []
    for part in _PARTS_OF_SIZE:
        shape = tuple(_rounded(part * each) for each in size) if part != 1 else tuple(size)
        if shape not in sizes and len(sizes) < 2 and _takes(model, torch.randn(1, channels, *shape)):
            sizes.append(shape)
    first, *others = sizes or [tuple(size)]
    return [
        *(torch.randn(batch, channels, *first) for batch in BATCHES),
        *(torch.randn(BATCHES[0], channels, *other) for other in others),
    ]


def _rounded(length: float) -> int:
    """To what layers with strides divide."""
    divisor = 32 if length >= 64 else 8
    return divisor * round(length / divisor)


def _takes(model: torch.nn.Module, images: torch.Tensor) -> bool:
    """Whether eager `model` computes anything from images of this size."""
    try:
        model(images)
    except Exception:
        return False
    return True


def _call_each(model: torch.nn.Module, inputs: list[torch.Tensor]) -> None:
    import torch

    in_double = copy.deepcopy(model).double()
    compiled = torch.compile(model, backend=OURS)
    calls: list[dict[str, Any]] = []
    for given in inputs:
        calls.append(_call(model, in_double, compiled, given))
        tell({"calls": calls})
        _time(calls[-1], {OURS: partial(compiled, given), EAGER: partial(model, given)})
        tell({"calls": calls})


def _call(
    model: torch.nn.Module, in_double: torch.nn.Module, compiled: Callable[..., Any], given: torch.Tensor
) -> dict[str, Any]:
    """The first call with an input of its shape, and what is wrong with it."""
    expected, exact = model(given), in_double(given.double())
    call: dict[str, Any] = {"shape": list(given.shape), "eager_error": largest_error([expected], [exact])}
    with _noted_warnings(call):
        begin = time.perf_counter()
        try:
            result = compiled(given)
        except Exception as error:
            call["exception"] = _text(error)
            return call
        call["seconds"] = time.perf_counter() - begin
    call["error"] = largest_error([result], [exact])
    return call


def _time(call: dict[str, Any], contenders: dict[str, Callable[[], Any]]) -> None:
    if "exception" in call:
        return
    with _noted_warnings(call):
        try:
            for _ in range(CALLS_UNTIL_DECIDED):
                contenders[OURS]()
            timings = time_interleaved(
                [Contender(name, run) for name, run in contenders.items()],
                rounds=_ROUNDS,
                burst_seconds=_BURST_SECONDS,
            )
        except Exception as error:
            call["exception"] = _text(error)
            return
    call["milliseconds"] = {name: 1e3 * timing.median for name, timing in timings.items()}


def _fail_each_step(model: torch.nn.Module, given: torch.Tensor) -> None:
    from benchmarks.failing_steps import CALLING, COMPILING, SAVING_TIME, step_name

    expected, exact = model(given), copy.deepcopy(model).double()(given.double())
    eager_error = largest_error([expected], [exact])
    steps: list[dict[str, Any]] = []
    for kind in (SAVING_TIME, COMPILING, CALLING):
        for step in kind:
            row: dict[str, Any] = {"step": step_name(step), "eager_error": eager_error}
            with _noted_warnings(row):
                try:
                    results = _results_with_failure(
                        model, given, step, is_called=kind is CALLING, is_kept=kind is SAVING_TIME
                    )
                    row["error"] = max(largest_error([result], [exact]) for result in results)
                except Exception as error:
                    row["exception"] = _text(error)
            row["warns"] = kind is not SAVING_TIME
            steps.append(row)
            tell({"steps": steps})


def _results_with_failure(
    model: torch.nn.Module, given: torch.Tensor, step: Step, *, is_called: bool, is_kept: bool
) -> list[Any]:
    """Of two calls, the first of which fails at `step`; of steps of calls it is the second.

    Programs that other steps have left in the cache are loaded, except where the graph that they are of
    would be kept as well, or compiling is what fails.
    """
    import torch
    from iree.winograd.torch_compile.graph_compiler import GraphCompiler

    from benchmarks.failing_steps import fail

    torch._dynamo.reset()
    cache = step[1] not in ("compile", "lower_graph", "lower_program")
    compiled = torch.compile(model, backend=OURS, options={"fallback": "eager", "cache": cache})
    failing = mock.patch.object(*step, fail)
    if is_kept:
        with failing:
            return [compiled(given), compiled(given)]
    with mock.patch.object(GraphCompiler, "_graph_key", return_value=None):
        results = [compiled(given)] if is_called else []
        with failing:
            return [*results, *(compiled(given) for _ in range(2 - len(results)))]


@contextmanager
def _noted_warnings(row: dict[str, Any]) -> Iterator[None]:
    """Add warnings of what is left to the fallback to those of `row`."""
    from iree.winograd.torch_compile.fallback_warning import FallbackWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FallbackWarning)
        yield
    row["warnings"] = [*row.get("warnings", ()), *(str(each.message) for each in caught)]


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()[:2000]}"


if __name__ == "__main__":
    main()
