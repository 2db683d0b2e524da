"""Times IREE's own products of rows and a square matrix on a GPU, which the cost model predicts.

    python -m benchmarks.gpu_matmul build build/gpu-matmul             (where the compiler is)
    python -m benchmarks.gpu_matmul run build/gpu-matmul --output build/gpu-matmul.json               (a GPU)

A program multiplies `FEW` or `MANY` times, each time what came of the time before: the difference is time of
the device. The matrix is an argument, which IREE compiles as it does one that is known. Running needs the
runtime and numpy, not the compiler.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.build_and_run import build_and_run_parser

FLAGS = ("--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80")
SIZES = (1024, 4096)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
FEW, MANY = 3, 19


def main() -> None:
    parser = build_and_run_parser(__doc__, rounds=7)
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder)
    else:
        run(options.folder, options.output, options.rounds)


def build(folder: Path) -> None:
    """Compile a program for each size and number of rows."""
    from iree.compiler import compile_str

    folder.mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        for rows in ROWS:
            functions = "".join(_function(name, rows, size, count) for name, count in _counts())
            compiled = compile_str(functions, extra_args=list(FLAGS))
            (folder / f"{rows}x{size}.vmfb").write_bytes(compiled)


def _counts() -> tuple[tuple[str, int], ...]:
    return ("few", FEW), ("many", MANY)


def _function(name: str, rows: int, size: int, count: int) -> str:
    matrix, result = f"tensor<{size}x{size}xf32>", f"tensor<{rows}x{size}xf32>"
    products = "\n".join(
        f"  %r{i + 1} = linalg.matmul ins(%r{i}, %w : {result}, {matrix}) outs(%zeros : {result}) -> {result}"
        for i in range(count)
    )
    return f"""
func.func @{name}(%r0: {result}, %w: {matrix}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {result}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
{products}
  return %r{count} : {result}
}}
"""


def run(folder: Path, output: Path | None, rounds: int) -> None:
    """Time all programs."""
    from iree import runtime

    config = runtime.Config("cuda")
    measured = []
    for size in SIZES:
        for rows in ROWS:
            seconds = _seconds(config, folder / f"{rows}x{size}.vmfb", rows, size, rounds)
            measured.append({"rows": rows, "size": size, "seconds": seconds})
            print(f"{rows} x {size} x {size}: {seconds * 1e6:.1f} us", flush=True)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(
            json.dumps(
                {
                    "command": " ".join(["python -m benchmarks.gpu_matmul", *sys.argv[1:]]),
                    "products": measured,
                },
                indent=1,
            )
        )


def _seconds(config: Any, path: Path, rows: int, size: int, rounds: int) -> float:
    from iree import runtime

    context = runtime.SystemContext(config=config)
    module = runtime.VmModule.mmap(context.instance, str(path))
    context.add_vm_module(module)
    generator = np.random.default_rng(0)
    arguments = [
        runtime.asdevicearray(config.device, generator.standard_normal(shape, np.float32) / size**0.5)
        for shape in ((rows, size), (size, size))
    ]

    def once(name: str) -> float:
        begin = time.perf_counter()
        context.modules[module.name][name](*arguments)
        return time.perf_counter() - begin

    samples = [(once("few"), once("many")) for _ in range(rounds + 1)][1:]
    return statistics.median((many - few) / (MANY - FEW) for few, many in samples)


if __name__ == "__main__":
    main()
