"""ResNet-18 with and without iree-winograd: compiled, compared with torch in double precision, and timed.

python samples/demo.py
"""

from __future__ import annotations

import copy
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from iree.runtime.benchmark import benchmark_exe
from iree.winograd import compile, import_torch, load
from pytorchcv.model_provider import get_model

INPUTS = 32
ROUNDS = 15
THREADS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Convolution:
    """A convolution of the network; sizes are height x width."""

    layer: str
    output: tuple[int, int]
    kernel: tuple[int, int]
    stride: int
    channels: int
    filters: int

    def dispatch_patterns(self) -> dict[str, str]:
        """The names that its dispatch may have in a compiled program, by what they say of the algorithm."""
        (h, w), (r, s), c, k = self.output, self.kernel, self.channels, self.filters
        return {
            "direct": rf"winograd_f1x1_{r}x{s}_{h}x{w}x{k}_from_{c}(?:_|$)",
            r"F(\1, \2)": rf"winograd_(?:input_)?f(\w+?)_({r}x{s})_{h}x{w}x{k}_from_{c}(?:_|$)",
            "IREE, direct": rf"_conv_({h}x{w}x{k}x{r}x{s}x{c}|{k}x{h}x{w}x{c}x{r}x{s})_",
            "IREE, GEMM": rf"_matmul_like_({h}x{w}x{k}x{c}|{k}x{h}x{w}x{c}|{h * w}x{k}x{c}|{k}x{h * w}x{c})_",
        }


