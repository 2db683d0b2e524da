"""Writes the kernels of a fixed set of layers and targets as text, and compares them with others.

python -m benchmarks.kernel_text write before
git checkout ...
python -m benchmarks.kernel_text compare before

A change that is not meant to change any kernel changes no text. There is a file per target and layer: what
was chosen for each convolution, then the program after this project's passes, its executables first, as IREE
gets it. Large constants are digests.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import numpy as np
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.kernel_failures import take_kernel_users
from iree.winograd.compiling.pass_pipeline import run_passes
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import open_session
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.resource_data import resource_data
from iree.winograd.passes.infrastructure.containment import Containment
from iree.winograd.passes.match.navigation import walk
from iree.winograd.pipelines.compile_pipeline import compile_pipeline
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags

from benchmarks.kernel_layers import PROGRAMS, TARGETS, KernelTarget, Layer, Program

_LARGE_CONSTANT = 64
_SHOWN_LINES = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    # What a user has calibrated has no part in the choice.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder
        texts = kernel_texts()
        if arguments.action == "write":
            for name, text in texts:
                path = arguments.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        else:
            sys.exit(1 if compare(dict(texts), arguments.folder) else 0)


def kernel_texts() -> Iterator[tuple[str, str]]:
    """The name of a file and its text, for each target and layer."""
    for target_name, target in TARGETS.items():
        for name, program in PROGRAMS.items():
            yield f"{target_name}/{name}.mlir", kernel_text(program, target)


def kernel_text(program: Layer | Program, target: KernelTarget) -> str:
    """What was chosen for the layers of a program, and the program with its kernels."""
    options = WinogradOptions(threads=target.threads, output_tile=program.output_tile)
    decisions: list[Decision] = []
    with Compilation(
        open_session(target_flags(target.target), options),
        None,
        Stages(compile_to=REWRITE_PHASE),
        report=lambda diagnostic: print(diagnostic.format(), file=sys.stderr),
    ) as compilation:
        invocation = compilation.compile(program.build(compilation))
        if invocation is None:
            raise ValueError("a program doesn't compile")
        module = invocation.export_module()
        run_passes(module, compile_pipeline(options, decisions.append), IRDumps(), Containment())
        take_kernel_users(module)
        return "".join(map(_choice, decisions)) + _digests(module) + _asm(module)


def compare(texts: dict[str, str], folder: Path) -> int:
    """Print what differs from the texts in `folder`; returns how many do, those missing on one side too."""
    others = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.mlir"))}
    differing = 0
    for name in sorted({*texts, *others}):
        if texts.get(name) == others.get(name):
            continue
        differing += 1
        lines = list(
            unified_diff(
                others.get(name, "").splitlines(), texts.get(name, "").splitlines(), lineterm="", n=1
            )
        )
        print(f"{name}: {len(lines)} lines of difference", *lines[2 : 2 + _SHOWN_LINES], sep="\n  ")
    print(f"{differing} of {len(texts)} differ")
    return differing


def _choice(decision: Decision) -> str:
    chosen = None if decision.chosen is None else decision.chosen.implementation
    return f"// {decision.kind} {decision.number}: {chosen}; {decision.reason}\n"


def _digests(module: ir.Operation) -> str:
    """A line for each constant that is kept as a resource."""
    lines = []
    for operation in walk(module):
        if operation.name == "arith.constant" and "dense_resource" in str(operation.attributes["value"]):
            digest = hashlib.sha256(resource_data(operation, np.float32).tobytes()).hexdigest()[:16]
            lines.append(f"// {operation.results[0].type}: {digest}\n")
    return "".join(lines)


def _asm(module: ir.Operation) -> str:
    return module.get_asm(large_elements_limit=_LARGE_CONSTANT, large_resource_limit=_LARGE_CONSTANT)


if __name__ == "__main__":
    main()
