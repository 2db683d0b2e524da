"""Says what AMD's compilers make of a program's kernels: registers, spills, shared memory, loops, bounds.

    python -m benchmarks.amd                          # layers of ResNet-50, VGG-16 and Stable Diffusion
    python -m benchmarks.amd model.mlir --targets gfx1100 navi31
    python -m benchmarks.amd --stock --json           # of stock IREE, a line of JSON for each kernel
    python -m benchmarks.amd --output benchmarks/results/amd.json     # what is missing there is added
    python -m benchmarks.amd model.mlir --targets gfx1100 --pages pages     # pages/model-gfx1100.html

No GPU is needed. Targets that begin with "gfx" are ROCm's, by LLVM within IREE's compiler; the others, and
"radv:gfx1201", are GPUs that Mesa's driver is made to believe in, by its own compiler, which `make amd`
installs. `bound` is the part of the GPU's peak rate that the main loop could reach by the published rates of
vector and matrix units and of shared memory; latencies aren't in it. The exit status is 1 where kernels of
ours spill registers.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from iree.winograd.calibration.programs import backend_of
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace

from benchmarks.amd.compiled import ALL_TARGETS, CompiledProgram, compiled_for_each, target_name
from benchmarks.amd.kernel import kernel_table
from benchmarks.amd.layers import LAYERS, layer_problem, layer_text
from benchmarks.amd.page import program_page
from benchmarks.amd.predicted import predicted
from benchmarks.amd.radv import MESA
from benchmarks.results_file import ResultsFile


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path, help="MLIR or ONNX; the layers above without any")
    parser.add_argument("--layers", nargs="+", default=LAYERS, help="some of these layers, by their names")
    parser.add_argument(
        "--targets", nargs="+", default=ALL_TARGETS, metavar="TARGET", help=", ".join(ALL_TARGETS)
    )
    parser.add_argument("--stock", action="store_true", help="the kernels of IREE alone")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each kernel")
    parser.add_argument("--output", type=Path, help="a JSON file, of choices and predictions, too")
    parser.add_argument("--pages", type=Path, help="a folder for reports as HTML, of each program and target")
    parser.add_argument("--mesa", type=Path, default=MESA, help="the folder that Mesa is in")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.output, "programs")
    sources = {str(path): str(path) for path in arguments.programs} or {
        name: layer_text(LAYERS[name], constant_filter=not arguments.stock) for name in arguments.layers
    }
    spilled, by = 0, "stock" if arguments.stock else "ours"
    for name, source in sources.items():
        missing = [each for each in arguments.targets if f"{name}, {each}, {by}" not in results.rows]
        for target, compiled in compiled_for_each(
            source, missing, stock=arguments.stock, mesa=arguments.mesa
        ):
            row = f"{name}, {target}, {by}"
            if not isinstance(compiled, CompiledProgram):
                print(f"{row}: {compiled}", file=sys.stderr)
                continue
            spilled += sum(kernel.spilled > 0 for kernel in compiled.kernels)
            record = {"program": name, "target": target, "by": by, **compiled.as_json}
            if not arguments.stock and name in LAYERS:
                record["stock_seconds"] = _stock_seconds(name, target)
            results.add(row, record)
            if arguments.pages is not None and not arguments.stock:
                arguments.pages.mkdir(parents=True, exist_ok=True)
                (arguments.pages / _page_name(name, target)).write_text(program_page(compiled))
            if arguments.json:
                for kernel in compiled.kernels:
                    print(json.dumps({"program": name, **kernel.as_json}), flush=True)
            else:
                print(f"\n{name}\n", *kernel_table(compiled.kernels), sep="\n", flush=True)
    print(f"{spilled} kernels spill", file=sys.stderr)
    return 1 if spilled and not arguments.stock else 0


def _stock_seconds(layer: str, target: str) -> float:
    """What IREE's own code is predicted to take for one of the layers."""
    space = backend_of(target_name(target)).search_space()
    assert isinstance(space, GpuSearchSpace)
    return predicted(layer_problem(LAYERS[layer]), space).stock_seconds


def _page_name(program: str, target: str) -> str:
    """A layer's name has spaces and arrows, the name of a target may have a colon."""
    return re.sub(r"[^\w.]+", "-", f"{Path(program).stem}-{target}") + ".html"


if __name__ == "__main__":
    sys.exit(main())
