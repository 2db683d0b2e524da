"""Times convolution layers on a GPU: ours through CUDA and Vulkan beside cuDNN, all in single precision.

    python -m benchmarks.gpu_programs build/gpu-programs      (where the compiler is)
    python -m benchmarks.gpu build/gpu-programs --output benchmarks/results/gpu.json      (where the GPU is)

All times are of the device. Ours is the difference of a program that computes the layer `CHAIN` times and one
that computes it once or, where its output can't be its next input, the sum over its kernels without that of
the filters, as CUPTI saw them; cuDNN's is a CUDA graph of as many convolutions. cuDNN runs with TF32 off and
its own search on, in the better of both layouts, with a bias but, unlike ours, without the ReLU. The limits
are cuBLAS' sgemm and a copy on the device; `stages` has the seconds of each of our kernels, and
`cublas_products` those of cuBLAS for the same products.
This module needs the runtime and torch, not the
compiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from iree import runtime
from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu_programs import CHAIN, GpuLayer

DRIVERS = {"cuda": "cuda", "vulkan": "vulkan", "hip": "hip"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what `benchmarks.gpu_programs` wrote")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop starting layers after so long"
    )
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    start = time.monotonic()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "limits": _limits(),
        "layers": [],
    }
    print(report, flush=True)
    by_layer: dict[GpuLayer, list[dict[str, Any]]] = defaultdict(list)
    for record in json.loads((options.folder / "programs.json").read_text()):
        by_layer[GpuLayer(**record["layer"])].append(record)
    for layer, records in by_layer.items():
        if time.monotonic() - start > options.seconds:
            print("out of time")
            break
        report["layers"].append(_measure(layer, records, options.folder, options.rounds))
        _print(report["layers"][-1])
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(report, indent=1))


def _limits() -> dict[str, float]:
    """FLOP/s of sgemm and bytes/s of a copy, bytes read and written counted."""
    elements = 1 << 28
    source = torch.randn(elements, device="cuda")
    target = torch.empty_like(source)
    copy = _torch_seconds(lambda: torch.mul(source, 1, out=target), 4)
    matrix = torch.randn(8192, 8192, device="cuda")
    sgemm = _torch_seconds(lambda: matrix @ matrix, 4)
    return {"sgemm": 2 * 8192**3 / sgemm, "copy": 2 * 4 * elements / copy}


def _torch_seconds(run: Callable[[], Any], count: int = CHAIN, rounds: int = 5) -> float:
    """The device's seconds for one call, from a CUDA graph of `count` calls."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(rounds + 1):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        samples.append(begin.elapsed_time(end) / 1e3 / count)
    return statistics.median(samples[1:])


def _measure(layer: GpuLayer, records: list[dict[str, Any]], folder: Path, rounds: int) -> dict[str, Any]:
    generator = torch.Generator(device="cuda").manual_seed(0)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device="cuda", generator=generator)

    image = random(layer.batch, layer.size, layer.size, layer.channels)
    # Filters that keep the scale of a chain of layers.
    scale = (2 / (layer.taps**2 * layer.channels)) ** 0.5
    filters = scale * random(layer.taps, layer.taps, layer.channels, layer.filters)
    bias = 0.1 * random(layer.filters)
    with torch.inference_mode():
        cudnn = _cudnn_seconds(layer, image, filters, bias)
        exact = _exact(layer, image, filters, bias)
    ours = []
    for record in records:
        try:
            ours.append(_measure_program(layer, record, folder, (image, filters, bias), exact, rounds))
        except Exception as error:
            # One program that fails must not lose the results of the others.
            ours.append({**record, "error": repr(error)})
    torch.cuda.empty_cache()
    return {"layer": asdict(layer), "name": layer.name, "flops": layer.flops, "cudnn": cudnn, "ours": ours}