def main() -> None:
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model = get_model("resnet18", pretrained=False).eval()
    images = torch.randn(INPUTS, 3, 224, 224)
    with step("importing ResNet-18"):
        imported = import_torch(model, images[:1])
    with tempfile.TemporaryDirectory() as folder:
        stock, ours = Path(folder, "stock.vmfb"), Path(folder, "ours.vmfb")
        with step("compiling it with IREE alone"):
            compile(imported, output=stock, enable_winograd=False)
        with step("compiling it with iree-winograd"):
            compile(imported, output=ours, strict=True)
        print(f"{'':4}{stock.stat().st_size / 1e6:.0f} MB and {ours.stat().st_size / 1e6:.0f} MB")
        with step(f"comparing both with torch in double precision on {INPUTS} inputs"):
            accuracy = list(compare(model, images, stock, ours))
        with step("timing each dispatch"):
            dispatches = [dispatch_times(path) for path in (stock, ours)]
        times = []
        for threads in sorted({1, THREADS}):
            with step(f"timing the network on {threads} thread(s)"):
                times.append((threads, time_network(model, images[:1], stock, ours, threads)))
    print_convolutions(find_convolutions(model, images[:1]), *dispatches)
    print_network(accuracy, times)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is going on, and afterwards how long it took."""
    print(f"{what} ... ", end="", flush=True)
    begin = time.perf_counter()
    yield
    print(f"{time.perf_counter() - begin:.1f} s", flush=True)


def compare(
    model: torch.nn.Module, images: torch.Tensor, stock: Path, ours: Path
) -> Iterator[tuple[str, float, int]]:
    """What was compared, its largest error over the largest output, and on how many inputs top-1 agrees."""
    exact = model.double()(images.double())
    model.float()
    candidates: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "torch": model,
        "IREE": load(stock, threads=THREADS),
        "iree-winograd": load(ours, threads=THREADS),
    }
    for name, candidate in candidates.items():
        outputs = torch.cat([candidate(image[None]) for image in images])
        error = (outputs.double() - exact).abs().max() / exact.abs().max()
        yield name, float(error), int((outputs.argmax(1) == exact.argmax(1)).sum())


def time_network(
    model: torch.nn.Module, image: torch.Tensor, stock: Path, ours: Path, threads: int
) -> dict[str, float]:
    """Median milliseconds of a call, measured turn by turn."""
    torch.set_num_threads(threads)
    device: dict[str, Any] = {"device": "local-sync"} if threads == 1 else {"threads": threads}
    layout: dict[str, Any] = {"memory_format": torch.channels_last}
    contenders: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
        "torch": (model, image),
        "torch channels-last": (copy.deepcopy(model).to(**layout), image.contiguous(**layout)),
        "IREE": (load(stock, **device), image),
        "iree-winograd": (load(ours, **device), image),
    }
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, (run, argument) in contenders.items():
            run(argument)
            begin = time.perf_counter()
            run(argument)
            samples[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in samples.items()}


def dispatch_times(program: Path) -> dict[str, float]:
    """Milliseconds that the program spends in each of its dispatches, by their names, on one thread."""
    arguments = [
        f"--module={program}",
        "--function=main",
        "--device=local-sync",
        "--input=1x3x224x224xf32=1",
        "--dispatch_statistics",
        "--benchmark_min_time=0.5s",
        "--benchmark_format=json",
    ]
    report = subprocess.run([benchmark_exe(), *arguments], capture_output=True, text=True, check=True).stdout
    rows = json.loads(report[report.index("{") :])["benchmarks"]
    return {row["name"]: row["real_time"] for row in rows if "calls" in row}


def find_convolutions(model: torch.nn.Module, image: torch.Tensor) -> list[Convolution]:
    """The convolutions in the order in which they run."""
    found: list[Convolution] = []

    def watch(layer: str) -> Callable[..., None]:
        def record(module: torch.nn.Conv2d, _: Any, output: torch.Tensor) -> None:
            height, width = output.shape[2:]
            kernel = (module.kernel_size[0], module.kernel_size[1])
            found.append(
                Convolution(
                    layer, (height, width), kernel, module.stride[0], module.in_channels, module.out_channels
                )
            )

        return record

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(watch(name))
    model(image)
    return found


def print_convolutions(
    convolutions: list[Convolution], stock: Mapping[str, float], ours: Mapping[str, float]
) -> None:
    """A row per convolution. Layers of one shape may share a dispatch: each gets its part of their time."""
    shapes = Counter(convolution_shape(convolution) for convolution in convolutions)
    print(f"\n{'convolution':34}{'kernel':>8}{'output':>16}  {'algorithm':14}{'IREE':>9}{'ours':>9}")
    totals = [0.0, 0.0]
    for convolution in convolutions:
        count = shapes[convolution_shape(convolution)]
        (_, before), (algorithm, after) = (find_dispatch(convolution, times) for times in (stock, ours))
        (r, s), (h, w) = convolution.kernel, convolution.output
        kernel = f"{r}x{s}" + (f"/{convolution.stride}" if convolution.stride > 1 else "")
        layer = convolution.layer.removeprefix("features.")
        print(
            f"{layer:34}{kernel:>8}{f'{h}x{w}x{convolution.filters}':>16}  {algorithm:14}"
            f"{before / count:6.2f} ms{after / count:6.2f} ms"
        )
        totals = [totals[0] + before / count, totals[1] + after / count]
    others = [sum(stock.values()) - totals[0], sum(ours.values()) - totals[1]]
    print(f"{'all convolutions':74}{totals[0]:6.2f} ms{totals[1]:6.2f} ms")
    print(f"{'everything else':74}{others[0]:6.2f} ms{others[1]:6.2f} ms")


def convolution_shape(convolution: Convolution) -> tuple[object, ...]:
    return (convolution.output, convolution.kernel, convolution.channels, convolution.filters)


def find_dispatch(convolution: Convolution, times: Mapping[str, float]) -> tuple[str, float]:
    """How convolutions of this shape are computed, and the time of all of them."""
    for algorithm, pattern in convolution.dispatch_patterns().items():
        matches = [match for name in times if (match := re.search(pattern, name))]
        if matches:
            return matches[0].expand(algorithm), sum(times[match.string] for match in matches)
    return "", 0.0


def print_network(accuracy: list[tuple[str, float, int]], times: list[tuple[int, dict[str, float]]]) -> None:
    print(f"\n{'':22}{'largest error':>14}{'top-1 agrees':>14}")
    for name, error, agreeing in accuracy:
        print(f"{name:22}{error:14.1e}{f'{agreeing}/{INPUTS}':>14}")
    print(f"\n{'':22}" + "".join(f"{f'{threads} thread(s)':>14}" for threads, _ in times))
    for name in times[0][1]:
        print(f"{name:22}" + "".join(f"{medians[name]:11.2f} ms" for _, medians in times))


if __name__ == "__main__":
    main()
