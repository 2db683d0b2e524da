"""The schedules that are chosen on AMD's GPUs by Vulkan, on an NVIDIA GPU: are their results right?

    python -m benchmarks.amd.on_nvidia build build/amd-on-nvidia     (where the compiler is)
    python -m benchmarks.amd.on_nvidia run build/amd-on-nvidia \\
      --output benchmarks/results/amd-on-nvidia.json                 (where the GPU is)

What is chosen for RDNA 2, 3 and 4 for each layer of `benchmarks.amd`, algorithm and schedule, cooperative
matrices among them, is compiled for an NVIDIA GPU: the same blocks, loops and sums, by another compiler. Each
runs on one image of the layer; of several layers with the same kernels but for how many blocks there are one
does. A result is right where its error in the 1-norm, by a convolution in float64, is at most `MAX_RATIO`
times what is predicted of the algorithm's and the schedule's roundings. The exit status is 1 where one is
not. Running needs the runtime and torch, not the compiler.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import count, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.build_and_run import build_and_run_parser, software_and_device
from benchmarks.square_layer import SquareLayer

if TYPE_CHECKING:
    from iree.winograd.pipelines.selection.decision import Candidate

TARGETS = ("vulkan:rdna2", "vulkan:rdna3", "vulkan:rdna4")
TARGET = "vulkan:ampere"
"""That the programs are compiled for."""


@dataclass(frozen=True)
class Chosen:
    """What one of AMD's GPUs computes a layer by."""

    targets: tuple[str, ...]
    layer: SquareLayer
    """With one image."""
    candidate: Candidate


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=1)
    parser.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder, options.processes)
    else:
        run(options.folder, options.output)


# Where the compiler is


def build(folder: Path, processes: int) -> None:
    """Compile all programs, and write what running them needs to know."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        chosen = [each for found in pool.map(chosen_for, TARGETS) for each in found]
        records = list(pool.map(compiled, repeat(folder), count(), merged(chosen)))
    (folder / "programs.json").write_text(json.dumps(records, indent=1))


def compiled(folder: Path, number: int, chosen: Chosen) -> dict[str, Any]:
    """Writes a program; what running it needs to know."""
    import iree.winograd
    from iree.winograd.pipelines.selection.implementation import implementation_record
    from iree.winograd.pipelines.selection.prediction import implementation_error

    from benchmarks.amd.layers import layer_problem
    from benchmarks.gpu_programs import single_layer, variant_of

    implementation = chosen.candidate.implementation
    record: dict[str, Any] = {
        "layer": asdict(chosen.layer),
        "targets": chosen.targets,
        "implementation": implementation_record(implementation),
        "predicted_error": implementation_error(layer_problem(chosen.layer), implementation),
    }
    print(chosen.layer.name, implementation, *chosen.targets, flush=True)
    source = single_layer(chosen.layer, variant_of(chosen.candidate))
    try:
        program = bytes(iree.winograd.compile(source, target=TARGET, strict=True))
    except Exception as error:
        # Listed as what the other GPU lacks something for.
        print(error, flush=True)
        return {**record, "refused": str(error)}
    record["file"] = f"{number}.vmfb"
    (folder / record["file"]).write_bytes(program)
    return record


def chosen_for(target: str) -> list[Chosen]:
    """What is chosen for the layers of `benchmarks.amd` that aren't left to IREE."""
    from iree.winograd.calibration.programs import backend_of
    from iree.winograd.pipelines.gpu.backend import GpuBackend

    from benchmarks.amd.layers import LAYERS, layer_problem
    from benchmarks.amd.predicted import predicted

    backend = backend_of(target)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    found = ((layer, predicted(layer_problem(layer), space).chosen) for layer in LAYERS.values())
    return [Chosen((target,), replace(layer, batch=1), one) for layer, one in found if one is not None]


def merged(chosen: Iterable[Chosen]) -> list[Chosen]:
    """Those whose kernels are the same, once."""
    from benchmarks.amd.chosen import kernel_key
    from benchmarks.amd.layers import layer_problem

    alike: dict[tuple[object, ...], list[Chosen]] = {}
    for each in chosen:
        key = kernel_key(layer_problem(each.layer), each.candidate.implementation)
        alike.setdefault(key, []).append(each)
    return [
        replace(same[0], targets=tuple(dict.fromkeys(target for each in same for target in each.targets)))
        for same in alike.values()
    ]


# Where the GPU is


def run(folder: Path, output: Path | None) -> None:
    """Check all programs; exits with 1 where one is wrong."""
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.amd.on_nvidia", *sys.argv[1:]]),
        **software_and_device(),
        "results": [],
    }
    verdicts: Counter[str] = Counter()
    for record in json.loads((folder / "programs.json").read_text()):
        verdict = "refused"
        if "refused" not in record:
            try:
                record |= checked(folder, record)
                verdict = "right" if record["right"] else "WRONG"
            except Exception as error:
                # One program that fails must not lose the results of the others.
                record["failure"] = repr(error)
                verdict = "FAILED"
        verdicts[verdict] += 1
        report["results"].append(record)
        what = record.get("failure") or record.get("refused") or f"{record['error']:.2e}"
        print(verdict, SquareLayer(**record["layer"]).name, record["implementation"], what, flush=True)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1))
    print(dict(verdicts))
    sys.exit(verdicts["WRONG"] + verdicts["FAILED"] > 0)


def checked(folder: Path, record: dict[str, Any], device: str = "cuda") -> dict[str, Any]:
    """The error of a program's result, and whether it is right; the operands are of a device of torch."""
    from benchmarks.gpu import DeviceProgram, exact_result, random_operands
    from benchmarks.gpu_split_run import MAX_RATIO, error_of

    layer = SquareLayer(**record["layer"])
    operands = random_operands(layer, device)
    result = DeviceProgram(folder / record["file"], "vulkan", operands).output()[0]
    error = error_of(result, exact_result(layer, *operands).numpy())
    return {"error": error, "right": error <= MAX_RATIO * record["predicted_error"]}


if __name__ == "__main__":
    main()
