"""Times both gradients of 3 x 3 convolutions against oneDNN through torch, side by side.

    python -m benchmarks.gradients --batch 8 32 --threads 1 --output benchmarks/results/gradients.json
    python -m benchmarks.gradients --layers mobilenet --gradient weight

Layers are ResNet's of unit stride, or the depthwise ones of MobileNetV2.

Each gradient is a program of its own, with tensors as torch has them: channels first, or last, filters too.
The speed-up of each is the smaller median of torch's in both layouts over its own. Programs stay in
`--folder` for another run; with `--compile` that is all, so that a run on another machine, whose `--target`
it then needs, has no compiler to wait for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.timing import Contender, time_interleaved

GRADIENTS = {"image": [True, False, False], "weight": [False, True, False]}
"""By what each is, and the operator's mask that asks for it."""
LAYOUTS = ("nchw", "nhwc")
_CHANNELS_LAST = (0, 2, 3, 1)
_CHANNELS_FIRST = (0, 3, 1, 2)


def main() -> None:
    options = _parse_arguments()
    # Read by OpenMP when torch is loaded.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    records = []
    for batch in options.batch:
        for layer in LAYERS[options.layers](batch):
            for gradient in options.gradient:
                if gradient == "image" and layer.groups > 1 and layer.stride > 1:
                    # Torch-mlir lowers none of these.
                    continue
                if options.compile:
                    for layout in LAYOUTS:
                        _program(gradient, layout, layer, Programs.of(options))
                    continue
                records.append(_measure(layer, gradient, options))
                _print(records[-1])
    if options.compile:
        return
    for gradient in options.gradient:
        best = [max(each["speedups"].values()) for each in records if each["gradient"] == gradient]
        print(f"{gradient} gradients: {geometric_mean(best):.2f} times as fast, at least {min(best):.2f}")
    if options.output is not None:
        report = {
            "machine": platform.processor() or platform.machine(),
            "threads": options.threads,
            "layers": records,
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", choices=LAYERS, default="resnet")
    parser.add_argument("--batch", nargs="+", type=int, default=[8, 32])
    parser.add_argument("--gradient", nargs="+", choices=GRADIENTS, default=list(GRADIENTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.05, help="seconds of a contender's turn in a round")
    parser.add_argument("--target", default="cpu:host", help="what programs are compiled for")
    parser.add_argument("--folder", type=Path, help="where programs stay; by default they go")
    parser.add_argument("--compile", action="store_true", help="leave programs in the folder, and end")
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/gradients.json")
    options = parser.parse_args()
    if options.compile and options.folder is None:
        parser.error("--compile needs a --folder")
    return options


@dataclass(frozen=True)
class GradientLayer:
    """A 3 x 3 convolution with one row of zeros around its input, of square images."""

    network: str
    batch: int
    size: int
    channels: int
    filters: int
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        window = f" stride {self.stride}" if self.stride > 1 else ""
        groups = f" groups {self.groups}" if self.groups > 1 else ""
        image = f"{self.batch}x{self.size}x{self.size}"
        return f"{self.network} {image} {self.channels}->{self.filters}{window}{groups}"

    @property
    def outputs(self) -> int:
        """Along one side of an image."""
        return (self.size - 1) // self.stride + 1

    @property
    def flops(self) -> int:
        """Operations of the direct algorithm, a multiplication and an addition counted as two."""
        outputs = self.batch * self.outputs**2 * self.filters
        return 2 * 9 * outputs * self.channels // self.groups

    def random_operands(self) -> tuple[Any, ...]:
        """The gradient of the outputs, the image and the weight as torch's tensors, channels first."""
        import torch

        torch.manual_seed(0)
        image = torch.randn(self.batch, self.channels, self.size, self.size)
        weight = torch.randn(self.filters, self.channels // self.groups, 3, 3)
        return torch.randn(self.batch, self.filters, self.outputs, self.outputs), image, weight


def resnet_layers(batch: int) -> list[GradientLayer]:
    """The 3 x 3 layers of unit stride of ResNet-18/34/50/101/152."""
    shapes = [(56, 64), (28, 128), (14, 256), (7, 512)]
    return [GradientLayer("resnet", batch, size, width, width) for size, width in shapes]


def mobilenet_layers(batch: int) -> list[GradientLayer]:
    """The depthwise layers of MobileNetV2, each size once."""
    shapes = [
        (112, 32, 1),
        (112, 96, 2),
        (56, 144, 1),
        (56, 144, 2),
        (28, 192, 1),
        (28, 192, 2),
        (14, 384, 1),
        (14, 576, 1),
        (14, 576, 2),
        (7, 960, 1),
    ]
    return [
        GradientLayer("mobilenet", batch, size, channels, channels, stride, groups=channels)
        for size, channels, stride in shapes
    ]


LAYERS = {"resnet": resnet_layers, "mobilenet": mobilenet_layers}


@dataclass(frozen=True)
class Programs:
    """For which target and number of threads programs are, and the folder that they stay in, if they do."""

    target: str = "cpu:host"
    threads: int = 1
    folder: Path | None = None

    @staticmethod
    def of(options: argparse.Namespace) -> Programs:
        return Programs(options.target, options.threads, options.folder)


def _measure(layer: GradientLayer, gradient: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(options.threads)
    found, errors = contenders(gradient, layer, Programs.of(options))
    timings = time_interleaved(found, rounds=options.rounds, burst_seconds=options.burst)
    return {
        "layer": layer.name,
        "gradient": gradient,
        "contenders": {
            name: {
                "milliseconds": 1e3 * timing.median,
                "spread": timing.spread,
                "gflops": layer.flops / timing.median / 1e9,
                "error": errors[name],
            }
            for name, timing in timings.items()
        },
        "speedups": speedups(timings),
    }


def contenders(
    gradient: str, layer: GradientLayer, programs: Programs
) -> tuple[list[Contender], dict[str, float]]:
    """Torch and our programs in both layouts, and the mean error of each, relative, by name."""
    exact = _backward(gradient, layer)(*(each.double() for each in layer.random_operands()))
    found, errors = [], {}
    for name, run, result in (*_torch(gradient, layer), *_ours(gradient, layer, programs)):
        found.append(Contender(name, run))
        errors[name] = float((result.double() - exact).abs().mean() / exact.abs().mean())
    return found, errors


def speedups(timings: dict[str, Timing]) -> dict[str, float]:
    """How many times faster each program of ours is than torch's fastest."""
    best = min(timing.median for name, timing in timings.items() if name.startswith("torch"))
    return {name: best / timing.median for name, timing in timings.items() if name.startswith("ours")}


def _torch(gradient: str, layer: GradientLayer) -> list[tuple[str, Callable[[], Any], Any]]:
    import torch

    found = []
    for layout, memory_format in zip(LAYOUTS, (torch.contiguous_format, torch.channels_last), strict=True):
        given = [each.contiguous(memory_format=memory_format) for each in layer.random_operands()]
        backward = _backward(gradient, layer)
        found.append(
            (f"torch-{layout}", lambda given=given, backward=backward: backward(*given), backward(*given))
        )
    return found


def _ours(
    gradient: str, layer: GradientLayer, programs: Programs
) -> list[tuple[str, Callable[[], Any], Any]]:
    import iree.winograd
    import torch

    found = []
    for layout in LAYOUTS:
        given = _given(layer.random_operands(), layout)
        compiled = _program(gradient, layout, layer, programs)
        threads = programs.threads
        alone = threads == 1
        program = iree.winograd.load(
            compiled, device="local-sync" if alone else "local-task", threads=None if alone else threads
        )
        result = torch.as_tensor(program(*given))
        found.append(
            (
                f"ours-{layout}",
                lambda program=program, given=given: program(*given),
                result.permute(_CHANNELS_FIRST) if layout == "nhwc" else result,
            )
        )
    return found


def _program(gradient: str, layout: str, layer: GradientLayer, programs: Programs) -> bytes:
    """One gradient compiled, or as it was before."""
    import iree.winograd
    import torch

    file = None
    if programs.folder is not None:
        name = layer.name.replace(" ", "-").replace("->", "-to-")
        file = programs.folder / f"{gradient}-{layout}-{name}-threads-{programs.threads}.vmfb"
        if file.exists():
            return file.read_bytes()
    module, given = _module(gradient, layer, layout == "nhwc"), _given(layer.random_operands(), layout)
    model = iree.winograd.import_torch(torch.export.export(module, tuple(given)))
    compiled = iree.winograd.compile(model, target=programs.target, threads=programs.threads)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(compiled)
    return compiled


def _given(operands: tuple[Any, ...], layout: str) -> list[Any]:
    """What a program in `layout` takes."""
    is_last = layout == "nhwc"
    return [each.permute(_CHANNELS_LAST).contiguous() if is_last else each for each in operands]


def _backward(gradient: str, layer: GradientLayer) -> Callable[..., Any]:
    import torch

    mask = GRADIENTS[gradient]

    def run(of_outputs: Any, image: Any, weight: Any) -> Any:
        window = ([layer.stride] * 2, [1, 1], [1, 1], False, [0, 0], layer.groups)
        results = torch.ops.aten.convolution_backward(of_outputs, image, weight, None, *window, mask)
        return next(result for result, is_wanted in zip(results, mask, strict=True) if is_wanted)

    return run


def _module(gradient: str, layer: GradientLayer, is_last: bool) -> Any:
    """A module that computes one gradient; its tensors are channels last in memory if `is_last`."""
    import torch

    class Backward(torch.nn.Module):
        def forward(self, *operands: torch.Tensor) -> torch.Tensor:
            if not is_last:
                return _backward(gradient, layer)(*operands)
            given = (each.permute(_CHANNELS_FIRST) for each in operands)
            return _backward(gradient, layer)(*given).permute(_CHANNELS_LAST)

    return Backward()


def _print(record: dict[str, Any]) -> None:
    times = "  ".join(
        f"{name} {each['milliseconds']:.2f} ms ({each['error']:.1e})"
        for name, each in record["contenders"].items()
    )
    factors = "  ".join(f"{name} {factor:.2f}" for name, factor in record["speedups"].items())
    print(f"{record['layer']} by {record['gradient']}: {times}; speed-up {factors}", flush=True)


if __name__ == "__main__":
    main()
