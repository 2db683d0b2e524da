"""Times whole networks on a GPU, through CUDA and Vulkan, beside torch with cuDNN.

    python -m benchmarks.gpu_models import build/gpu-models       (where torch-mlir is)
    python -m benchmarks.gpu_models compile build/gpu-models      (where the compiler is)
    python -m benchmarks.gpu_models measure build/gpu-models --output benchmarks/results/gpu-models.json

A program holds no weights: they are parameters, which `measure` takes from the network as it builds it from
the same seed, and filters are transformed once, when the program is loaded. Times are of whole calls, from
images to scores on the device, the host's part included. cuDNN runs with TF32 off and on and with its own
search, operator by operator and as a CUDA graph, in both layouts. Errors are the largest difference from
float64 over the largest score. A program is loaded twice: the driver compiles its code the first time, and
keeps it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.build_and_run import software_and_device
from benchmarks.gpu import on_host
from benchmarks.networks.catalog import NETWORKS

if TYPE_CHECKING:
    from iree.winograd.importers.imported_model import ImportedModel

Array = npt.NDArray[Any]

SCOPE = "model"
# IREE evaluates constant expressions at load time only as long as their results are not much larger.
HOIST_FLAG = "--iree-opt-const-expr-max-size-increase-threshold=1000000000000"
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    importing = commands.add_parser("import", help="write the networks as MLIR into a folder")
    importing.add_argument("folder", type=Path)
    importing.add_argument(
        "--networks", nargs="+", choices=NETWORKS, default=["resnet18", "resnet50", "vgg16"]
    )
    importing.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    importing.set_defaults(run=_import)
    compiling = commands.add_parser("compile", help="write the programs into the folder")
    compiling.add_argument("folder", type=Path)
    compiling.add_argument("--targets", nargs="+", default=["cuda:sm_90a", "vulkan:ampere"])
    compiling.add_argument(
        "--errors",
        nargs="+",
        default=["auto"],
        help="that layers may have, for a program each: `auto` or a number",
    )
    compiling.add_argument(
        "--ptxas", help="the assembler by which there is one more program of each, where kernels are for CUDA"
    )
    compiling.add_argument("--processes", type=int, default=1, help="that compile at the same time")
    compiling.add_argument(
        "--machine", type=Path, help="the GPU that times are predicted for, as `calibrate` wrote it"
    )
    compiling.set_defaults(run=_compile)
    measuring = commands.add_parser("measure", help="time the programs of a folder")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--output", type=Path)
    measuring.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    measuring.add_argument("--rounds", type=int, default=30)
    measuring.set_defaults(run=_measure)
    options = parser.parse_args()
    options.run(options)


def _import(options: argparse.Namespace) -> None:
    import iree.winograd

    options.folder.mkdir(parents=True, exist_ok=True)
    records = []
    for name in options.networks:
        model = NETWORKS[name].calibrated()
        names = {_digest(tensor.numpy()): key for key, tensor in model.state_dict().items()}
        for batch in options.batches:
            imported = iree.winograd.import_torch(model, _images(name, batch))
            weights = {weight: names[_digest(array)] for weight, array in imported.weights.items()}
            source = f"{name}-{batch}.mlir"
            (options.folder / source).write_text(_with_parameters(imported))
            records.append({"network": name, "batch": batch, "source": source, "weights": weights})
            (options.folder / "imports.json").write_text(json.dumps(records))
            print(source, flush=True)


def _compile(options: argparse.Namespace) -> None:
    records = json.loads((options.folder / "imports.json").read_text())
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        programs = [
            pool.submit(_compile_program, options.folder, options.machine, record, target, error, ptxas)
            for record in records
            for target in options.targets
            for error in options.errors
            for ptxas in ((None, options.ptxas) if options.ptxas is not None else (None,))
        ]
        compiled = [program.result() for program in programs]
    (options.folder / "programs.json").write_text(json.dumps(compiled))


def _compile_program(
    folder: Path, machine: Path | None, record: dict[str, Any], target: str, error: str, ptxas: str | None
) -> dict[str, Any]:
    import iree.winograd

    variant = f"{target} {error}" if ptxas is None else f"{target} {error} assembled"
    name = f"{record['network']}-{record['batch']}-{variant}.vmfb".replace(":", "-").replace(" ", "-")
    path = folder / name
    iree.winograd.compile(
        folder / record["source"],
        target=target,
        output=path,
        fold_filters="load",
        machine=machine,
        max_relative_error=None if error == "auto" else float(error),
        ptxas=ptxas,
        strict=True,
        flags=[HOIST_FLAG],
    )
    print(path, flush=True)
    return {**record, "target": target, "variant": variant, "file": path.name}


def _with_parameters(imported: ImportedModel) -> str:
    """The program with parameters for weights."""
    from iree.compiler import ir
    from iree.winograd.importers.imported_model import WEIGHT_ATTRIBUTE

    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(imported.program)
        declared = set()
        for constant in list(_constants(module.operation)):
            if WEIGHT_ATTRIBUTE not in constant.attributes:
                continue
            name, type_ = ir.StringAttr(constant.attributes[WEIGHT_ATTRIBUTE]).value, constant.results[0].type
            if name not in declared:
                declared.add(name)
                attributes = {
                    "sym_name": ir.StringAttr.get(name),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "type": ir.TypeAttr.get(type_),
                    "initial_value": ir.Attribute.parse(
                        f'#flow.parameter.named<"{SCOPE}"::"{name}"> : {type_}'
                    ),
                }
                with ir.InsertionPoint.at_block_begin(module.body):
                    ir.Operation.create("util.global", attributes=attributes)
            with ir.InsertionPoint(constant):
                loaded = ir.Operation.create(
                    "util.global.load",
                    results=[type_],
                    attributes={"global": ir.FlatSymbolRefAttr.get(name), "is_immutable": ir.UnitAttr.get()},
                )
            constant.results[0].replace_all_uses_with(loaded.results[0])
            constant.erase()
        return str(module)


def _constants(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for nested in block:
                if nested.operation.name == "arith.constant":
                    yield nested.operation
                yield from _constants(nested.operation)


def _digest(array: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _images(name: str, batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, *NETWORKS[name].input_shape, generator=generator)


def _measure(options: argparse.Namespace) -> None:
    torch.backends.cudnn.benchmark = True
    report: dict[str, Any] = {
        **software_and_device(),
        "networks": [],
    }
    models: dict[str, torch.nn.Module] = {}
    references: dict[tuple[str, int], dict[str, Any]] = {}
    for record in json.loads((options.folder / "programs.json").read_text()):
        name, batch = record["network"], record["batch"]
        if name not in options.networks:
            continue
        if name not in models:
            models = {name: NETWORKS[name].calibrated()}
        images = _images(name, batch)
        exact = _exact(models[name], images)
        if (name, batch) not in references:
            references[name, batch] = {
                precision: _cudnn(models[name], images, exact, options.rounds, precision == "tf32")
                for precision in ("fp32", "tf32")
            }
            report["networks"].append(
                {"network": name, "batch": batch, "cudnn": references[name, batch], "ours": {}}
            )
            print(name, batch, json.dumps(references[name, batch]), flush=True)
        try:
            ours = _ours(record, options.folder, models[name], images, exact, options.rounds)
        except Exception as error:
            # One program that fails must not lose the results of the others.
            ours = {"failure": repr(error)}
        report["networks"][-1]["ours"][record["variant"]] = ours
        print(name, batch, record["variant"], json.dumps(ours), flush=True)
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(report, indent=1))


def _exact(model: torch.nn.Module, images: torch.Tensor) -> Array:
    """The scores in float64."""
    with torch.inference_mode():
        scores: Array = model.double().cuda()(images.double().cuda()).cpu().numpy()
    model.float().cpu()
    torch.cuda.empty_cache()
    return scores


def _cudnn(
    model: torch.nn.Module, images: torch.Tensor, exact: Array, rounds: int, tf32: bool
) -> dict[str, Any]:
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    seconds: dict[str, Any] = {}
    with torch.inference_mode():
        for name, layout in LAYOUTS.items():
            placed: Any = model.cuda().to(memory_format=layout)  # type: ignore[call-overload]
            x = images.cuda().contiguous(memory_format=layout)
            try:
                seconds["error"] = _error(placed(x).cpu().numpy(), exact)
            except RuntimeError:
                # A view of the features, as in VGG, asks for contiguous ones.
                continue
            seconds[f"eager {name}"] = _median(_awaited(lambda placed=placed, x=x: placed(x)), rounds)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                placed(x)
            seconds[f"graph {name}"] = _median(_awaited(graph.replay), rounds)
            del graph
    model.cpu().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    torch.cuda.empty_cache()
    return seconds


def _awaited(call: Callable[[], Any]) -> Callable[[], None]:
    """The call, and waiting for what it started."""

    def awaited() -> None:
        call()
        torch.cuda.synchronize()

    return awaited


def _ours(
    record: dict[str, Any],
    folder: Path,
    model: torch.nn.Module,
    images: torch.Tensor,
    exact: Array,
    rounds: int,
) -> dict[str, Any]:
    from iree import runtime

    instance = runtime.VmInstance()
    device = runtime.get_device(record["target"].split(":")[0])
    tensors = model.state_dict()
    arrays = {weight: tensors[key].contiguous().numpy() for weight, key in record["weights"].items()}
    archive = folder / "weights.irpa"
    runtime.save_archive_file(arrays, archive)
    parameters = runtime.ParameterIndex()
    parameters.load(str(archive))

    def load() -> tuple[Any, Any]:
        module = runtime.VmModule.mmap(instance, str(folder / record["file"]))
        provider = parameters.create_provider(scope=SCOPE)
        modules = [
            runtime.create_io_parameters_module(instance, provider),
            runtime.create_hal_module(instance, device),
            module,
        ]
        return runtime.VmContext(instance, modules), module

    seconds = {}
    for name in ("load", "load again"):
        begin = time.perf_counter()
        context, module = load()
        seconds[name] = time.perf_counter() - begin
    argument = device.allocator.allocate_buffer_copy(
        memory_type=runtime.MemoryType.DEVICE_LOCAL,
        allowed_usage=runtime.BufferUsage.DEFAULT,
        device=device,
        buffer=images.numpy(),
        element_type=runtime.HalElementType.FLOAT_32,
    )
    function = module.lookup_function("main")

    def call() -> Any:
        arguments, results = runtime.VmVariantList(1), runtime.VmVariantList(1)
        arguments.push_ref(argument)
        context.invoke(function, arguments, results)
        return results

    view = call().get_as_object(0, runtime.HalBufferView)
    error = _error(on_host(device, view), exact)
    return {"call": _median(call, rounds), **seconds, "error": error}


def _error(scores: Array, exact: Array) -> float:
    return float(np.abs(scores - exact).max() / np.abs(exact).max())


def _median(call: Callable[[], Any], rounds: int) -> float:
    """The median of the seconds of a call that waits for its end.

    IREE's do. Waiting for the whole device after one would make CUDA give back the memory that the next call
    needs again.
    """
    samples = []
    for _ in range(rounds + 3):
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples[3:])


if __name__ == "__main__":
    main()
