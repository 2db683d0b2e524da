"""Products of numbers that are split into two fp16, on a GPU of NVIDIA: whether they are right, and how fast.

    python -m benchmarks.gpu_split build build/gpu-split            (where the compiler is)
    python -m benchmarks.gpu_split run build/gpu-split --output benchmarks/results/gpu-split.json   (the GPU)

First convolutions of many kinds are compared with float64, also with images whose scale is that of very large
or very small numbers. Then layers of ResNets are timed side by side: ours as chosen and as chosen without
split products, cuDNN in fp32 and in TF32, which are timed as `benchmarks.gpu` does. Errors are relative to
float64 in the 1-norm, of the third of three such layers of which each one's first pixel is the next one's
bias. Running needs the runtime and torch, not the compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpu_programs import (
    FEW_COPIES,
    RESNET,
    GpuLayer,
    compile_layer,
    variant_of,
    workload_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule
    from iree.winograd.pipelines.selection.decision import Candidate

TARGET = "cuda:sm_80"
MACHINE = "sm_90"
"""The GPU whose default rates the choice is made for; IREE compiles for none later than `TARGET`."""
LAYERS = (
    *(layer for layer in RESNET if layer.batch in (1, 32, 128)),
    *(
        GpuLayer("resnet", 32, size, inputs, outputs, 1)
        for size, inputs, outputs in ((56, 64, 256), (28, 512, 128), (14, 1024, 256), (7, 512, 2048))
    ),
)
SHIFTS = (0, 100, -100, 12)
"""Images are multiplied by two to these powers, one after the other."""
MAX_RATIO = 3.0
"""Of an error to that which is predicted of it, for it to count as right."""

_3X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"
_1X1 = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups"


@dataclass(frozen=True)
class Case:
    """A convolution in the words of `ConvolutionProblem`, its tiles and parts, and a split schedule."""

    problem: str
    output_tile: tuple[int, ...]
    part_size: tuple[int, ...]
    schedule: tuple[int, ...] = (64, 64, 32, 32, 2, 1)


CASES = (
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3)) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), (128, 64, 32, 32, 3, 1)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), (64, 64, 32, 32, 4, 4)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3)),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3)),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", (1, 1), (1, 1)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), (64, 64, 32, 32, 3, 1)),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", (1, 1), (1, 1)),
    Case("4x28x28x64->64 kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32", (4, 4), (2, 2)),
    Case("4x20x20x16->16 kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32", (4, 4), (3, 3)),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,)),
    Case("4x17x17x64->64 kernel 1x7 stride 1x1 dilation 1x1 padding 0x3 0x3 groups 1 f32", (1, 4), (1, 7)),
    Case(f"4x14x14x96->80 {_3X3} 1 f32", (4, 4), (3, 3), (32, 64, 16, 32, 4, 4)),
    Case(f"4x14x14x300->70 {_3X3} 1 f32", (2, 2), (3, 3), (32, 32, 16, 16, 4, 4)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--batches", nargs="+", type=int, help="only layers with one of these batch sizes")
    parser.add_argument("--promising", type=int, default=0, help="so many split schedules of each layer, too")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.action == "build":
        layers = [layer for layer in LAYERS if options.batches is None or layer.batch in options.batches]
        build(options.folder, layers, options.promising)
    else:
        run(options.folder, options.output, options.rounds)


# Where the compiler is


def build(folder: Path, layers: list[GpuLayer], promising: int) -> None:
    """Compile all programs, and write what running them needs to know."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for number, case in enumerate(CASES):
        cases.append(_build_case(folder, number, case))
        print(case.problem, flush=True)
    programs = []
    for layer in layers:
        for number, (name, candidate) in enumerate(_variants(folder, layer, promising)):
            path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
            path.write_bytes(compile_layer(layer, TARGET, variant_of(candidate)))
            facts = {"predicted": dict(candidate.stage_seconds), "predicted_error": candidate.predicted_error}
            programs.append({"layer": asdict(layer), "variant": name, "file": path.name, **facts})
            print(path, name, flush=True)
            (folder / "programs.json").write_text(json.dumps({"cases": cases, "layers": programs}))


