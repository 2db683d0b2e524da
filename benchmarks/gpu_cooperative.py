"""Products on matrix units through Vulkan, as cooperative matrices: are they right, and how fast.

    python -m benchmarks.gpu_cooperative build build/gpu-cooperative     (where the compiler is)
    python -m benchmarks.gpu_cooperative run build/gpu-cooperative \\
      --output build/gpu-cooperative.json                               (the GPU)

Convolutions of many kinds are compared with float64 as `benchmarks.gpu_split` does. Then the batched products
of F(4x4, 3x3) are timed apart, by a chain of dispatches of the kernel that multiplies, beside cuBLAS' in fp32
and in TF32, and ResNet's layers, as chosen, without matrix units, and by other schedules, beside cuDNN's.
Running needs the runtime and torch, not the compiler.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache, lru_cache
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.build_and_run import build_and_run_parser, software_and_device
from benchmarks.gpu_programs import RESNET, Variant, compile_layer, program, variant_of, workload_of
from benchmarks.gpu_split_cases import PRODUCT_TILE, PRODUCTS, Case
from benchmarks.gpu_split_programs import build_case
from benchmarks.gpu_split_run import by_cudnn, check_case, cublas_by_precision, error_of
from benchmarks.square_layer import SquareLayer

if TYPE_CHECKING:
    from iree.winograd.pipelines.selection.decision import Candidate

TARGET = "vulkan:ampere"
PARTS = ("cases", "products", "layers")
"""What is built and run."""
CHAINS = (8, 40)
"""Dispatches, by whose difference a product is timed."""

_3X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"
_1X1 = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups"
_STRIDED = "kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32"
_5X5 = "kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32"
_DIRECT = (1, 1), (1, 1)


def _cooperative(
    rows: int = 64,
    columns: int = 64,
    warp: tuple[int, int] = (32, 64),
    summed_block: int | None = 64,
    products: int = 3,
) -> dict[str, int | str]:
    sizes = {"block_rows": rows, "block_columns": columns, "warp_rows": warp[0], "warp_columns": warp[1]}
    blocks = {} if summed_block is None or products == 1 else {"summed_block": summed_block}
    return {"kind": "cooperative", **sizes, "stages": 2, "products": products, **blocks}


CASES = (
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3), _cooperative()) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative(128, 64)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative(64, 64, (32, 32))),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative(128, 128)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative()),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3), _cooperative()),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative()),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", *_DIRECT, _cooperative()),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", *_DIRECT, _cooperative(64, 64, (32, 32))),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", *_DIRECT, _cooperative()),
    Case(f"4x28x28x64->64 {_STRIDED}", (4, 4), (2, 2), _cooperative()),
    Case(f"4x20x20x16->16 {_5X5}", (4, 4), (3, 3), _cooperative()),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,), _cooperative()),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), _cooperative(products=1)),
)
SCHEDULES = (
    _cooperative(64, 64, (32, 32)),
    _cooperative(64, 64),
    _cooperative(128, 64),
    _cooperative(128, 64, summed_block=128),
    _cooperative(128, 64, summed_block=None),
    _cooperative(192, 64, (48, 64)),
    _cooperative(96, 128, (48, 64)),
    _cooperative(96, 128, (48, 64), summed_block=128),
    _cooperative(128, 128),
    _cooperative(128, 128, (64, 64), summed_block=128),
    _cooperative(128, 128, (64, 64), summed_block=256),
    _cooperative(128, 128, (64, 64), summed_block=None),
    {"kind": "gemm", "block_rows": 128, "block_columns": 128, "block_reduction": 16},
)
"""Those that products are timed by, without matrix units, too."""

LAYER_SCHEDULES = (
    _cooperative(64, 64, (32, 32)),
    _cooperative(96, 128, (48, 64)),
    _cooperative(128, 128, (64, 64), summed_block=128),
    _cooperative(128, 128, (64, 64), summed_block=None),
)
"""Those that layers are timed by, beside their choices."""


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=7)
    parser.add_argument("--batches", nargs="+", type=int, default=[32], help="of the layers")
    parser.add_argument("--machine", type=Path, default=Path("benchmarks/results/machine-h200-vulkan.json"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="to build")
    parser.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder, options.batches, options.machine, options.processes, options.only)
    else:
        run(options.folder, options.output, options.rounds)


# Where the compiler is


def build(folder: Path, batches: list[int], machine: Path, processes: int, parts: Sequence[str]) -> None:
    """Compile all programs, and write what running them needs to know."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        cases = [
            pool.submit(build_case, folder, number, case, TARGET)
            for number, case in enumerate(CASES)
            if "cases" in parts
        ]
        products = [
            pool.submit(_build_products, folder, layer, number, schedule)
            for layer in PRODUCTS
            if "products" in parts
            for number, schedule in enumerate(SCHEDULES)
        ]
        layers = [
            pool.submit(_build_layer, folder, layer, number, name, variant, facts, machine)
            for layer in RESNET
            if "layers" in parts and layer.batch in batches
            for number, (name, variant, facts) in enumerate(_variants(layer, machine))
        ]
        report = {
            name: [each.result() for each in built]
            for name, built in zip(PARTS, (cases, products, layers), strict=True)
        }
    (folder / "programs.json").write_text(json.dumps(report))


