"""Times gradients of convolutions on a GPU: ours through CUDA beside cuDNN, in fp32 and TF32.

    python -m benchmarks.gpu_gradients compile build/gpu-gradients      (where compiler and torch-mlir are)
    python -m benchmarks.gpu_gradients measure build/gpu-gradients --output build/gpu-gradients.json

ResNet's four 3x3 layers at batch 32, one of stride 2 and a pointwise one; the gradient by the image and that
by the filter are programs of their own, with tensors channels first or last, filters too. All times are of
the device: ours from the start of a call's first kernel to the end of its last one, as CUPTI saw them, the
median of `CALLS`; cuDNN's from a CUDA graph of as many calls as `benchmarks.gpu` has, with its own search on.
`stages` has the seconds of each of our kernels. Errors are means relative to float64. To measure needs the
runtime and torch, not the compiler.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.build_and_run import software_and_device
from benchmarks.square_layer import SquareLayer

GRADIENTS = {"image": [True, False, False], "weight": [False, True, False]}
"""By what each is, and the operator's mask that asks for it."""
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
CALLS = 20
"""Those of a program that are timed."""
_CHANNELS_LAST = (0, 2, 3, 1)
_CHANNELS_FIRST = (0, 3, 1, 2)


def operands_of(layer: SquareLayer, device: str) -> list[torch.Tensor]:
    """The gradient of the outputs, the image and the weight."""
    generator = torch.Generator(device=device).manual_seed(0)
    shapes = (
        (layer.batch, layer.filters, layer.output_size, layer.output_size),
        (layer.batch, layer.channels, layer.size, layer.size),
        (layer.filters, layer.channels, layer.taps, layer.taps),
    )
    return [torch.randn(*shape, device=device, generator=generator) for shape in shapes]