def _variants(folder: Path, layer: GpuLayer, promising: int) -> Iterator[tuple[str, Candidate]]:
    """By name: the choice, what it would be without split products, and the most promising of these."""
    from iree.winograd.pipelines.machines.defaults import default_gpu_machine
    from iree.winograd.pipelines.machines.model import machine_to_json
    from iree.winograd.pipelines.selection.candidates import implementations
    from iree.winograd.pipelines.selection.prediction import candidate

    machine = folder / "machine.json"
    machine.write_text(machine_to_json(default_gpu_machine(MACHINE)))
    workload = workload_of(layer, TARGET, machine)
    problem, space, limit = workload.problem, workload.space, workload.max_relative_error
    candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
    accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
    accurate.sort(key=lambda each: each.predicted_seconds)
    split = [each for each in accurate if each.implementation.schedule.splits_products]
    yield "chosen", workload.default
    yield "fp32", next(each for each in accurate if not each.implementation.schedule.splits_products)
    for each in split[:promising]:
        yield str(each.implementation), each


def _schedule(fields: tuple[int, ...]) -> SplitSchedule:
    from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule

    return SplitSchedule(*fields)


def _build_case(folder: Path, number: int, case: Case) -> dict[str, Any]:
    import iree.winograd
    from iree.compiler import ir
    from iree.winograd.passes.frame.algorithm import Algorithm
    from iree.winograd.passes.match.problem import ConvolutionProblem
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.pipelines.selection.prediction import algorithm_error
    from iree.winograd.tuning.measuring.convolution_program import ConvolutionProgram

    problem = ConvolutionProblem.parse(case.problem)
    program = ConvolutionProgram(problem)
    # Without biases, results have the scale of the image.
    program.bias[...] = 0
    algorithm = Algorithm(case.output_tile, case.part_size)
    schedule = _schedule(case.schedule)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        source = str(program.build(context, Implementation(algorithm, schedule)))
    compiled = iree.winograd.compile(source, target=TARGET, strict=True)
    (folder / f"case-{number}.vmfb").write_bytes(bytes(compiled))
    sums = _sums(program)
    np.savez(folder / f"case-{number}.npz", image=program.image, sums=sums)
    predicted = algorithm_error(problem, algorithm, split=schedule.splits_products)
    return {"case": asdict(case), "file": f"case-{number}", "predicted_error": predicted}


def _sums(program: Any) -> npt.NDArray[np.float64]:
    """The convolution of the program's image without bias and ReLU, in float64."""
    from iree.winograd.dialect import reference

    problem = program.problem
    image = program.image.reshape(-1, *problem.input_size, problem.input_channels)
    filters = program.filters.reshape(*problem.kernel_size, problem.group_inputs, problem.output_channels)
    padding = problem.padding_low, problem.padding_high
    convolved = reference.convolution(
        image, filters, problem.strides, problem.dilations, *padding, problem.groups
    )
    sums: npt.NDArray[np.float64] = convolved.reshape(*convolved.shape[:-1], *program.bias.shape)
    return sums