def _variants(layer: SquareLayer, machine: Path) -> Iterator[tuple[str, Variant, dict[str, Any]]]:
    """The choice, what it would be without matrix units or by sums in one, and F(4x4) by kinds of warps."""
    from iree.winograd.pipelines.gpu.choice.search_space import RUNNING_SUM_ERROR
    from iree.winograd.pipelines.selection.candidates import implementations
    from iree.winograd.pipelines.selection.prediction import candidate

    workload = workload_of(layer, TARGET, machine)
    problem, space = workload.problem, workload.space
    candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
    candidates.sort(key=lambda each: each.predicted_seconds)

    def facts(one: Candidate) -> dict[str, Any]:
        return {"predicted": dict(one.stage_seconds), "predicted_error": one.predicted_error}

    without = next(
        each
        for each in candidates
        if not each.implementation.schedule.matrix_products and each.predicted_error <= RUNNING_SUM_ERROR
    )
    loose = next(each for each in candidates if each.predicted_error <= RUNNING_SUM_ERROR)
    for name, one in (("chosen", workload.default), ("without", without), ("at 4e-6", loose)):
        yield name, variant_of(one), facts(one)
    for schedule in LAYER_SCHEDULES:
        tile = PRODUCT_TILE, PRODUCT_TILE
        yield f"F(4x4) {_name(schedule)}", Variant(tile, schedule), {}


def _name(schedule: Mapping[str, int | str]) -> str:
    sizes = [str(schedule[name]) for name in schedule if name.startswith(("block_", "warp_"))]
    blocks = f" in blocks of {schedule['summed_block']}" if "summed_block" in schedule else ""
    return f"{schedule['kind']} {'x'.join(sizes)}{blocks}"


def _build_layer(
    folder: Path, layer: SquareLayer, number: int, name: str, variant: Variant, facts: Any, machine: Path
) -> dict[str, Any]:
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    path.write_bytes(compile_layer(layer, TARGET, variant, machine))
    print(path, name, variant.name, flush=True)
    return {"layer": asdict(layer), "variant": name, "name": variant.name, "file": path.name, **facts}