def backward(layer: SquareLayer, gradient: str, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    """One gradient by torch's operator."""
    mask, padding = GRADIENTS[gradient], layer.taps // 2
    window = ([layer.stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
    results = torch.ops.aten.convolution_backward(*operands, None, *window, mask)
    return next(result for result, is_wanted in zip(results, mask, strict=True) if is_wanted)


LAYERS = (
    SquareLayer(32, 56, 64, 64),
    SquareLayer(32, 28, 128, 128),
    SquareLayer(32, 14, 256, 256),
    SquareLayer(32, 7, 512, 512),
    SquareLayer(32, 56, 64, 128, stride=2),
    SquareLayer(32, 56, 64, 256, taps=1),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    compiling = commands.add_parser("compile")
    compiling.add_argument("folder", type=Path)
    compiling.add_argument("--target", default="cuda:sm_90a")
    compiling.add_argument(
        "--output-tiles", nargs="*", type=int, default=[], help="beside the one that is chosen, channels last"
    )
    compiling.set_defaults(run=_compile)
    measuring = commands.add_parser("measure")
    measuring.add_argument("folder", type=Path)
    measuring.add_argument("--output", type=Path)
    measuring.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop starting programs after so long"
    )
    measuring.set_defaults(run=_measure)
    options = parser.parse_args()
    options.run(options)


def _compile(options: argparse.Namespace) -> None:
    import iree.winograd

    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = [(layout, None) for layout in LAYOUTS] + [("nhwc", tile) for tile in options.output_tiles]
    records = []
    for layout, tile in wanted:
        for number, layer in enumerate(LAYERS):
            for gradient in GRADIENTS:
                operands = [_as_given(each, layout) for each in operands_of(layer, "cpu")]
                exported = torch.export.export(_module(layer, gradient, layout), tuple(operands))
                file = options.folder / f"{number}-{gradient}-{layout}-{tile or 'chosen'}.vmfb"
                iree.winograd.compile(
                    iree.winograd.import_torch(exported),
                    target=options.target,
                    output=file,
                    strict=True,
                    **({} if tile is None else {"output_tile": tile}),
                )
                name = layout if tile is None else f"{layout} F({tile})"
                records.append({"layer": number, "gradient": gradient, "name": name, "file": file.name})
                print(f"{layer.name} by {gradient}, {name}", flush=True)
    (options.folder / "programs.json").write_text(json.dumps(records, indent=1))


def _module(layer: SquareLayer, gradient: str, layout: str) -> torch.nn.Module:
    class Backward(torch.nn.Module):
        def forward(self, *operands: torch.Tensor) -> torch.Tensor:
            if layout == "nchw":
                return backward(layer, gradient, operands)
            given = [each.permute(_CHANNELS_FIRST) for each in operands]
            return backward(layer, gradient, given).permute(_CHANNELS_LAST)

    return Backward()


def _as_given(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of torch's as the program of a layout takes it."""
    return tensor if layout == "nchw" else tensor.permute(_CHANNELS_LAST).contiguous()


def _measure(options: argparse.Namespace) -> None:
    from benchmarks.gpu import device_seconds

    torch.backends.cudnn.benchmark = True
    start = time.monotonic()
    report: dict[str, Any] = {
        **software_and_device(),
        "layers": [],
    }
    records = json.loads((options.folder / "programs.json").read_text())
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for number, layer in enumerate(LAYERS):
        for gradient in GRADIENTS:
            measured = {
                "layer": asdict(layer),
                "name": layer.name,
                "gradient": gradient,
                "flops": layer.flops,
                "cudnn": _cudnn(layer, gradient, device_seconds),
                "ours": [],
            }
            found[number, gradient] = measured
            report["layers"].append(measured)
    for record in records:
        if time.monotonic() - start > options.seconds:
            print("out of time")
            break
        layer, gradient = LAYERS[record["layer"]], record["gradient"]
        measured = found[record["layer"], gradient]
        measured["ours"].append(_ours(layer, gradient, record["name"], options.folder / record["file"]))
        _print(measured)
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(report, indent=1))


def _cudnn(
    layer: SquareLayer, gradient: str, device_seconds: Callable[[Callable[[], Any]], float]
) -> dict[str, Any]:
    """Seconds and error by precision and layout."""
    exact = _exact(layer, gradient)
    results: dict[str, Any] = {}
    for precision in ("fp32", "tf32"):
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for layout, memory_format in LAYOUTS.items():
            given = [each.contiguous(memory_format=memory_format) for each in operands_of(layer, "cuda")]
            results[f"{precision} {layout}"] = {
                "seconds": device_seconds(lambda given=given: backward(layer, gradient, given)),
                "error": _error(backward(layer, gradient, given), exact),
            }
    return results


def _exact(layer: SquareLayer, gradient: str) -> torch.Tensor:
    return backward(layer, gradient, [each.double() for each in operands_of(layer, "cuda")])


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return float((result.double() - exact).abs().mean() / exact.abs().mean())


def _ours(layer: SquareLayer, gradient: str, name: str, file: Path) -> dict[str, Any]:
    from benchmarks.gpu import DeviceProgram

    layout = name.split()[0]
    operands = [_as_given(each, layout) for each in operands_of(layer, "cuda")]
    try:
        program = DeviceProgram(file, "cuda", operands)
        result = torch.from_numpy(program.output()).cuda()
        calls = _kernels_of_calls(program.call)
    except Exception as error:
        # One program that fails must not lose the results of the others.
        return {"name": name, "failure": repr(error)}
    if layout == "nhwc":
        result = result.permute(_CHANNELS_FIRST)
    stages: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        for kernel, begin, end in call:
            stages[kernel].append(end - begin)
    return {
        "name": name,
        "seconds": statistics.median(call[-1][2] - call[0][1] for call in calls),
        "error": _error(result, _exact(layer, gradient)),
        "stages": {kernel: statistics.median(seconds) for kernel, seconds in stages.items()},
    }


def _kernels_of_calls(call: Callable[[], Any]) -> list[list[tuple[str, float, float]]]:
    """Of each of `CALLS` calls the kernels' names and when they began and ended, in seconds."""
    for _ in range(3):
        call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    kernels = sorted(
        (event.time_range.start / 1e6, event.time_range.end / 1e6, event.name)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA
    )
    # What the host takes between two calls is longer than any pause within one.
    pauses = [after[0] - before[1] for before, after in pairwise(kernels)]
    firsts = sorted(1 + i for i in sorted(range(len(pauses)), key=pauses.__getitem__)[1 - CALLS :])
    named = [(name, begin, end) for begin, end, name in kernels]
    return [named[first:last] for first, last in pairwise([0, *firsts, len(named)])]


def _print(measured: dict[str, Any]) -> None:
    seconds = {name: each["seconds"] for name, each in measured["cudnn"].items()}
    fp32, tf32 = (min(value for name, value in seconds.items() if kind in name) for kind in ("fp32", "tf32"))
    ours = measured["ours"][-1]
    head = f"{measured['name']} by {measured['gradient']}: cuDNN {fp32 * 1e6:.1f}, TF32 {tf32 * 1e6:.1f} us"
    if "failure" in ours:
        print(f"{head}; {ours['name']} {ours['failure']}", flush=True)
        return
    stages = "  ".join(f"{name[:40]} {each * 1e6:.1f}" for name, each in ours["stages"].items())
    print(
        f"{head}; {ours['name']} {ours['seconds'] * 1e6:.1f} us, speed-up {fp32 / ours['seconds']:.2f}, "
        f"of TF32 {tf32 / ours['seconds']:.2f}, error {ours['error']:.1e}\n    {stages}",
        flush=True,
    )


if __name__ == "__main__":
    main()