# Where the GPU is


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Check all cases, then time all layers; exits with 1 where something is wrong."""
    import torch

    programs = json.loads((folder / "programs.json").read_text())
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.gpu_split", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "cases": [],
        "layers": [],
    }

    def write() -> None:
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1))

    for case in programs["cases"]:
        report["cases"].append(_check(folder, case))
        write()
    by_layer: dict[GpuLayer, list[dict[str, Any]]] = {}
    for record in programs["layers"]:
        by_layer.setdefault(GpuLayer(**record["layer"]), []).append(record)
    for layer, records in by_layer.items():
        report["layers"].append(_measure(folder, layer, records, rounds))
        write()
    sys.exit(not all(case["right"] for case in report["cases"]))


def _check(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """The errors of a case for images of several scales, also of some beside others."""
    from iree import runtime

    data = np.load(folder / f"{case['file']}.npz")
    config = runtime.Config("cuda")
    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(context.instance, str(folder / f"{case['file']}.vmfb"))
    context.add_vm_module(module)
    main = context.modules[module.name]["main"]

    def compute(image: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return np.asarray(main(image).to_host())

    image, exact = data["image"], np.maximum(data["sums"], 0)
    errors = {}
    for shift in SHIFTS:
        errors[str(shift)] = _error(compute(image * np.float32(2.0**shift)), exact * 2.0**shift)
    zero = float(np.abs(compute(np.zeros_like(image))).max())
    # Tiles have scales of their own: other images suffer neither from one that is large nor from infinities.
    large = image.copy()
    large[0] *= np.float32(2.0**80)
    infinite = image.copy()
    infinite[0].flat[0], infinite[0].flat[-1] = np.nan, np.inf
    if len(image) > 1:
        errors["beside a large one"] = _error(compute(large)[1:], exact[1:])
        errors["beside an infinite one"] = _error(compute(infinite)[1:], exact[1:])
    spoiled = int((~np.isfinite(compute(infinite)[0])).sum())
    right = max(errors.values()) <= MAX_RATIO * case["predicted_error"] and zero == 0 and spoiled > 0
    print("right" if right else "WRONG", case["case"]["problem"], errors, zero, spoiled, flush=True)
    return {**case, "errors": errors, "of_zeros": zero, "not_finite": spoiled, "right": right}


def _error(result: npt.NDArray[Any], exact: npt.NDArray[np.float64]) -> float:
    """Relative in the 1-norm."""
    return float(np.abs(result.astype(np.float64) - exact).sum() / np.abs(exact).sum())


def _measure(folder: Path, layer: GpuLayer, records: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    import torch

    from benchmarks.gpu import LayerProgram, cudnn_seconds, stage_seconds, time_programs

    generator = torch.Generator(device="cuda").manual_seed(0)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", generator=generator)

    image = random(layer.batch, layer.size, layer.size, layer.channels)
    filters = (2 / (layer.taps**2 * layer.channels)) ** 0.5 * random(
        layer.taps, layer.taps, layer.channels, layer.filters
    )
    bias = 0.1 * random(layer.filters)
    torch.backends.cudnn.benchmark = True
    result: dict[str, Any] = {"layer": asdict(layer), "flops": layer.flops, "cudnn": {}, "ours": []}
    with torch.inference_mode():
        exact = layer_in_float64(layer, image, filters, bias)
        for name, allowed in (("fp32", False), ("tf32", True)):
            torch.backends.cudnn.allow_tf32 = allowed
            seconds = cudnn_seconds(layer, image, filters, bias)
            error = _error(_cudnn_result(layer, image, filters, bias), exact)
            result["cudnn"][name] = {"seconds": min(seconds.values()), "error": error}
    programs = []
    for record in records:
        measured = {name: value for name, value in record.items() if name not in ("layer", "file")}
        result["ours"].append(measured)
        try:
            program = LayerProgram(folder / record["file"], "cuda", (image, filters, bias))
            measured["error"] = _error(program.output()[0], exact)
            measured["stages"] = stage_seconds(program.many)
            programs.append((program, measured))
        except Exception as error:
            # One program that fails must not lose the results of the others.
            measured["failure"] = repr(error)
    time_programs(programs, rounds)
    _print(layer, result)
    torch.cuda.empty_cache()
    return result


def layer_in_float64(layer: GpuLayer, image: Any, filters: Any, bias: Any) -> npt.NDArray[np.float64]:
    """What `few` computes of the first image."""
    import torch

    x, w = image[:1].permute(0, 3, 1, 2).double(), filters.permute(3, 2, 0, 1).double()
    sums = torch.nn.functional.conv2d(x, w, padding=layer.taps // 2)[0].permute(1, 2, 0)
    first_pixel = bias.double()
    for _ in range(FEW_COPIES):
        result = torch.relu(sums + first_pixel)
        first_pixel = result[0, 0]
    found: npt.NDArray[np.float64] = result.cpu().numpy()
    return found


def _cudnn_result(layer: GpuLayer, image: Any, filters: Any, bias: Any) -> npt.NDArray[np.float32]:
    """The same of cuDNN."""
    import torch

    first_pixel = bias
    x = image.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    w = filters.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    for _ in range(FEW_COPIES):
        sums = torch.nn.functional.conv2d(x, w, first_pixel, padding=layer.taps // 2)
        result = torch.relu(sums[0].permute(1, 2, 0))
        first_pixel = result[0, 0].contiguous()
    found: npt.NDArray[np.float32] = result.cpu().numpy()
    return found


def _print(layer: GpuLayer, result: dict[str, Any]) -> None:
    for name, measured in result["cudnn"].items():
        print(
            f"{layer.name}  cuDNN {name}: {measured['seconds'] * 1e6:.1f} us, error {measured['error']:.1e}"
        )
    for measured in result["ours"]:
        if "failure" in measured:
            print(f"  {measured['variant']:36} {measured['failure']}")
            continue
        stages = {name: round(seconds * 1e6, 1) for name, seconds in measured["stages"].items()}
        ratios = [result["cudnn"][name]["seconds"] / measured["seconds"] for name in ("fp32", "tf32")]
        print(
            f"  {measured['variant']:36} {measured['seconds'] * 1e6:8.1f} us  error {measured['error']:.1e}"
            f"  of cuDNN's speed {ratios[0]:.2f} (fp32) {ratios[1]:.2f} (TF32)  {stages}",
            flush=True,
        )


if __name__ == "__main__":
    main()
