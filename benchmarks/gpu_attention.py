"""Attention by one kernel on a GPU, by multiply-adds and on matrix units, beside torch's: right, and fast?

    python -m benchmarks.gpu_attention build build/gpu-attention          (where the compiler is)
    python -m benchmarks.gpu_attention run build/gpu-attention \\
      --output benchmarks/results/gpu-attention.json                      (the GPU)

A program attends `FEW` or `MANY` times, each time with the queries that came of the time before: the
difference is time of the device. Errors are root mean squares of differences from float64 over that of
results. Running needs the runtime and torch, not the compiler.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from benchmarks.build_and_run import build_and_run_parser, software_and_device

if TYPE_CHECKING:
    import torch

FEW, MANY = 1, 21
KINDS: Mapping[str, int] = {"multiply-adds": 0, "matrix units": 4}
"""By name the most warps of a workgroup that use matrix units."""


@dataclass(frozen=True)
class Case:
    """As many heads of all images, of so many tokens and channels."""

    name: str
    heads: int
    tokens: int
    channels: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.heads, self.tokens, self.channels


CASES = (
    Case("ViT-tiny, 32 images", 96, 197, 64),
    Case("Stable Diffusion, 64 x 64", 8, 4096, 40),
    Case("Stable Diffusion, 32 x 32", 8, 1024, 80),
    Case("Stable Diffusion, 16 x 16", 8, 256, 160),
)


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=9)
    parser.add_argument("--target", default="cuda:sm_90a")
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder, options.target)
    else:
        run(options.folder, options.output, options.rounds)


def build(folder: Path, target: str) -> None:
    """Compile a program for each case and kind."""
    from iree.winograd.compiling.program import compile
    from iree.winograd.pipelines.gpu.schedules import attention_fit

    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        text = "".join(_function(name, case, count) for name, count in (("few", FEW), ("many", MANY)))
        for kind, warps in KINDS.items():
            with patch.object(attention_fit, "MOST_WARPS", warps):
                compile(text, target=target, output=_path(folder, case, kind))


def _path(folder: Path, case: Case, kind: str) -> Path:
    sizes = "x".join(map(str, case.shape))
    return folder / f"{sizes}-{kind.replace(' ', '-')}.vmfb"


def _function(name: str, case: Case, count: int) -> str:
    heads = f"tensor<{'x'.join(map(str, case.shape))}xf32>"
    maps = ("m, k", "n, k", "n, v", None, "m, v")
    affine = ", ".join(
        f"affine_map<(b, m, v, k, n) -> ({'' if each is None else f'b, {each}'})>" for each in maps
    )
    attended = "\n".join(
        f"  %q{i + 1} = iree_linalg_ext.attention <indexing_maps = [{affine}]> "
        f"ins(%q{i}, %k, %v, %scale : {heads}, {heads}, {heads}, f32) outs(%empty : {heads}) {{\n"
        f"  ^bb0(%score: f32):\n    iree_linalg_ext.yield %score : f32\n  }} -> {heads}"
        for i in range(count)
    )
    return f"""
func.func @{name}(%q0: {heads}, %k: {heads}, %v: {heads}) -> {heads} {{
  %scale = arith.constant {case.channels**-0.5:e} : f32
  %empty = tensor.empty() : {heads}
{attended}
  return %q{count} : {heads}
}}
"""


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Time all programs; ends with 1 where one of ours has more than 1.5 times the error of torch's."""
    report: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.gpu_attention", *sys.argv[1:]]),
        **software_and_device(),
        "cases": [],
    }
    for case in CASES:
        measured = _measure(folder, case, rounds)
        report["cases"].append({**asdict(case), "measured": measured})
        print(case.name)
        for kind, found in measured.items():
            error = "" if "error" not in found else f", error {found['error']:.1e}"
            print(f"  {kind:24} {found['seconds'] * 1e6:8.1f} us{error}", flush=True)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(report, indent=1) + "\n")
    errors = [
        {kind: each.get("error") for kind, each in case["measured"].items()} for case in report["cases"]
    ]
    sys.exit(any(each[kind] > 1.5 * each["torch, f32"] for each in errors for kind in KINDS if kind in each))


def _measure(folder: Path, case: Case, rounds: int) -> dict[str, dict[str, float]]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(case.shape, np.float32) for _ in range(3)]
    single = [torch.from_numpy(each).cuda()[None] for each in arrays]
    exact = [each.double() for each in single]
    scores = (exact[0] * case.channels**-0.5) @ exact[1].mT
    expected = (torch.softmax(scores, -1) @ exact[2])[0].cpu().numpy()
    found = {
        kind: _measure_ours(path, arrays, expected, rounds)
        for kind in KINDS
        if (path := _path(folder, case, kind)).exists()
    }
    for name, type_ in (("f32", torch.float32), ("f16", torch.float16)):
        heads = [each.to(type_) for each in single]
        result = scaled_dot_product_attention(*heads)[0].double().cpu().numpy()
        seconds = _seconds_of_torch(lambda heads=heads: scaled_dot_product_attention(*heads), rounds)  # type: ignore[misc]
        found[f"torch, {name}"] = {"seconds": seconds, "error": _error(result, expected)}
    return found


def _measure_ours(path: Path, arrays: list[Any], expected: Any, rounds: int) -> dict[str, float]:
    from iree import runtime

    config = runtime.Config("cuda")
    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(context.instance, str(path))
    context.add_vm_module(module)
    functions = context.modules[module.name]
    arguments = [runtime.asdevicearray(config.device, each) for each in arrays]

    def once(name: str) -> float:
        begin = time.perf_counter()
        functions[name](*arguments)
        return time.perf_counter() - begin

    assert FEW == 1
    error = _error(np.asarray(functions["few"](*arguments).to_host()), expected)
    samples = [(once("few"), once("many")) for _ in range(rounds + 1)][1:]
    seconds = statistics.median((many - few) / (MANY - FEW) for few, many in samples)
    return {"seconds": seconds, "error": error}


def _seconds_of_torch(attend: Callable[[], torch.Tensor], rounds: int) -> float:
    import torch

    samples = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(MANY - FEW):
            attend()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e-3 / (MANY - FEW))
    return statistics.median(samples[1:])


def _error(result: Any, expected: Any) -> float:
    return float(np.sqrt(np.square(result - expected).mean() / np.square(expected).mean()))


if __name__ == "__main__":
    main()
