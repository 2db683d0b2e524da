"""Times convolution layers on a GPU: ours through CUDA and Vulkan beside cuDNN, all in single precision.

    python -m benchmarks.gpu_programs build/gpu-programs      (where the compiler is)
    python -m benchmarks.gpu build/gpu-programs --output benchmarks/results/gpu.json      (where the GPU is)
    python -m benchmarks.gpu build/before build/now      (programs of two versions of this project, in turns)

All times are of the device. Ours is the difference of programs that compute the layer `MANY_COPIES` and
`FEW_COPIES` times; cuDNN's is a CUDA graph of `MANY_COPIES` convolutions. cuDNN runs with TF32 off and its
own search on, in the better of both layouts, with a bias but, unlike ours, without the ReLU. The programs
of a layer and target are called in turns; the choice and the fastest few are then measured again, and for
longer: the best of many noisy times is too good to be true. The limits are cuBLAS' sgemm and a copy on the
device; `stages` has the seconds of each of our kernels as CUPTI saw them, and `cublas_products` those of
cuBLAS for the same products. This module needs the runtime and torch, not the compiler.
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
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from torch.profiler import ProfilerActivity, profile

from benchmarks.build_and_run import software_and_device
from benchmarks.gpu_programs import FEW_COPIES, MANY_COPIES
from benchmarks.square_layer import SquareLayer

CONFIRMED = 3
"""Of the fastest programs of a layer and target, those that are measured again."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="what `benchmarks.gpu_programs` wrote")
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
        **software_and_device(),
        "limits": _limits(),
        "layers": [],
    }
    print(report, flush=True)
    by_layer: dict[SquareLayer, list[dict[str, Any]]] = defaultdict(list)
    for folder in options.folders:
        for record in json.loads((folder / "programs.json").read_text()):
            record |= {"folder": folder.name, "file": folder / record["file"]}
            by_layer[SquareLayer(**record.pop("layer"))].append(record)
    for layer, records in by_layer.items():
        if time.monotonic() - start > options.seconds:
            print("out of time")
            break
        report["layers"].append(_measure(layer, records, options.rounds))
        _print(report["layers"][-1])
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(report, indent=1))


def _limits() -> dict[str, float]:
    """FLOP/s of sgemm and bytes/s of a copy, bytes read and written counted."""
    elements = 1 << 28
    source = torch.randn(elements, device="cuda")
    target = torch.empty_like(source)
    copy = device_seconds(lambda: torch.mul(source, 1, out=target), 4)
    matrix = torch.randn(8192, 8192, device="cuda")
    sgemm = device_seconds(lambda: matrix @ matrix, 4)
    return {"sgemm": 2 * 8192**3 / sgemm, "copy": 2 * 4 * elements / copy}


def device_seconds(run: Callable[[], Any], count: int = MANY_COPIES, rounds: int = 5) -> float:
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