def _cudnn_seconds(
    layer: GpuLayer, image: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor
) -> dict[str, float]:
    seconds = {}
    for name, layout in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        x = image.permute(0, 3, 1, 2).contiguous(memory_format=layout)
        w = filters.permute(3, 2, 0, 1).contiguous(memory_format=layout)
        seconds[name] = _torch_seconds(
            lambda x=x, w=w: torch.nn.functional.conv2d(x, w, bias, padding=layer.taps // 2)
        )
    return seconds


def _exact(layer: GpuLayer, image: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The output of the first image in float64."""
    x = image[:1].permute(0, 3, 1, 2).double()
    w = filters.permute(3, 2, 0, 1).double()
    y = torch.nn.functional.conv2d(x, w, bias.double(), padding=layer.taps // 2)
    return torch.relu(y)[0].permute(1, 2, 0).cpu()


def _measure_program(
    layer: GpuLayer,
    record: dict[str, Any],
    folder: Path,
    tensors: tuple[torch.Tensor, ...],
    exact: torch.Tensor,
    rounds: int,
) -> dict[str, Any]:
    program = _Program(folder / record["file"], DRIVERS[record["target"].split(":")[0]], tensors)
    output = program.output()[0]
    result = {
        "target": record["target"],
        "variant": record["variant"],
        "relative_error": float((torch.from_numpy(output).double() - exact).abs().max() / exact.abs().max()),
    }
    if layer.can_chain:
        result |= _chain_seconds(program, rounds)
    if record["target"].startswith("cuda"):
        stages = _stages(program.chained if layer.can_chain else program.once)
        result["stages"] = stages
        result.setdefault("seconds", sum(stages.values()) - stages["filter"])
        if record["output_tile"] is not None:
            result["cublas_products"] = _cublas_seconds(layer, record["output_tile"])
    return result


def _chain_seconds(program: _Program, rounds: int) -> dict[str, float]:
    once, chained = [], []
    for _ in range(rounds + 1):
        once.append(_seconds(program.once))
        chained.append(_seconds(program.chained))
    differences = [(many - one) / (CHAIN - 1) for one, many in zip(once[1:], chained[1:], strict=True)]
    return {
        "seconds": statistics.median(differences),
        "interquartile_range": float(np.subtract(*np.percentile(differences, [75, 25]))),
        "call_seconds": statistics.median(once[1:]),
    }


class _Program:
    """A compiled layer on a device, its arguments there."""

    def __init__(self, path: Path, driver: str, tensors: tuple[torch.Tensor, ...]) -> None:
        instance = runtime.VmInstance()
        self._device = runtime.get_device(driver)
        module = runtime.VmModule.mmap(instance, str(path))
        self._context = runtime.VmContext(
            instance, [runtime.create_hal_module(instance, self._device), module]
        )
        self._arguments = [self._upload(tensor) for tensor in tensors]
        self._once = module.lookup_function("once")
        self._chained = module.lookup_function("chained") if "chained" in module.function_names else None

    def once(self) -> Any:
        return self._call(self._once)

    def chained(self) -> Any:
        return self._call(self._chained)

    def output(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        view = self.once().get_as_object(0, runtime.HalBufferView)
        return np.array(runtime.DeviceArray(self._device, view).to_host())

    def _call(self, function: Any) -> Any:
        arguments = runtime.VmVariantList(len(self._arguments))
        for argument in self._arguments:
            arguments.push_ref(argument)
        results = runtime.VmVariantList(1)
        self._context.invoke(function, arguments, results)
        return results

    def _upload(self, tensor: torch.Tensor) -> Any:
        return self._device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=self._device,
            buffer=np.ascontiguousarray(tensor.cpu().numpy()),
            element_type=runtime.HalElementType.FLOAT_32,
        )


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _stages(run: Callable[[], Any]) -> dict[str, float]:
    """The mean seconds of each of our kernels."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
    return {
        event.key.split("_")[1]: event.device_time_total / event.count / 1e6
        for event in profiler.key_averages()
        if event.key.startswith("winograd_")
    }


def _cublas_seconds(layer: GpuLayer, output_tile: Sequence[int]) -> dict[str, float]:
    """cuBLAS' seconds for the products of a layer, and their number of operations."""
    products = prod(m + layer.taps - 1 for m in output_tile)
    tiles = layer.batch * prod(-(-layer.size // m) for m in output_tile)
    left = torch.randn(products, tiles, layer.channels, device="cuda")
    right = torch.randn(products, layer.channels, layer.filters, device="cuda")
    output = torch.empty(products, tiles, layer.filters, device="cuda")
    seconds = _torch_seconds(lambda: torch.bmm(left, right, out=output), 5, 3)
    return {"seconds": seconds, "flops": 2 * prod(left.shape) * layer.filters}


def _print(record: dict[str, Any]) -> None:
    best = min(record["cudnn"].values())
    print(f"{record['name']}: cuDNN {best * 1e6:.1f} us, {record['flops'] / best / 1e12:.1f} TFLOP/s")
    for ours in record["ours"]:
        if "error" in ours:
            print(f"  {ours['target']:14} {ours['variant']:24} {ours['error']}")
            continue
        stages = {name: round(seconds * 1e6, 1) for name, seconds in ours.get("stages", {}).items()}
        print(
            f"  {ours['target']:14} {ours['variant']:24} {ours['seconds'] * 1e6:8.1f} us"
            f" {record['flops'] / ours['seconds'] / 1e12:6.1f} TFLOP/s  speed-up {best / ours['seconds']:.2f}"
            f"  error {ours['relative_error']:.1e}  {stages}",
            flush=True,
        )


if __name__ == "__main__":
    main()
