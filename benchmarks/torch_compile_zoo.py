"""Compares `torch.compile(backend="winograd")` with eager on a network of each of 40 families.

    python -m benchmarks.torch_compile_zoo --output benchmarks/results/torch-compile-zoo.json
    python -m benchmarks.report benchmarks/results/torch-compile-zoo.json

Batch 1, options as they are by default, an empty cache, each network in a process of its own. Errors are
those of the outputs for four images as one vector, |result - exact| / |exact| in the 2-norm, against eager in
double precision: that of one image, of ten scores for some networks, scatters by half. Of several real
outputs the one with the largest error counts. Networks that the output already has are skipped, so that a
run can be continued.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.isolation import Limits, answer_task, run_isolated, tell
from benchmarks.results_file import ResultsFile

if TYPE_CHECKING:
    import torch

TITLE = "torch_compile_zoo"
_IMAGES = 4


@dataclass(frozen=True)
class Task:
    """A network to compile, and the folder of the caches."""

    network: str
    threads: int
    folder: str


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    from benchmarks.networks.pytorchcv_networks import FAMILIES, SMALL_FAMILIES

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--networks", nargs="+", choices=FAMILIES, default=list(SMALL_FAMILIES), metavar="NETWORK"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1200, help="seconds for a network")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    for network in options.networks:
        if network not in results.rows:
            row = _row(network, options)
            results.add(network, row)
            print(f"{network}: {_summary(row)}", flush=True)


def _row(network: str, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_isolated(
            "benchmarks.torch_compile_zoo",
            asdict(Task(network, options.threads, folder)),
            threads=options.threads,
            limits=Limits(options.limit),
        )
    *_, row = [{}, *outcome.messages]
    return row if outcome.failure is None else {**row, "failure": outcome.failure}


def _summary(row: dict[str, Any]) -> str:
    if "failure" in row:
        return str(row["failure"])
    return (
        f"error {row['error']:.1e}, eager's {row['eager_error']:.1e}, {row['convolutions']} convolutions in "
        f"{row['parts']} part(s) after {row['seconds']:.0f} s; left: {'; '.join(row['left']) or 'nothing'}"
    )


def _work(task: Task) -> None:
    os.environ["XDG_CACHE_HOME"] = str(Path(task.folder, "winograd"))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(task.folder, "inductor"))
    import copy

    import iree.winograd as winograd
    import torch
    from iree.winograd.torch_compile.fallback_warning import FallbackWarning

    from benchmarks.networks.pytorchcv_networks import FAMILIES

    torch.set_num_threads(task.threads)
    torch.set_grad_enabled(False)
    model = FAMILIES[task.network].calibrated()
    images = [FAMILIES[task.network].input(1) for _ in range(_IMAGES)]
    in_double = copy.deepcopy(model).double()
    exact = [in_double(image.double()) for image in images]
    row: dict[str, Any] = {"eager_error": largest_error(list(map(model, images)), exact)}
    tell(row)
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FallbackWarning)
        compiled = torch.compile(model, backend="winograd")
        first = compiled(images[0])
    row["seconds"] = time.perf_counter() - begin
    row["error"] = largest_error([first, *map(compiled, images[1:])], exact)
    row["warnings"] = [str(each.message) for each in caught]
    tell(row)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The programs are in the cache.
        graphs = winograd.explain(model, images[0]).graphs
    row |= {
        "graphs": len(graphs),
        "parts": sum(len(graph.parts) for graph in graphs),
        "convolutions": sum(len(part.convolutions) for graph in graphs for part in graph.parts),
        "left": [str(rejection) for graph in graphs for rejection in graph.rejections],
    }
    tell(row)


def largest_error(results: Sequence[Any], exact: Sequence[Any]) -> float:
    """The largest of the errors of all outputs, each for all images together."""
    outputs = zip(*map(_tensors, results), strict=True)
    return max(map(_distance, outputs, zip(*map(_tensors, exact), strict=True)))


def _distance(results: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    squares = sum(
        float((one.double() - other).square().sum()) for one, other in zip(results, exact, strict=True)
    )
    return float((squares / sum(float(each.square().sum()) for each in exact)) ** 0.5)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    import torch

    leaves = torch.utils._pytree.tree_leaves(value)
    return (leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point())


if __name__ == "__main__":
    main()
