"""Compiles the networks of the zoo in half precision, and counts where the largest score is float64's.

    python -m benchmarks.half_zoo --networks resnet20_cifar10 mobilenet_w1 --type bf16 f16
    python -m benchmarks.half_zoo --networks unet_cityscapes --images 4

Weights and images have the type; each image is a call. Beside the program's scores are those of torch in that
type. Errors are relative, of all scores of all images, against float64 of the same weights. A network that
fails says why. Of networks that segment images the largest score of each pixel counts, so that a few images
do; other networks whose results are images have a largest score of each image.

What the output already has is skipped, so that a run can be continued. Networks are begun in the order in
which `--networks` names them, those of the smallest images first unless given, each on cores of its own, of
which all but our program makes use. Torch has no 3-D average pooling in half precision, which ZFNet's
normalization is made of: there our program is compared with float64 alone.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.half_precision import TYPES
from benchmarks.isolation import Limits, answer_task, run_isolated, side_by_side
from benchmarks.results_file import ResultsFile

if TYPE_CHECKING:
    import torch


def main() -> None:
    if answer_task(lambda task: _measure(**task)):
        return
    options = _parse_arguments()
    results = ResultsFile(options.output, "networks")

    def measure(network: str, processors: frozenset[int]) -> None:
        limits = Limits(options.limit, int(options.memory * 2**30), processors)
        for type_ in options.type:
            if type_ in results.rows.get(network, {}):
                continue
            task = {"network": network, "type_": type_, "images": options.images}
            begin = time.monotonic()
            outcome = run_isolated("benchmarks.half_zoo", task, threads=options.threads, limits=limits)
            row = {"failure": outcome.failure} if outcome.failure else outcome.messages[-1]
            row["seconds"] = round(time.monotonic() - begin, 1)
            results.add(network, {**results.rows.get(network, {}), type_: row})
            print(f"{network:32} {type_:5} {_line(row)}", flush=True)

    left = [name for name in options.networks if not set(options.type) <= set(results.rows.get(name, {}))]
    side_by_side(left, measure, jobs=options.jobs, seconds=options.budget, threads=options.threads)


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.networks.zoo import ZOO

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    by_size = sorted(ZOO, key=lambda network: math.prod(ZOO[network].input_shape))
    parser.add_argument("--networks", nargs="+", choices=ZOO, default=by_size, metavar="NETWORK")
    parser.add_argument("--type", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--limit", type=float, default=1200, help="seconds for a network in a type")
    parser.add_argument("--memory", type=float, default=16, help="GiB for a network")
    parser.add_argument("--jobs", type=int, default=1, help="networks at once, at most one per core")
    parser.add_argument("--threads", type=int, default=1, help="cores of a network")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--output", type=Path, help="a JSON file, continued where it ended")
    return parser.parse_args()


def _line(row: dict[str, Any]) -> str:
    if "failure" in row:
        return f"failed: {row['failure']}"
    scores = f"top-1 {row['agreeing']} of {row.get('pixels', row['images'])}"
    error = f"error {row['error']:.1e}"
    if "torch_failure" in row:
        error += f", torch failed: {row['torch_failure']}"
    else:
        scores += f", torch {row['torch_agreeing']}"
        error += f", torch {row['torch_error']:.1e}"
    return f"{scores}; {error}; {row['layers']} convolutions, left {row['left']}"


def _measure(network: str, type_: str, images: int) -> dict[str, Any]:
    import iree.winograd
    import torch

    from benchmarks.comparison import count_convolutions
    from benchmarks.networks.pytorchcv_networks import SEGMENTING
    from benchmarks.networks.zoo import ZOO

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[type_]
    half = ZOO[network].calibrated().to(dtype)
    exact = copy.deepcopy(half).double()
    arguments = [
        tuple(each.to(dtype) if each.is_floating_point() else each for each in ZOO[network].inputs(1))
        for _ in range(images)
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        imported = iree.winograd.import_torch(half, *arguments[0])
        compiled = iree.winograd.compile(imported, threads=1, report=report)
        convolutions = count_convolutions(json.loads(report.read_text()))
    program = iree.winograd.load(compiled, threads=1)
    scores = _scores_of_pixels if network in SEGMENTING else _scores
    expected = scores(lambda *given: exact(*(each.double() for each in given)), arguments)
    ours = scores(program, arguments)
    row = {
        "images": images,
        **({"pixels": len(expected)} if network in SEGMENTING else {}),
        "agreeing": _agreeing(ours, expected),
        "error": _error(ours, expected),
        "layers": convolutions.ours,
        "left": sum(convolutions.left.values()),
    }
    try:
        torchs = scores(half, arguments)
    except NotImplementedError as failure:
        return {**row, "torch_failure": str(failure)}
    return {**row, "torch_agreeing": _agreeing(torchs, expected), "torch_error": _error(torchs, expected)}


def _scores(run: Callable[..., Any], arguments: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
    """Images x scores."""
    import torch

    return torch.stack([result.flatten() for result in _results(run, arguments)])


def _scores_of_pixels(run: Callable[..., Any], arguments: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
    """Pixels of all images x scores."""
    import torch

    return torch.cat([result.movedim(1, -1).flatten(0, -2) for result in _results(run, arguments)])


def _results(run: Callable[..., Any], arguments: list[tuple[torch.Tensor, ...]]) -> Iterator[torch.Tensor]:
    """Of each image the first result, where there are several."""
    import torch

    for given in arguments:
        result = run(*given)
        while isinstance(result, tuple | list):
            result = result[0]
        yield torch.as_tensor(result).double()


def _error(scores: torch.Tensor, expected: torch.Tensor) -> float:
    return float((scores - expected).norm() / expected.norm())


def _agreeing(scores: torch.Tensor, expected: torch.Tensor) -> int:
    return int((scores.argmax(1) == expected.argmax(1)).sum())


if __name__ == "__main__":
    main()
