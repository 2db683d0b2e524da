"""Processor time of compiling whole networks, with our passes and by IREE alone.

    python -m benchmarks.compile_time --network resnet18 alexnet --output benchmarks/results/compile-time.json

Networks are those of `benchmarks.models` and of `benchmarks.zoo`, at batch 1. Each is imported once; then
`iree-compile` compiles it for this machine, in turns with and without our flag, and the least of all rounds
counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from iree.winograd import import_torch
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY

from benchmarks.compiled import PLAIN_FLAGS
from benchmarks.networks.catalog import NETWORKS
from benchmarks.networks.zoo import ZOO
from benchmarks.processor_time import processor_seconds

_ALL = {**ZOO, **NETWORKS}


@dataclass(frozen=True)
class CompileTime:
    """Seconds of processor time that a network took."""

    network: str
    ours: float
    iree: float

    @property
    def ratio(self) -> float:
        return self.ours / self.iree


def compile_times(program: Path, network: str, rounds: int) -> CompileTime:
    """Compiles the file `program`. Raises CalledProcessError when that fails."""
    best = CompileTime(network, float("inf"), float("inf"))
    for _ in range(rounds):
        ours, iree = (
            processor_seconds(
                [TOOL_DIRECTORY / "iree-compile", *flags, *PLAIN_FLAGS, program, "-o", "/dev/null"],
                variables={"IREE_WINOGRAD_PYTHON": sys.executable},
            )
            for flags in (["--iree-enable-winograd"], [])
        )
        best = CompileTime(network, min(best.ours, ours), min(best.iree, iree))
    return best


def main() -> None:
    options = _parse_arguments()
    torch.set_grad_enabled(False)
    records = []
    print(f"{'network':30}{'IREE':>9}{'ours':>9}{'ratio':>7}")
    for name in options.network:
        network = _ALL[name]
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "network.mlirbc")
            import_torch(network.build().eval(), network.input(1)).save(program)
            times = compile_times(program, name, options.rounds)
        print(f"{name:30}{times.iree:7.1f} s{times.ours:7.1f} s{times.ratio:7.2f}", flush=True)
        records.append(asdict(times))
        if options.output is not None:
            options.output.write_text(json.dumps(records, indent=1) + "\n")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=_ALL, metavar="NETWORK", default=list(NETWORKS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/compile-time.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
