"""Says what AMD's compilers make of a program's kernels: registers, spills, shared memory, loops, bounds.

    python -m benchmarks.amd                          # layers of ResNet-50, VGG-16 and Stable Diffusion
    python -m benchmarks.amd model.mlir --targets gfx1100 navi31
    python -m benchmarks.amd --stock --json           # of stock IREE, a line of JSON for each kernel
    python -m benchmarks.amd --output benchmarks/results/amd.json     # what is missing there is added

No GPU is needed. Targets that begin with "gfx" are ROCm's, by LLVM within IREE's compiler; the others, and
"radv:gfx1201", are GPUs that Mesa's driver is made to believe in, by its own compiler, which `make amd`
installs. `bound` is the part of the GPU's peak rate that the main loop could reach by the published rates of
vector and matrix units and of shared memory; latencies aren't in it. The exit status is 1 where kernels of
ours spill registers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from iree.winograd import compile
from iree.winograd.errors import CompilationError

from benchmarks.amd.kernel import CompiledKernel, kernel_table
from benchmarks.amd.layers import LAYERS, layer_text
from benchmarks.amd.radv import MESA, STAND_INS, radv_kernels
from benchmarks.amd.rocm import TARGETS, rocm_kernels
from benchmarks.results_file import ResultsFile

_RADV = "radv:"
_ALL = (*TARGETS, *(f"{_RADV}{name}" for name in STAND_INS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path, help="MLIR or ONNX; the layers above without any")
    parser.add_argument("--layers", nargs="+", default=LAYERS, help="some of these layers, by their names")
    parser.add_argument("--targets", nargs="+", default=_ALL, metavar="TARGET", help=", ".join(_ALL))
    parser.add_argument("--stock", action="store_true", help="the kernels of IREE alone")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each kernel")
    parser.add_argument("--output", type=Path, help="a JSON file, of choices and predictions, too")
    parser.add_argument("--mesa", type=Path, default=MESA, help="the folder that Mesa is in")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.output, "programs")
    sources = {str(path): str(path) for path in arguments.programs} or {
        name: layer_text(LAYERS[name], constant_filter=not arguments.stock) for name in arguments.layers
    }
    spilled = 0
    for (name, source), target in product(sources.items(), arguments.targets):
        by = "stock" if arguments.stock else "ours"
        if (row := f"{name}, {target}, {by}") in results.rows:
            continue
        try:
            compiled = compiled_for(source, target, stock=arguments.stock, mesa=arguments.mesa)
        except (CompilationError, RuntimeError) as error:
            print(f"{row}: {error}", file=sys.stderr)
            continue
        spilled += sum(kernel.spilled > 0 for kernel in compiled.kernels)
        results.add(row, {"program": name, "target": target, "by": by, **compiled.as_json})
        if arguments.json:
            for kernel in compiled.kernels:
                print(json.dumps({"program": name, **kernel.as_json}), flush=True)
        else:
            print(f"\n{name}\n", *kernel_table(compiled.kernels), sep="\n", flush=True)
    print(f"{spilled} kernels spill", file=sys.stderr)
    return 1 if spilled and not arguments.stock else 0


@dataclass(frozen=True)
class CompiledProgram:
    """The kernels of a program for a target, and what was chosen for its layers."""

    kernels: Sequence[CompiledKernel]
    layers: Sequence[Mapping[str, Any]]
    """Algorithm, schedule and predicted seconds of each that isn't left to IREE."""

    @property
    def as_json(self) -> dict[str, Any]:
        return {"layers": list(self.layers), "kernels": [kernel.as_json for kernel in self.kernels]}


def compiled_for(source: str, target: str, *, stock: bool = False, mesa: Path = MESA) -> CompiledProgram:
    """A program, MLIR or the path of one, as it is for one of the targets.

    Raises `CompilationError` where it doesn't compile, `NoMesaError` where Mesa is missing, and RuntimeError
    where a program doesn't load.
    """
    with tempfile.TemporaryDirectory() as folder:
        dump, program, report = Path(folder, "dump"), Path(folder, "program.vmfb"), Path(folder, "r.json")
        flags = [f"--iree-hal-dump-executable-files-to={dump}"]
        stand_in = target.removeprefix(_RADV)
        by_mesa = target != stand_in or stand_in not in TARGETS
        name = f"vulkan:{STAND_INS[stand_in][0]}" if by_mesa else f"hip:{target}"
        if stock:
            compile(source, target=name, flags=flags, output=program, enable_winograd=False)
        else:
            compile(source, target=name, flags=flags, output=program, report=report)
        layers = [] if stock else list(_chosen(json.loads(report.read_text())))
        if not by_mesa:
            return CompiledProgram(list(rocm_kernels(dump)), layers)
        expected = len(list(dump.rglob("*.spv")))
        return CompiledProgram(radv_kernels(program, stand_in, expected, mesa), layers)


def _chosen(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for layer in report["layers"]:
        if layer["chosen"] is not None:
            candidate = layer["candidates"][layer["chosen"]]
            yield {name: candidate[name] for name in ("algorithm", "schedule", "predicted_seconds")}


if __name__ == "__main__":
    sys.exit(main())
