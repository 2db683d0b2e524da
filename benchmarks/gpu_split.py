"""Products on matrix units of a GPU of NVIDIA, of split and of rounded numbers: are they right, and how fast.

    python -m benchmarks.gpu_split build build/gpu-split            (where the compiler is)
    python -m benchmarks.gpu_split run build/gpu-split --output benchmarks/results/gpu-split.json   (the GPU)

First convolutions of many kinds are compared with float64, also with images whose scale is that of very large
or very small numbers. Then layers of ResNets are timed side by side: ours as chosen, as chosen for sm_80 and
without matrix units, and as chosen where errors of 1e-3 are admitted; cuDNN in fp32 and in TF32, which are
timed as `benchmarks.gpu` does. Errors are relative to float64 in the 1-norm, of one such layer. What is
chosen is also timed with matrix units adding up all products, and in blocks of `--summed-blocks`. At last the
batched products of F(4x4, 3x3) are timed apart, beside cuBLAS' in fp32 and in TF32. Running needs the runtime
and torch, not the compiler.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpu_programs import (
    FEW_COPIES,
    RESNET,
    GpuLayer,
    Variant,
    compile_layer,
    variant_of,
    workload_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    from iree.winograd.pipelines.selection.decision import Candidate
    from iree.winograd.tuning.workloads import Workload

TARGET = "cuda:sm_90a"
LOOSE_ERROR = 1e-3
"""That of products of rounded numbers."""
LAYERS = (
    *(layer for layer in RESNET if layer.batch in (1, 32, 128)),
    *(
        GpuLayer("resnet", 32, size, inputs, outputs, 1)
        for size, inputs, outputs in ((56, 64, 256), (28, 512, 128), (14, 1024, 256), (7, 512, 2048))
    ),
)
PRODUCTS = (
    GpuLayer("products", 32, 56, 128, 128),
    GpuLayer("products", 32, 32, 256, 256),
    GpuLayer("products", 32, 64, 512, 512),
)
"""Layers whose 36 products of 6272, 2048 and 8192 rows are timed."""
PRODUCT_TILE = 4
SHIFTS = (0, 100, -100, 12)
"""Images are multiplied by two to these powers, one after the other."""
MAX_RATIO = 3.0
"""Of an error to that which is predicted of it, for it to count as right."""

_3X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"
_1X1 = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups"
_STRIDED = "kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32"
_5X5 = "kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32"
_STEM = "kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32"
_1X7 = "kernel 1x7 stride 1x1 dilation 1x1 padding 0x3 0x3 groups 1 f32"


@dataclass(frozen=True)
class Case:
    """A convolution in the words of `ConvolutionProblem`, its tiles and parts, and a schedule's record."""

    problem: str
    output_tile: tuple[int, ...]
    part_size: tuple[int, ...]
    schedule: Mapping[str, int | str]


def _split(rows: int = 64, columns: int = 64, stages: int = 2, **fields: int) -> dict[str, int | str]:
    """By warps, 32 rows and columns each where the block has as many."""
    sizes = {"block_rows": rows, "block_columns": columns, "warp_rows": 32, "warp_columns": 32}
    return {"kind": "split", **sizes, "stages": stages, **fields}


def _warpgroup(rows: int = 64, columns: int = 64, stages: int = 4, **fields: int) -> dict[str, int | str]:
    return {"kind": "warpgroup", "block_rows": rows, "block_columns": columns, "stages": stages, **fields}


def _implicit_gemm(columns: int = 64, **fields: int) -> dict[str, int | str]:
    sizes = {"block_rows": 64, "block_columns": columns, "warpgroups": 3, "walking_workgroups": 132}
    return {"kind": "implicit-gemm", **sizes, **fields}


