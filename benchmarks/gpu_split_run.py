"""Running the programs of `benchmarks.gpu_split`, where the GPU is: are they right, and how fast?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.build_and_run import software_and_device
from benchmarks.gpu_split_cases import PRODUCT_TILE
from benchmarks.gpu_split_report import print_case, print_layer, print_products
from benchmarks.square_layer import SquareLayer

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

SHIFTS = (0, 100, -100, 12)
"""Images are multiplied by two to these powers, one after the other."""
MAX_RATIO = 3.0
"""Of an error to that which is predicted of it, for it to count as right."""


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Check all cases, then time all layers; exits with 1 where something is wrong."""

    programs = json.loads((folder / "programs.json").read_text())
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.gpu_split", *sys.argv[1:]]),
        **software_and_device(),
        "cases": [],
        "layers": [],
        "products": [],
    }

    def write() -> None:
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1))

    for case in programs["cases"]:
        report["cases"].append(check_case(folder, case))
        write()
    by_layer: dict[SquareLayer, list[dict[str, Any]]] = {}
    for record in programs["layers"]:
        by_layer.setdefault(SquareLayer(**record["layer"]), []).append(record)
    for layer, records in by_layer.items():
        report["layers"].append(_measure(folder, layer, records, rounds))
        write()
    for record in programs["products"]:
        report["products"].append(_measure_products(folder, record))
        write()
    sys.exit(not all(case["right"] for case in report["cases"]))


def check_case(folder: Path, case: dict[str, Any], driver: str = "cuda") -> dict[str, Any]:
    """The errors of a case for images of several scales, also of some beside others."""
    from iree import runtime

    data = np.load(folder / f"{case['file']}.npz")
    config = runtime.Config(driver)
    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(context.instance, str(folder / f"{case['file']}.vmfb"))
    context.add_vm_module(module)
    main = context.modules[module.name]["main"]

    def compute(image: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.asarray(main(image).to_host())

    image, exact = data["image"], np.maximum(data["sums"], 0)
    errors = {}
    for shift in SHIFTS:
        errors[str(shift)] = error_of(compute(image * np.float32(2.0**shift)), exact * 2.0**shift)
    zero = float(np.abs(compute(np.zeros_like(image))).max())
    # Tiles have scales of their own: other images suffer neither from one that is large nor from infinities.
    large = image.copy()
    large[0] *= np.float32(2.0**80)
    infinite = image.copy()
    infinite[0].flat[0], infinite[0].flat[-1] = np.nan, np.inf
    if len(image) > 1:
        errors["beside a large one"] = error_of(compute(large)[1:], exact[1:])
        errors["beside an infinite one"] = error_of(compute(infinite)[1:], exact[1:])
    spoiled = int((~np.isfinite(compute(infinite)[0])).sum())
    right = max(errors.values()) <= MAX_RATIO * case["predicted_error"] and zero == 0 and spoiled > 0
    checked = {**case, "errors": errors, "of_zeros": zero, "not_finite": spoiled, "right": right}
    print_case(checked)
    return checked


def error_of(result: npt.NDArray[Any], exact: npt.NDArray[np.float64]) -> float:
    """Relative in the 1-norm."""
    return float(np.abs(result.astype(np.float64) - exact).sum() / np.abs(exact).sum())


@lru_cache(maxsize=1)
def by_cudnn(
    layer: SquareLayer,
) -> tuple[tuple[torch.Tensor, ...], npt.NDArray[np.float64], dict[str, dict[str, float]]]:
    """Random operands of a layer, its result in float64, and cuDNN's seconds and errors in fp32 and TF32."""
    import torch

    from benchmarks.gpu import cudnn_seconds, exact_result, random_operands

    image, filters, bias = random_operands(layer)
    torch.backends.cudnn.benchmark = True
    cudnn = {}
    with torch.inference_mode():
        exact = exact_result(layer, image, filters, bias).numpy()
        for name, allowed in (("fp32", False), ("tf32", True)):
            torch.backends.cudnn.allow_tf32 = allowed
            seconds = cudnn_seconds(layer, image, filters, bias)
            error = error_of(cudnn_result(layer, image, filters, bias), exact)
            cudnn[name] = {"seconds": min(seconds.values()), "error": error}
    return (image, filters, bias), exact, cudnn


def _measure(folder: Path, layer: SquareLayer, records: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    import torch

    from benchmarks.gpu import LayerProgram, stage_seconds, time_programs

    operands, exact, cudnn = by_cudnn(layer)
    result: dict[str, Any] = {"layer": asdict(layer), "flops": layer.flops, "cudnn": cudnn, "ours": []}
    programs = []
    for record in records:
        measured = {name: value for name, value in record.items() if name not in ("layer", "file")}
        result["ours"].append(measured)
        try:
            program = LayerProgram(folder / record["file"], "cuda", operands)
            measured["error"] = error_of(program.output()[0], exact)
            measured["stages"] = stage_seconds(program.many)
            programs.append((program, measured))
        except Exception as error:
            # One program that fails must not lose the results of the others.
            measured["failure"] = repr(error)
    time_programs(programs, rounds)
    print_layer(layer, result)
    torch.cuda.empty_cache()
    return result


@cache
def cublas_by_precision(layer: SquareLayer) -> dict[str, dict[str, float]]:
    """Seconds and operations of cuBLAS for the batched products of a layer, in fp32 and TF32."""
    import torch

    from benchmarks.gpu import cublas_products

    found = {}
    for name, allowed in (("fp32", False), ("tf32", True)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        found[name] = cublas_products(layer, (PRODUCT_TILE, PRODUCT_TILE))
    return found


def _measure_products(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The seconds of the batched products of a layer, and of cuBLAS', and the errors of the layer."""
    import torch

    from benchmarks.gpu import LayerProgram, stage_seconds

    layer = SquareLayer(**record["layer"])
    operands, exact, cudnn = by_cudnn(layer)
    program = LayerProgram(folder / record["file"], "cuda", operands)
    error = error_of(program.output()[0], exact)
    seconds = stage_seconds(program.few)["products"]
    cublas = cublas_by_precision(layer)
    flops = cublas["fp32"]["flops"]
    rates = {"ours": flops / seconds, **{name: flops / each["seconds"] for name, each in cublas.items()}}
    measured = {
        **record,
        "seconds": seconds,
        "error": error,
        "cudnn": cudnn,
        "cublas": cublas,
        "flops_per_second": rates,
    }
    print_products(layer, measured)
    torch.cuda.empty_cache()
    return measured


def cudnn_result(layer: SquareLayer, image: Any, filters: Any, bias: Any) -> npt.NDArray[np.float32]:
    """The layer's result for the first image, of cuDNN."""
    import torch

    x = image.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    w = filters.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    sums = torch.nn.functional.conv2d(x, w, bias, padding=layer.taps // 2)
    found: npt.NDArray[np.float32] = torch.relu(sums[0].permute(1, 2, 0)).cpu().numpy()
    return found
