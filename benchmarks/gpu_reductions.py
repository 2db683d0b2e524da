"""Are reductions between convolutions right on a GPU? Those of `reduction_networks`, by us and by stock IREE.

    python -m benchmarks.gpu_reductions build build/gpu-reductions      (where torch-mlir is)
    python -m benchmarks.gpu_reductions run build/gpu-reductions --output benchmarks/results/reductions.json

Normalizations, squeeze-and-excitation, softmax, attention, sums, maxima, means and products over pixels,
channels and both, in images between two convolutions, behind one and before one: in all layouts that we make.
Errors are the largest difference from float64 over the largest result. One is right that is at most
`MAX_RATIO` times torch's in float32 on a CPU, or `FLOOR`. `run` needs no torch, and ends with 1 where one of
ours is wrong.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmarks.build_and_run import build_and_run_parser

if TYPE_CHECKING:
    from torch import nn

Array = npt.NDArray[Any]

MAX_RATIO = 4.0
FLOOR = 2e-6
PLACES = {"between": (True, True), "behind": (True, False), "before": (False, True)}
"""By name whether there is a convolution before, and one after."""
KINDS = {"ours": True, "stock": False}
"""By name whether our passes are on."""
SAMPLES = 20_000
LARGE = {"group norm of large images": (128, 32), "one group of large images": (96, 1)}
"""Channels and groups, of images of both sizes."""
LARGE_IMAGE = (1, 8, 64, 64)
TIMED_IMAGE = (1, 8, 512, 512)


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=20)
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--networks", nargs="+", help="only those whose names have one of these texts")
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder, options.target, options.networks or [""], options.places)
    else:
        run(options.folder, options.output, options.rounds)


def build(folder: Path, target: str, wanted: list[str], places: Collection[str] = tuple(PLACES)) -> None:
    """Write programs and expected results into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for number, (name, place, model, image_shape) in enumerate(_models(wanted, places)):
        case = _case(folder, number, model, image_shape, target)
        cases.append({"network": name, "place": place, "target": target, **case})
        (folder / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")
        print(f"{name}, {place}", flush=True)


def _models(
    wanted: list[str], places: Collection[str]
) -> Iterator[tuple[str, str, nn.Module, tuple[int, ...]]]:
    import torch
    from torch import nn

    from benchmarks.reduction_networks import IMAGE, NETWORKS, Between

    torch.manual_seed(0)
    for name, (channels, groups) in LARGE.items():
        for size, image in (("64x64", LARGE_IMAGE), ("512x512", TIMED_IMAGE)):
            if any(text in name for text in wanted):
                yield (
                    f"{name} {size}",
                    "between",
                    Between([(channels, nn.GroupNorm(groups, channels))]),
                    image,
                )
    for name, network in NETWORKS.items():
        for place in places:
            before, after = PLACES[place]
            if any(text in name for text in wanted):
                yield name, place, network().placed(before=before, after=after), IMAGE


def _case(
    folder: Path, number: int, model: nn.Module, image_shape: tuple[int, ...], target: str
) -> dict[str, Any]:
    import iree.winograd
    import torch

    image = torch.from_numpy(_image(image_shape))
    imported = iree.winograd.import_torch(model.eval(), image)
    programs: dict[str, str] = {}
    for kind, is_ours in KINDS.items():
        path = folder / f"{number}-{kind}.vmfb"
        try:
            iree.winograd.compile(imported, target=target, output=path, enable_winograd=is_ours)
            programs[kind] = path.name
        except iree.winograd.CompilationError as error:
            print(f"{kind} doesn't compile: {str(error)[:200]}", flush=True)
    with torch.no_grad():
        single = [_sample(each.numpy()) for each in model(image)]
        expected = [_sample(each.numpy()) for each in model.double()(image.double())]
    np.savez_compressed(folder / f"{number}.npz", *expected)
    return {
        "programs": programs,
        "expected": f"{number}.npz",
        "image": image_shape,
        "torch": [_error(one, other) for one, other in zip(single, expected, strict=True)],
    }


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Run all programs and print a line for each case."""
    cases = json.loads((folder / "cases.json").read_text())
    backend = cases[0]["target"].partition(":")[0]
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.gpu_reductions", *sys.argv[1:]]),
        "device": _device_name(backend),
        "cases": [],
    }
    print(report["device"])
    print("errors of ours, of stock IREE, of torch; ms of a call of ours, of stock IREE")
    for case in cases:
        row = _run_case(folder, case, backend, rounds)
        report["cases"].append(row)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1) + "\n")
        numbers = [f"{max(row[kind], default=np.nan):8.1e}" for kind in (*KINDS, "torch")]
        times = [f"{row['ms'].get(kind, np.nan):9.3f}" for kind in KINDS]
        verdict = "right" if row["right"] else "WRONG"
        print(verdict, *numbers, *times, f" {row['network']}, {row['place']}", flush=True)
        if not row["right"]:
            print("      of each layer:", *(f"{error:.1e}" for error in row["ours"]), flush=True)
    sys.exit(not all(row["right"] for row in report["cases"]))


def _run_case(folder: Path, case: dict[str, Any], backend: str, rounds: int) -> dict[str, Any]:
    with np.load(folder / case["expected"]) as arrays:
        expected = [arrays[name] for name in arrays.files]
    row: dict[str, Any] = {
        **{key: case[key] for key in ("network", "place", "image", "target", "torch")},
        "ours": [],
        "stock": [],
        "ms": {},
    }
    for kind, name in case["programs"].items():
        row[kind], row["ms"][kind] = _run_program(folder / name, case["image"], expected, backend, rounds)
    bounds = [max(MAX_RATIO * error, FLOOR) for error in case["torch"]]
    errors = row["ours"]
    row["right"] = len(errors) == len(bounds) and all(map(lambda e, b: e <= b, errors, bounds))
    return row


def _run_program(
    path: Path, image_shape: list[int], expected: list[Array], backend: str, rounds: int
) -> tuple[list[float], float]:
    """The errors of all results, and the median time of a call in milliseconds."""
    from iree.winograd import load

    program = load(path, backend)
    image = _image(image_shape)
    results = program(image)
    results = results if isinstance(results, tuple | list) else (results,)
    errors = [_error(_sample(np.asarray(one)), other) for one, other in zip(results, expected, strict=True)]
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for result in program(image):
            np.asarray(result).ravel()[:1].copy()
        seconds.append(time.perf_counter() - begin)
    return errors, 1e3 * float(np.median(seconds))


def _image(shape: Sequence[int]) -> Array:
    """Random numbers whose mean is as large as their deviation."""
    return np.random.default_rng(0).standard_normal(shape, np.float32) + np.float32(1)


def _sample(result: Array) -> Array:
    """So many elements of a result that all of them are small files."""
    return result.ravel()[:: max(1, result.size // SAMPLES)]


def _error(result: Array, expected: Array) -> float:
    difference = np.abs(result - expected).max() / np.abs(expected).max()
    return float(difference) if np.isfinite(difference) else float("inf")


def _device_name(backend: str) -> str:
    from iree.runtime import get_driver

    return str(get_driver(backend).query_available_devices()[0]["name"])


if __name__ == "__main__":
    main()