def _measure(layer: SquareLayer, records: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    image, filters, bias = random_operands(layer)
    with torch.inference_mode():
        cudnn = cudnn_seconds(layer, image, filters, bias)
        exact = exact_result(layer, image, filters, bias)
    ours, programs = [], []
    for record in records:
        result = {name: value for name, value in record.items() if name != "file"}
        ours.append(result)
        try:
            program = LayerProgram(record["file"], record["target"].split(":")[0], (image, filters, bias))
            difference = torch.from_numpy(program.output()[0]).double() - exact
            result["relative_error"] = float(difference.abs().max() / exact.abs().max())
            if record["target"].startswith("cuda"):
                result["stages"] = stage_seconds(program.many)
                if "implementation" not in record:
                    result["cublas_products"] = cublas_products(layer, record["output_tile"])
            programs.append((program, result))
        except Exception as error:
            # One program that fails must not lose the results of the others.
            result["error"] = repr(error)
    for target in dict.fromkeys(record["target"] for record in records):
        of_target = [each for each in programs if each[1]["target"] == target]
        time_programs(of_target, rounds)
        of_target.sort(key=lambda each: each[1]["seconds"])
        confirmed = [each for i, each in enumerate(of_target) if i < CONFIRMED or each[1].get("chosen")]
        time_programs(confirmed, 3 * rounds)
        for _, result in confirmed:
            result["confirmed"] = True
    torch.cuda.empty_cache()
    return {"layer": asdict(layer), "name": layer.name, "flops": layer.flops, "cudnn": cudnn, "ours": ours}


def random_operands(
    layer: SquareLayer, device: str = "cuda"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An image, filters that keep its scale, and a bias, on a device of torch."""
    generator = torch.Generator(device=device).manual_seed(0)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, device=device, generator=generator)

    image = random(layer.batch, layer.size, layer.size, layer.channels)
    scale = (2 / (layer.taps**2 * layer.channels)) ** 0.5
    filters = scale * random(layer.taps, layer.taps, layer.channels, layer.filters)
    return image, filters, 0.1 * random(layer.filters)


def cudnn_seconds(
    layer: SquareLayer, image: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor
) -> dict[str, float]:
    seconds = {}
    for name, layout in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        x = image.permute(0, 3, 1, 2).contiguous(memory_format=layout)
        w = filters.permute(3, 2, 0, 1).contiguous(memory_format=layout)
        seconds[name] = device_seconds(
            lambda x=x, w=w: torch.nn.functional.conv2d(x, w, bias, padding=layer.taps // 2)
        )
    return seconds


def exact_result(
    layer: SquareLayer, image: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """A layer's result of the first image, in float64, on the host."""
    x = image[:1].permute(0, 3, 1, 2).double()
    w = filters.permute(3, 2, 0, 1).double()
    sums = torch.nn.functional.conv2d(x, w, padding=layer.taps // 2)[0].permute(1, 2, 0)
    return torch.relu(sums + bias.double()).cpu()


def time_programs(programs: list[tuple[LayerProgram, dict[str, Any]]], rounds: int) -> None:
    """Adds the seconds of the programs, called in turns, to their results."""
    samples: list[list[tuple[float, float]]] = [[] for _ in programs]
    for _ in range(rounds + 1):
        for (program, _), measured in zip(programs, samples, strict=True):
            measured.append((_seconds(program.few), _seconds(program.many)))
    for (_, result), measured in zip(programs, samples, strict=True):
        differences = [(many - few) / (MANY_COPIES - FEW_COPIES) for few, many in measured[1:]]
        result["seconds"] = statistics.median(differences)
        result["interquartile_range"] = float(np.subtract(*np.percentile(differences, [75, 25])))
        result["call_seconds"] = statistics.median(few for few, _ in measured[1:])


class DeviceProgram:
    """A compiled function on a device, its arguments there."""

    def __init__(self, path: Path, driver: str, tensors: Sequence[torch.Tensor]) -> None:
        instance = runtime.VmInstance()
        self._device = runtime.get_device(driver)
        self._module = runtime.VmModule.mmap(instance, str(path))
        self._context = runtime.VmContext(
            instance, [runtime.create_hal_module(instance, self._device), self._module]
        )
        self._arguments = [self._upload(tensor) for tensor in tensors]

    def call(self, function: str = "main", arguments: Sequence[Any] | None = None) -> Any:
        """Calls a function, with all arguments by default; gives its results when it is done."""
        given = self._arguments if arguments is None else arguments
        values = runtime.VmVariantList(len(given))
        for argument in given:
            values.push_ref(argument)
        results = runtime.VmVariantList(1)
        self._context.invoke(self._module.lookup_function(function), values, results)
        return results

    def output(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """The result of a call of `main`."""
        return on_host(self._device, self.call().get_as_object(0, runtime.HalBufferView))

    def _upload(self, tensor: torch.Tensor) -> Any:
        return self._device.allocator.allocate_buffer_copy(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            device=self._device,
            buffer=np.ascontiguousarray(tensor.cpu().numpy()),
            element_type=runtime.HalElementType.FLOAT_32,
        )


class LayerProgram(DeviceProgram):
    """A compiled layer, of an image, filters and a bias."""

    def few(self) -> Any:
        return self._of_images("few", FEW_COPIES)

    def many(self) -> Any:
        return self._of_images("many", MANY_COPIES)

    def output(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        return on_host(self._device, self._of_images("once", 1).get_as_object(0, runtime.HalBufferView))

    def _of_images(self, function: str, images: int) -> Any:
        image, *weights = self._arguments
        return self.call(function, [*[image] * images, *weights])


def on_host(device: Any, view: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A result, through memory that both sides see: Vulkan imports no arrays of arbitrary alignment."""
    source = view.get_buffer()
    staging = device.allocator.allocate_buffer(
        memory_type=runtime.MemoryType.HOST_LOCAL | runtime.MemoryType.DEVICE_VISIBLE,
        allowed_usage=runtime.BufferUsage.TRANSFER | runtime.BufferUsage.MAPPING,
        allocation_size=source.byte_length(),
    )
    semaphore = device.create_semaphore(0)
    copied = runtime.HalFence.create_at(semaphore, 1)
    ready = runtime.HalFence.create_at(semaphore, 0)
    device.queue_copy(source, staging, wait_semaphores=ready, signal_semaphores=copied)
    copied.wait()
    return np.array(staging.map().asarray(view.shape, np.dtype(np.float32)))


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def stage_seconds(run: Callable[[], Any]) -> dict[str, float]:
    """The mean seconds of each of our kernels."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    return {
        event.key.split("_")[1]: event.device_time_total / event.count / 1e6
        for event in profiler.key_averages()
        if event.key.startswith("winograd_")
    }


def cublas_products(layer: SquareLayer, output_tile: Sequence[int]) -> dict[str, float]:
    """cuBLAS' seconds for the products of a layer, and their number of operations."""
    products = prod(m + layer.taps - 1 for m in output_tile)
    tiles = layer.batch * prod(ceil_div(layer.size, m) for m in output_tile)
    left = torch.randn(products, tiles, layer.channels, device="cuda")
    right = torch.randn(products, layer.channels, layer.filters, device="cuda")
    output = torch.empty(products, tiles, layer.filters, device="cuda")
    seconds = device_seconds(lambda: torch.bmm(left, right, out=output), 5, 3)
    return {"seconds": seconds, "flops": 2 * prod(left.shape) * layer.filters}


def _print(record: dict[str, Any]) -> None:
    best = min(record["cudnn"].values())
    print(f"{record['name']}: cuDNN {best * 1e6:.1f} us, {record['flops'] / best / 1e12:.1f} TFLOP/s")
    for ours in record["ours"]:
        if "error" in ours:
            print(f"  {ours['folder']} {ours['target']:14} {ours['variant']:24} {ours['error']}")
            continue
        stages = {name: round(seconds * 1e6, 1) for name, seconds in ours.get("stages", {}).items()}
        print(
            f"  {ours['folder']} {ours['target']:14} {ours['variant']:24} {ours['seconds'] * 1e6:8.1f} us"
            f" {record['flops'] / ours['seconds'] / 1e12:6.1f} TFLOP/s  speed-up {best / ours['seconds']:.2f}"
            f"  error {ours['relative_error']:.1e}  {stages}",
            flush=True,
        )


if __name__ == "__main__":
    main()