def _build_products(
    folder: Path, layer: SquareLayer, number: int, schedule: Mapping[str, int | str]
) -> dict[str, Any]:
    """Chains of the kernel that multiplies, which writes the same products again and again."""
    import iree.winograd

    text = _lowered(program(layer, Variant((PRODUCT_TILE, PRODUCT_TILE), schedule)))
    executable = re.search(
        r"^  stream\.executable private @(winograd_products\w*) \{\n.*?^  \}\n", text, re.M | re.S
    )
    assert executable is not None
    dispatch = re.search(
        rf"flow\.dispatch @{executable[1]}::@\w+\(.*\) : \((tensor<\S+>), (tensor<\S+>)\) -> (tensor<\S+>)",
        text,
    )
    assert dispatch is not None
    left, filters, products = dispatch.groups()
    functions = [_chain(executable[1], count, left, filters, products) for count in CHAINS]
    aliases = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
    source = f"{aliases}module {{\n{executable[0]}{''.join(functions)}}}\n"
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    path.write_bytes(bytes(iree.winograd.compile(source, target=TARGET)))
    print(path, _name(schedule), flush=True)
    shapes = [[int(size) for size in re.findall(r"(\d+)x", type_)] for type_ in dispatch.groups()]
    return {"layer": asdict(layer), "schedule": schedule, "file": path.name, "shapes": shapes}


def _chain(kernel: str, count: int, left: str, filters: str, products: str) -> str:
    names = [f"%products_{number}" for number in range(count + 1)]
    dispatches = "".join(
        f"    {after} = flow.dispatch @{kernel}::@{kernel}(%left, %filters, {before})"
        f" : ({left}, {filters}, {products}) -> {before}\n"
        for before, after in pairwise(names)
    )
    return (
        f"  util.func public @chain_{count}(%left: {left}, %filters: {filters}, {names[0]}: {products})"
        f" -> {products} {{\n{dispatches}    util.return {names[-1]} : {products}\n  }}\n"
    )


def _lowered(source: str) -> str:
    """A program after this project's passes, its kernels among it."""
    from iree.compiler import api
    from iree.winograd.compiling.compilation import Compilation
    from iree.winograd.compiling.ir_dumps import IRDumps
    from iree.winograd.compiling.kernel_failures import take_kernel_users
    from iree.winograd.compiling.pass_pipeline import run_passes
    from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
    from iree.winograd.compiling.program import open_session
    from iree.winograd.passes.infrastructure.containment import Containment
    from iree.winograd.pipelines.compile_pipeline import compile_pipeline
    from iree.winograd.pipelines.selection.options import WinogradOptions
    from iree.winograd.targets import target_flags

    options = WinogradOptions()
    session = open_session(target_flags(TARGET), options)
    with Compilation(session, None, Stages(compile_to=REWRITE_PHASE), report=print) as compilation:
        invocation = compilation.compile(api.Source.wrap_buffer(compilation.session, source.encode() + b"\0"))
        assert invocation is not None
        module = invocation.export_module()
        run_passes(module, compile_pipeline(options, [].append), IRDumps(), Containment())
        take_kernel_users(module)
        return str(module)


