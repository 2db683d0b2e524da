"""Steps of training, forward, backward and SGD, with this project's backend beside Inductor and eager.

    python -m benchmarks.training --networks resnet18 --batch 16 --output build/training.json

Each contender first takes steps in a process of its own, which fills the caches, and again in another one,
whose peak memory is what it then needs. At last all of them take turns in one process, caches being full.
Gradients of the first step are compared with eager's in double precision. The ratio is of the fastest of the
others and ours. With `--folder` the caches stay for another run.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import statistics
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.compile_contenders import (
    EAGER,
    OURS,
    allow_compilations,
    answer_of,
    keep_inductors_cache_in,
    keep_our_cache_in,
    ratio,
)
from benchmarks.isolation import answer_task
from benchmarks.networks.catalog import NETWORKS
from benchmarks.timing import Contender, time_interleaved

if TYPE_CHECKING:
    import torch

_CHANNELS_LAST = "-channels-last"
_COMPILED: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    OURS: {"backend": OURS},
    f"{OURS}-and-inductor": {"backend": OURS, "options": {"fallback": "inductor"}},
}
"""Arguments of `torch.compile`."""
_CONTENDERS = tuple(name + layout for name in (EAGER, *_COMPILED) for layout in ("", _CHANNELS_LAST))
_STEPS = 3
"""Of a process that tells its memory."""


@dataclass(frozen=True)
class Task:
    """A network for `contender` to take steps of, or for all of them to be timed where that is None."""

    network: str
    threads: int
    batch: int
    rounds: int
    folder: str
    contenders: tuple[str, ...]
    contender: str | None = None


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["resnet18"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", nargs="+", choices=_CONTENDERS, default=_CONTENDERS)
    parser.add_argument("--folder", type=Path, help="where caches stay; by default they go")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for threads in options.threads:
            kept = nullcontext(options.folder)
            with kept if options.folder else tempfile.TemporaryDirectory() as folder:
                size = network, threads, options.batch, options.rounds
                rows.append(_row(Task(*size, str(Path(folder).absolute()), tuple(options.contenders))))
            print(_line(rows[-1]), flush=True)
            if options.output is not None:
                options.output.write_text(json.dumps({"training": rows}, indent=1) + "\n")


def _row(task: Task) -> dict[str, Any]:
    memory = {}
    for contender in task.contenders:
        own = replace(task, contender=contender)
        _run(own)
        memory[contender] = _run(own).get("mebibytes")
    row = {**asdict(task), "mebibytes": memory, **_run(task)}
    if (found := ratio(row.get("milliseconds", {}))) is not None:
        row["ratio"] = found
    return row


def _run(task: Task) -> dict[str, Any]:
    subject = f"{task.network}, {task.contender or 'timing'}"
    return answer_of("benchmarks.training", asdict(task), task.threads, subject)


def _line(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {value:.0f}" for name, value in row.get("milliseconds", {}).items())
    errors = ", ".join(f"{name} {value:.1e}" for name, value in row.get("errors", {}).items())
    memory = ", ".join(f"{name} {value:.0f}" for name, value in row["mebibytes"].items() if value)
    ratio = f"{row['ratio']:.2f}x" if "ratio" in row else "no ratio"
    return (
        f"{row['network']}, batch {row['batch']}, {row['threads']} thread(s): {ratio}; ms: {times}; "
        f"peak MiB of a process: {memory}; errors of gradients: {errors}"
    )


def _work(task: Task) -> dict[str, Any]:
    keep_our_cache_in(task.folder)
    keep_inductors_cache_in(task.folder, "inductor")
    import torch

    torch.set_num_threads(task.threads)
    if task.contender is None:
        return _time(task)
    trainer = Trainer(task, task.contender)
    for _ in range(_STEPS):
        trainer.step()
    # Of this process, and Linux counts in KiB.
    return {"mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


class Trainer:
    """A network, as any other from the same seed, with its optimizer and a batch of random images."""

    def __init__(self, task: Task, contender: str) -> None:
        import torch

        torch.manual_seed(0)
        name = contender.removesuffix(_CHANNELS_LAST)
        layout = torch.contiguous_format if name == contender else torch.channels_last
        network = NETWORKS[task.network]
        self.model = network.build().train().to(memory_format=layout)  # type: ignore[call-overload]
        self.images = torch.randn(task.batch, *network.input_shape).to(memory_format=layout)
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self._function: Callable[..., Any] = self.model
        if name != EAGER:
            self._function = torch.compile(self.model, **_COMPILED[name])

    def step(self) -> None:
        """Forward, backward, and the optimizer's step."""
        self._optimizer.zero_grad()
        self.loss(self._function, self.images).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def loss(self, function: Callable[..., Any], images: torch.Tensor) -> torch.Tensor:
        """The cross entropy, all images being of the first class."""
        import torch

        classes = torch.zeros(len(images), dtype=torch.int64)
        return torch.nn.functional.cross_entropy(function(images), classes)

    def gradients(self) -> list[torch.Tensor]:
        """What the last step computed, by the parameters."""
        return [value.grad for value in self.model.parameters() if value.grad is not None]


def _time(task: Task) -> dict[str, Any]:
    allow_compilations(len(task.contenders))
    trainers = {name: Trainer(task, name) for name in task.contenders}
    exact = _exact_gradients(next(iter(trainers.values())))
    errors = {}
    for name, trainer in trainers.items():
        trainer.step()
        pairs = zip(trainer.gradients(), exact, strict=True)
        errors[name] = statistics.median(_error(ours, theirs) for ours, theirs in pairs)
    contenders = [Contender(name, trainer.step) for name, trainer in trainers.items()]
    timings = time_interleaved(contenders, rounds=task.rounds)
    return {
        "milliseconds": {name: 1e3 * timing.median for name, timing in timings.items()},
        "errors": errors,
    }


def _exact_gradients(trainer: Trainer) -> list[torch.Tensor]:
    exact = copy.deepcopy(trainer.model).double()
    trainer.loss(exact, trainer.images.double()).backward()  # type: ignore[no-untyped-call]
    return [value.grad for value in exact.parameters() if value.grad is not None]


def _error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value - exact).norm() / exact.norm())


if __name__ == "__main__":
    main()
