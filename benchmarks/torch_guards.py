"""What torch.compile takes of a call before and after a backend's function: microseconds of the host.

    python -m benchmarks.torch_guards --jobs 2 --output build/torch-guards.json
    python -m benchmarks.torch_guards --networks timm_resnet18 --device cuda

The backend returns what it has, so that all time is torch's: its guards, which say whether what it compiled
is valid, and what else it does, most of which is to take weights out of modules, each of which is an argument
of the backend's function. With all guards, with `iree.winograd.fewer_guards`, and with none, which nobody
should want. Each has a process of its own, since two models of a class may be one to torch. Times are of the
processor, the least of some hundred rounds; on a GPU nothing is launched.
"""

from __future__ import annotations

import argparse
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import iree.winograd

from benchmarks.isolation import Limits, answer_task, run_isolated, side_by_side, tell
from benchmarks.results_file import ResultsFile

TITLE = "torch_guards"

_CALLS, _ROUNDS = 20, 200
_ALL, _FEWER, _NONE = "all", "fewer", "none"
_KEPT: Mapping[str, Callable[[Sequence[Any]], Sequence[bool]] | None] = MappingProxyType(
    {_ALL: None, _FEWER: iree.winograd.fewer_guards, _NONE: lambda guards: [False for _ in guards]}
)
"""Which guards torch keeps, by the name of the variant."""
_NETWORKS = ("resnet18", "mobilenetv3_large_100", "efficientnet_b0", "convnext_tiny", "densenet121")


@dataclass(frozen=True)
class Task:
    """A network to call with one image on a device."""

    network: str
    guards: str
    device: str


def main() -> None:
    if answer_task(lambda task: tell(_measured(Task(**task)))):
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    networks = [f"timm_{name}" for name in _NETWORKS]
    parser.add_argument("--networks", nargs="+", default=networks, metavar="NETWORK")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    tasks = {
        f"{network} {guards}": Task(network, guards, options.device)
        for network in options.networks
        for guards in _KEPT
    }

    def work(name: str, processors: frozenset[int]) -> None:
        outcome = run_isolated(
            "benchmarks.torch_guards", asdict(tasks[name]), limits=Limits(None, None, processors)
        )
        if outcome.failure is not None:
            print(f"{name} guards: {outcome.failure[-300:]}", flush=True)
            return
        (row,) = outcome.messages
        results.add(name, row)
        print(
            f"{name} guards: {row['call']:.0f} us of a call with {row['arguments']} arguments, "
            f"{row['guards_of_call']:.0f} of them by {row['kept']} guards",
            flush=True,
        )

    side_by_side(tasks, work, jobs=options.jobs, seconds=math.inf)


def _measured(task: Task) -> dict[str, Any]:
    import torch

    from benchmarks.networks.gpu import NETWORKS

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    network = NETWORKS[task.network]
    model = network.build().eval().to(task.device, memory_format=torch.channels_last)
    inputs = [each.to(task.device) for each in network.inputs(1)]
    result = model(*inputs)
    assert isinstance(result, torch.Tensor)
    taken: list[int] = []
    seen: list[int] = []

    def backend(graph: Any, examples: Sequence[Any]) -> Callable[..., Any]:
        taken.append(len(examples))
        return lambda *arguments: (result,)

    def kept(guards: Sequence[Any]) -> Sequence[bool]:
        keep = _KEPT[task.guards]
        told = [True for _ in guards] if keep is None else keep(guards)
        seen.append(sum(told))
        return told

    compiled = torch.compile(model, backend=backend, options={"guard_filter_fn": kept})
    compiled(*inputs)
    (arguments,) = taken
    call = _microseconds(lambda: compiled(*inputs))
    entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(type(model).forward.__code__)
    (manager,) = (entry.guard_manager for entry in entries)
    names = {"self": model, **inspect.signature(model.forward).bind(*inputs).arguments}
    return {
        **asdict(task),
        "torch": torch.__version__,
        "checks_dict_tags": torch._dynamo.config.use_recursive_dict_tags_for_guards,
        "kept": seen[-1],
        "arguments": arguments,
        "call": call,
        "guards_of_call": _microseconds(lambda: manager.check(names)),
    }


def _microseconds(run: Callable[[], Any]) -> float:
    least = math.inf
    for _ in range(_ROUNDS):
        begin = time.process_time_ns()
        for _ in range(_CALLS):
            run()
        least = min(least, (time.process_time_ns() - begin) / _CALLS)
    return 1e-3 * least


if __name__ == "__main__":
    main()