# Where the GPU is


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Check all cases, time products and layers; exits with 1 where something is wrong."""

    programs = json.loads((folder / "programs.json").read_text())
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.gpu_cooperative", *sys.argv[1:]]),
        **software_and_device(),
        "cases": [],
        "products": [],
        "layers": [],
    }

    def measure(kind: str, measuring: Callable[[], dict[str, Any]]) -> None:
        try:
            report[kind].append(measuring())
        except Exception as error:
            # One program that fails must not lose the results of the others.
            print("FAILED", kind, repr(error)[:500], flush=True)
            report[kind].append({"failure": repr(error)})
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1))

    for case in programs["cases"]:
        measure("cases", lambda case=case: check_case(folder, case, "vulkan"))  # type: ignore[misc]
    for record in programs["products"]:
        measure("products", lambda record=record: _measure_products(folder, record, rounds))  # type: ignore[misc]
    by_layer: dict[SquareLayer, list[dict[str, Any]]] = {}
    for record in programs["layers"]:
        by_layer.setdefault(SquareLayer(**record["layer"]), []).append(record)
    for layer, records in by_layer.items():
        measure("layers", lambda layer=layer, records=records: _measure(folder, layer, records, rounds))  # type: ignore[misc]
    sys.exit(not all(case.get("right") for case in report["cases"]))


def _measure_products(folder: Path, record: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The seconds of the batched products of a layer, and of cuBLAS'."""
    import torch
    from iree import runtime

    layer = SquareLayer(**record["layer"])
    config = _vulkan()
    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(context.instance, str(folder / record["file"]))
    context.add_vm_module(module)
    arguments = _random_operands(*map(tuple, record["shapes"]))
    samples: dict[int, list[float]] = {count: [] for count in CHAINS}
    for _ in range(rounds + 1):
        for count in CHAINS:
            start = time.perf_counter()
            context.modules[module.name][f"chain_{count}"](*arguments)
            samples[count].append(time.perf_counter() - start)
    few, many = (min(samples[count][1:]) for count in CHAINS)
    seconds = (many - few) / (CHAINS[1] - CHAINS[0])
    medians = [statistics.median(samples[count][1:]) for count in CHAINS]
    cublas = cublas_by_precision(layer)
    flops = cublas["fp32"]["flops"]
    rates = {"ours": flops / seconds, **{name: flops / each["seconds"] for name, each in cublas.items()}}
    terms = ", ".join(f"{name} {rate / 1e12:.0f}" for name, rate in rates.items())
    print(f"{layer.name} {_name(record['schedule'])} {seconds * 1e6:.1f} us, TFLOP/s: {terms}", flush=True)
    torch.cuda.empty_cache()
    by_medians = (medians[1] - medians[0]) / (CHAINS[1] - CHAINS[0])
    return {
        **record,
        "seconds": seconds,
        "seconds_by_medians": by_medians,
        "cublas": cublas,
        "flops_per_second": rates,
    }


@cache
def _vulkan() -> Any:
    from iree import runtime

    return runtime.Config("vulkan")


@lru_cache(maxsize=2)
def _random_operands(*shapes: tuple[int, ...]) -> list[Any]:
    """On the device, packed fp16 numbers of both operands, and memory for the products."""
    import torch
    from iree import runtime

    *operands, results = shapes
    generator = torch.Generator(device="cuda").manual_seed(0)
    halves = [
        torch.randn(*outer, 2 * inner, device="cuda", generator=generator).half()
        for *outer, inner in operands
    ]
    arrays = [each.cpu().numpy().view(np.float32) for each in halves] + [np.zeros(results, np.float32)]
    return [runtime.asdevicearray(_vulkan().device, array) for array in arrays]


def _measure(folder: Path, layer: SquareLayer, records: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    import torch

    from benchmarks.gpu import LayerProgram, time_programs

    operands, exact, cudnn = by_cudnn(layer)
    result: dict[str, Any] = {"layer": asdict(layer), "flops": layer.flops, "cudnn": cudnn, "ours": []}
    for name, measured in cudnn.items():
        print(
            f"{layer.name} cuDNN {name}: {measured['seconds'] * 1e6:.1f} us, error {measured['error']:.1e}",
            flush=True,
        )
    programs = []
    for record in records:
        measured = {name: value for name, value in record.items() if name not in ("layer", "file")}
        result["ours"].append(measured)
        try:
            one = LayerProgram(folder / record["file"], "vulkan", operands)
            measured["error"] = error_of(one.output()[0], exact)
            programs.append((one, measured))
        except Exception as error:
            measured["failure"] = repr(error)
            print("FAILED", layer.name, record["variant"], repr(error)[:500], flush=True)
    time_programs(programs, rounds)
    for _, measured in programs:
        ratios = [result["cudnn"][name]["seconds"] / measured["seconds"] for name in ("fp32", "tf32")]
        print(
            f"  {measured['variant']:30} {measured['name']:40} {measured['seconds'] * 1e6:8.1f} us "
            f" error {measured['error']:.1e}  of cuDNN's speed {ratios[0]:.2f} (fp32) {ratios[1]:.2f} (TF32)",
            flush=True,
        )
    torch.cuda.empty_cache()
    return result


if __name__ == "__main__":
    main()
