"""Says what AMD's compilers make of a program's kernels: registers, spills, shared memory, loops, bounds.

    python -m benchmarks.amd                          # layers of ResNet-50, VGG-16 and Stable Diffusion
    python -m benchmarks.amd model.mlir --targets gfx1100 navi31
    python -m benchmarks.amd --stock --json           # of stock IREE, a line of JSON for each kernel

No GPU is needed. Targets that begin with "gfx" are ROCm's, by LLVM within IREE's compiler; the others, and
"radv:gfx1201", are GPUs that Mesa's driver is made to believe in, by its own compiler, which `make amd`
installs. `bound` is the part of the GPU's peak rate that the main loop could reach by the published rates of
vector and matrix units and of shared memory; latencies aren't in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from iree.winograd import compile

from benchmarks.amd.kernel import CompiledKernel, kernel_table
from benchmarks.amd.layers import LAYERS
from benchmarks.amd.radv import MESA, STAND_INS, radv_kernels
from benchmarks.amd.rocm import TARGETS, rocm_kernels

_RADV = "radv:"
_ALL = (*TARGETS, *(f"{_RADV}{name}" for name in STAND_INS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path, help="MLIR or ONNX; the layers above without any")
    parser.add_argument("--layers", nargs="+", default=LAYERS, help="some of these layers, by their names")
    parser.add_argument("--targets", nargs="+", default=_ALL, metavar="TARGET", help=", ".join(_ALL))
    parser.add_argument("--stock", action="store_true", help="the kernels of IREE alone")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each kernel")
    parser.add_argument("--mesa", type=Path, default=MESA, help="the folder that Mesa is in")
    arguments = parser.parse_args()
    sources = {str(path): str(path) for path in arguments.programs} or {
        name: LAYERS[name].text for name in arguments.layers
    }
    spilled = 0
    for name, source in sources.items():
        kernels = []
        for target in arguments.targets:
            try:
                kernels += kernels_of(source, target, stock=arguments.stock, mesa=arguments.mesa)
            except RuntimeError as error:
                print(f"{name}: {target}: {error}", file=sys.stderr)
        spilled += sum(kernel.spilled > 0 for kernel in kernels)
        if arguments.json:
            for kernel in kernels:
                print(json.dumps({"program": name, **kernel.as_json}), flush=True)
        else:
            print(f"\n{name}\n", *kernel_table(kernels), sep="\n", flush=True)
    print(f"{spilled} kernels spill", file=sys.stderr)


def kernels_of(
    source: str, target: str, *, stock: bool = False, mesa: Path = MESA
) -> Sequence[CompiledKernel]:
    """The kernels of a program, MLIR or the path of one, for one of the targets.

    Raises `NoMesaError` where Mesa is missing, and RuntimeError where a program doesn't load.
    """
    with tempfile.TemporaryDirectory() as folder:
        dump, program = Path(folder, "dump"), Path(folder, "program.vmfb")
        flags = [f"--iree-hal-dump-executable-files-to={dump}"]
        stand_in = target.removeprefix(_RADV)
        by_mesa = target != stand_in or stand_in not in TARGETS
        name = f"vulkan:{STAND_INS[stand_in][0]}" if by_mesa else f"hip:{target}"
        compile(source, target=name, flags=flags, output=program, enable_winograd=not stock)
        if not by_mesa:
            return list(rocm_kernels(dump))
        return radv_kernels(program, stand_in, len(list(dump.rglob("*.spv"))), mesa)


if __name__ == "__main__":
    main()