_DIRECT = (1, 1), (1, 1)
CASES = (
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3), _split()) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), _split(128, 64, 3)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _split(stages=4, resident_workgroups=4)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3), _split()),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3), _split()),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), _split()),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", (1, 1), (1, 1), _split()),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), _split(stages=3)),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", (1, 1), (1, 1), _split()),
    Case(f"4x28x28x64->64 {_STRIDED}", (4, 4), (2, 2), _split()),
    Case(f"4x20x20x16->16 {_5X5}", (4, 4), (3, 3), _split()),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,), _split()),
    Case(f"4x17x17x64->64 {_1X7}", (1, 4), (1, 7), _split()),
    Case(
        f"4x14x14x96->80 {_3X3} 1 f32", (4, 4), (3, 3), _split(32, 64, 4, warp_rows=16, resident_workgroups=4)
    ),
    Case(f"4x14x14x300->70 {_3X3} 1 f32", (2, 2), (3, 3), _split(32, 32, 4, warp_rows=16, warp_columns=16)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _split(products=1)),
    Case(f"4x14x14x64->64 {_3X3} 1 f32", (2, 2), (3, 3), _split(products=1)),
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3), _warpgroup()) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(128, 64, 3)),
    Case(f"4x28x28x256->192 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(128, 128, 6, walking_workgroups=132)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(resident_workgroups=3)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(64, 128, walking_workgroups=7)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(64, 16)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(walking_workgroups=7, summed_block=32)),
    *(
        Case(f"4x14x14x{channels}->72 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(rows, summed_block=64))
        for channels, rows in ((40, 64), (128, 192), (200, 64))
    ),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _split(summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), _warpgroup(stages=3, summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), _split(stages=3, summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), _warpgroup(products=1, summed_block=64)),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3), _warpgroup(walking_workgroups=5)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(walking_workgroups=396)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup()),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", (1, 1), (1, 1), _warpgroup(walking_workgroups=3)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), _warpgroup(stages=3)),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", (1, 1), (1, 1), _warpgroup()),
    Case(f"4x28x28x64->64 {_STRIDED}", (4, 4), (2, 2), _warpgroup(walking_workgroups=396)),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,), _warpgroup()),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _warpgroup(products=1)),
    Case(
        f"4x14x14x200->300 {_3X3} 1 f32",
        (2, 2),
        (3, 3),
        _warpgroup(64, 256, products=1, walking_workgroups=132),
    ),
    Case(
        f"4x14x14x64->300 {_1X1} 1 f32",
        (1, 1),
        (1, 1),
        _warpgroup(128, 256, products=1, walking_workgroups=132),
    ),
    Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm()),
    Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(channel_blocks=2)),
    *(
        Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(summed_block=block, channel_blocks=2))
        for block in (32, 80)
    ),
    Case(
        f"2x14x14x128->128 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(warpgroups=2, products=1, summed_block=64)
    ),
    Case(f"2x14x14x512->128 {_1X1} 1 f32", *_DIRECT, _implicit_gemm(channel_blocks=8, summed_block=64)),
    Case(f"2x56x56x3->64 {_STEM}", *_DIRECT, _implicit_gemm(summed_block=64)),
    Case(f"2x24x20x64->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(walking_workgroups=7)),
    Case(f"2x14x14x128->128 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(warpgroups=2, products=1)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm()),
    Case(f"4x11x9x16->20 {_3X3} 1 f32", *_DIRECT, _implicit_gemm(32)),
    Case(f"2x28x28x32->48 {_STRIDED}", *_DIRECT, _implicit_gemm(48)),
    Case(f"2x28x28x64->48 {_STRIDED}", *_DIRECT, _implicit_gemm(48, channel_blocks=4, warpgroups=2)),
    Case(f"4x20x20x16->16 {_5X5}", *_DIRECT, _implicit_gemm(16, warpgroups=4)),
    Case(f"2x14x14x512->128 {_1X1} 1 f32", *_DIRECT, _implicit_gemm(channel_blocks=8)),
    Case(f"2x14x14x64->256 {_1X1} 1 f32", *_DIRECT, _implicit_gemm(256, warpgroups=2, products=1)),
    Case(f"2x56x56x3->64 {_STEM}", *_DIRECT, _implicit_gemm()),
    Case(f"2x24x24x3->64 {_3X3} 1 f32", *_DIRECT, _implicit_gemm()),
    Case(f"2x24x24x4->20 {_5X5}", *_DIRECT, _implicit_gemm(32, products=1)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--batches", nargs="+", type=int, help="only layers with one of these batch sizes")
    parser.add_argument("--promising", type=int, default=0, help="so many schedules of each kind, too")
    parser.add_argument(
        "--summed-blocks",
        nargs="*",
        type=int,
        default=[],
        help="of large products, beside those that are chosen",
    )
    parser.add_argument("--limits", nargs="*", type=float, default=[], help="of errors, a variant for each")
    parser.add_argument("--variants", nargs="+", help="only those whose names begin so")
    parser.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.action == "build":
        layers = [layer for layer in LAYERS if options.batches is None or layer.batch in options.batches]
        variants = partial(
            _variants,
            promising=options.promising,
            summed_blocks=options.summed_blocks,
            limits=options.limits,
        )
        build(options.folder, layers, variants, options.variants, options.processes)
    else:
        run(options.folder, options.output, options.rounds)


# Where the compiler is


def build(
    folder: Path,
    layers: list[GpuLayer],
    variants: Callable[[GpuLayer], Iterable[tuple[str, Candidate]]],
    names: list[str] | None,
    processes: int,
) -> None:
    """Compile all programs, and write what running them needs to know."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        cases = [pool.submit(_build_case, folder, number, case) for number, case in enumerate(CASES)]
        programs = [
            pool.submit(_build_program, folder, layer, number, name, candidate)
            for layer in layers
            for number, (name, candidate) in enumerate(variants(layer))
            if names is None or name.startswith(tuple(names))
        ]
        products = [
            pool.submit(_build_products, folder, layer, number, target, schedule)
            for layer in PRODUCTS
            for number, (target, schedule) in enumerate(_product_schedules())
        ]
        report = {
            name: [each.result() for each in built]
            for name, built in (("cases", cases), ("layers", programs), ("products", products))
        }
    (folder / "programs.json").write_text(json.dumps(report))


def _build_program(
    folder: Path, layer: GpuLayer, number: int, name: str, candidate: Candidate
) -> dict[str, Any]:
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    path.write_bytes(compile_layer(layer, TARGET, variant_of(candidate)))
    print(path, name, flush=True)
    facts = {"predicted": dict(candidate.stage_seconds), "predicted_error": candidate.predicted_error}
    return {"layer": asdict(layer), "variant": name, "file": path.name, **facts}


def _product_schedules() -> Iterator[tuple[str, Mapping[str, int | str]]]:
    """Those that split products are timed by, and the targets that they are compiled for."""
    for block in (32, 64, None):
        blocks = {} if block is None else {"summed_block": block}
        yield TARGET, _warpgroup(resident_workgroups=3, walking_workgroups=396, **blocks)
        yield TARGET, _warpgroup(192, 64, 6, walking_workgroups=132, **blocks)
        if block != 64:
            yield "cuda:sm_80", _split(stages=4, resident_workgroups=4, **blocks)
    yield TARGET, _warpgroup(128, 64, 8, walking_workgroups=132, summed_block=64)
    yield TARGET, _warpgroup(128, 128, 6, walking_workgroups=132)


def _build_products(
    folder: Path, layer: GpuLayer, number: int, target: str, schedule: Mapping[str, int | str]
) -> dict[str, Any]:
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    tile = PRODUCT_TILE, PRODUCT_TILE
    path.write_bytes(compile_layer(layer, target, Variant(tile, schedule), copies=FEW_COPIES))
    print(path, schedule, flush=True)
    return {"layer": asdict(layer), "target": target, "schedule": schedule, "file": path.name}


def _variants(
    layer: GpuLayer, promising: int, summed_blocks: list[int], limits: list[float]
) -> Iterator[tuple[str, Candidate]]:
    """By name: the choice, what it would be with less or with larger errors, and the most promising."""
    from iree.winograd.pipelines.selection.candidates import implementations
    from iree.winograd.pipelines.selection.prediction import candidate

    workload = workload_of(layer, TARGET, None)
    problem, space, limit = workload.problem, workload.space, workload.max_relative_error
    candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
    candidates.sort(key=lambda each: each.predicted_seconds)
    accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
    loose = [each for each in candidates if each.predicted_error <= LOOSE_ERROR]

    def of_kind(kind: str, among: list[Candidate]) -> list[Candidate]:
        return [each for each in among if each.implementation.schedule.kind == kind]

    yield "chosen", workload.default
    yield from _by_blocks(workload, summed_blocks)
    yield "sm_80", of_kind("split", accurate)[0]
    yield "fp32", next(each for each in accurate if not each.implementation.schedule.matrix_products)
    yield "1e-3", loose[0]
    for each in limits:
        yield f"at {each:g}", next(one for one in candidates if one.predicted_error <= each)
    rounded = [each for each in loose if each.implementation.schedule.matrix_products == 1]
    for each in (*of_kind("warpgroup", accurate)[:promising], *rounded[1 : promising + 1]):
        yield str(each.implementation), each


def _by_blocks(workload: Workload, summed_blocks: list[int]) -> Iterator[tuple[str, Candidate]]:
    """The choice with matrix units adding up all large products, or other blocks of them."""
    from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.pipelines.selection.prediction import candidate

    chosen = workload.default.implementation
    schedule = chosen.schedule
    if not isinstance(schedule, MatrixSchedule):
        return
    for block in (None, *summed_blocks):
        try:
            other = replace(schedule, summed_block=block)
        except ValueError:
            # Staged ones sum no other blocks than those of a stage.
            continue
        if other != schedule:
            name = "one sum" if block is None else f"blocks of {block}"
            yield name, candidate(workload.problem, workload.space, Implementation(chosen.algorithm, other))


def _build_case(folder: Path, number: int, case: Case) -> dict[str, Any]:
    import iree.winograd
    from iree.compiler import ir
    from iree.winograd.passes.frame.algorithm import Algorithm
    from iree.winograd.passes.match.problem import ConvolutionProblem
    from iree.winograd.pipelines.backends.schedules import schedule_from_record
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.pipelines.selection.prediction import algorithm_error
    from iree.winograd.tuning.measuring.convolution_program import ConvolutionProgram

    problem = ConvolutionProblem.parse(case.problem)
    program = ConvolutionProgram(problem)
    # Without biases, results have the scale of the image.
    program.bias[...] = 0
    algorithm = Algorithm(case.output_tile, case.part_size)
    schedule = schedule_from_record(case.schedule)
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        source = str(program.build(context, Implementation(algorithm, schedule)))
    compiled = iree.winograd.compile(source, target=TARGET, strict=True)
    (folder / f"case-{number}.vmfb").write_bytes(bytes(compiled))
    sums = _sums(program)
    np.savez(folder / f"case-{number}.npz", image=program.image, sums=sums)
    predicted = algorithm_error(problem, algorithm, schedule.summed_block, schedule.matrix_products)
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
        "products": [],
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
    for record in programs["products"]:
        report["products"].append(_measure_products(folder, record))
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


def _measure_products(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The seconds of the batched products of a layer, and of cuBLAS'."""
    import torch

    from benchmarks.gpu import LayerProgram, cublas_products, stage_seconds

    layer = GpuLayer(**record["layer"])
    sizes = (layer.taps, layer.taps, layer.channels, layer.filters)
    image = torch.randn(layer.batch, layer.size, layer.size, layer.channels, device="cuda")
    tensors = image, torch.randn(*sizes, device="cuda"), torch.zeros(layer.filters, device="cuda")
    program = LayerProgram(folder / record["file"], "cuda", tensors)
    program.few()
    seconds = stage_seconds(program.few)["products"]
    cublas = {}
    for name, allowed in (("fp32", False), ("tf32", True)):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        cublas[name] = cublas_products(layer, (PRODUCT_TILE, PRODUCT_TILE))
    flops = cublas["fp32"]["flops"]
    rates = {"ours": flops / seconds, **{name: flops / each["seconds"] for name, each in cublas.items()}}
    terms = ", ".join(f"{name} {rate / 1e12:.0f}" for name, rate in rates.items())
    print(f"{layer.name} {record['target']} {record['schedule']} TFLOP/s: {terms}", flush=True)
    torch.cuda.empty_cache()
    return {**record, "seconds": seconds, "cublas": cublas, "flops_per_second": rates}


def layer_in_float64(layer: GpuLayer, image: Any, filters: Any, bias: Any) -> npt.NDArray[np.float64]:
    """The layer's result for the first image."""
    import torch

    x, w = image[:1].permute(0, 3, 1, 2).double(), filters.permute(3, 2, 0, 1).double()
    sums = torch.nn.functional.conv2d(x, w, bias.double(), padding=layer.taps // 2)
    found: npt.NDArray[np.float64] = torch.relu(sums[0].permute(1, 2, 0)).cpu().numpy()
    return found


def _cudnn_result(layer: GpuLayer, image: Any, filters: Any, bias: Any) -> npt.NDArray[np.float32]:
    """The same of cuDNN."""
    import torch

    x = image.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    w = filters.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    sums = torch.nn.functional.conv2d(x, w, bias, padding=layer.taps // 2)
    found: npt.NDArray[np.float32] = torch.relu(sums[0].permute(1, 2, 0)).cpu().numpy()
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
