"""Compiles every kernel that is chosen for the layers of networks, for all of AMD's GPUs, many at a time.

    python -m benchmarks.amd.zoo_layers > layers.txt        # where there are torch and pytorchcv
    python -m benchmarks.amd.chosen --layers layers.txt --jobs 64 --output chosen.json
    python -m benchmarks.amd.chosen --layers layers.txt --jobs 64 --output chosen.json --targets radv:navi31
    python -m benchmarks.amd.chosen --summarize chosen.json --output benchmarks/results/amd-chosen.json

These are the layers of `benchmarks.amd` and of a dozen networks at batches of 1 and 32. Of layers that a
target has the same kernels for but for their sizes one is compiled: those of the same algorithm and schedule
whose sizes leave as much of blocks and tiles over, in loops that are as short. What is missing in the file is
added, so that a run that ended goes on. The exit status is 1 where a kernel spills registers or leaves a SIMD
less than two waves.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from iree.winograd.calibration.programs import backend_of
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_record
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.selection.candidates import convolution_shape
from iree.winograd.pipelines.selection.implementation import Implementation

from benchmarks.amd.compiled import ALL_TARGETS, CompiledProgram, compiled_for_each, target_name
from benchmarks.amd.kernel import CompiledKernel
from benchmarks.amd.layers import problem_text
from benchmarks.amd.predicted import predicted
from benchmarks.amd.radv import MESA, is_installed
from benchmarks.amd.rocm import TARGETS
from benchmarks.results_file import ResultsFile

_SECONDS = 240
"""That no program takes to compile: a process that died says nothing."""
_WRITTEN_AFTER = 5.0
"""Seconds, for a file of many rows."""
_SHORT_LOOP = 8
"""Steps that compilers may unroll whole."""
_STEP = 16
FEWEST_WAVES = 2
"""Of a SIMD, so that one works while another waits."""

Rows = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class _Question:
    """What is chosen for layers on IREE's target."""

    name: str
    layers: tuple[ConvolutionProblem, ...]


@dataclass(frozen=True)
class _Job:
    """A layer that stands for `layers` of the same kernels, for GPUs of one of IREE's targets."""

    layer: ConvolutionProblem
    implementation: Implementation
    layers: int
    targets: tuple[str, ...]
    mesa: Path


def kernel_key(problem: ConvolutionProblem, implementation: Implementation) -> tuple[object, ...]:
    """What kernels depend on, apart from how many blocks of work there are."""
    shape = convolution_shape(problem, implementation.algorithm)
    schedule = {
        name: value
        for name, value in schedule_record(implementation.schedule).items()
        if name not in ("reduction_parts", "walking_workgroups")
    }
    rows = shape.images * prod(shape.tiles_per_image)
    blocks = (
        (rows, schedule.get("block_rows", schedule.get("block_tiles", 1))),
        (shape.group_outputs, schedule.get("block_columns", 1)),
        (shape.reduction, schedule.get("block_reduction", 1)),
        (shape.group_inputs, 4),
        (shape.group_outputs, 4),
        *zip(shape.output_size, implementation.algorithm.output_tile, strict=True),
    )
    return (
        implementation.algorithm,
        tuple(schedule.items()),
        getattr(implementation.schedule, "reduction_parts", 1) > 1,
        problem.kernel_size,
        problem.strides,
        problem.dilations,
        problem.groups > 1,
        tuple(size % block == 0 for size, block in blocks),
        min(_SHORT_LOOP, ceil_div(shape.reduction, _STEP)),
        any((*problem.padding_low, *problem.padding_high)),
    )


def _answer(question: _Question) -> list[tuple[ConvolutionProblem, Implementation]]:
    """What is chosen for each of the layers that isn't left to IREE."""
    backend = backend_of(question.name)
    assert isinstance(backend, GpuBackend)
    space = backend.search_space()
    found = ((layer, predicted(layer, space).chosen) for layer in question.layers)
    return [(layer, chosen.implementation) for layer, chosen in found if chosen is not None]


def _compile(job: _Job) -> Rows:
    rows = {}
    programs = compiled_for_each(problem_text(job.layer), job.targets, mesa=job.mesa)
    for target, compiled in programs:
        row: dict[str, Any] = {"target": target, "layer": str(job.layer), "layers": job.layers}
        if isinstance(compiled, CompiledProgram):
            row["chosen"] = next(iter(compiled.layers), None)
            row["kernels"] = list(map(kernel_facts, compiled.kernels))
        else:
            row["error"] = str(compiled)
        rows[f"{target}, {job.layer}"] = row
    return rows


def kernel_facts(kernel: CompiledKernel) -> dict[str, Any]:
    """What is recorded of a kernel."""
    names = ("name", "threads", "wave", "registers", "spilled", "shared", "waves")
    facts: dict[str, Any] = {name: getattr(kernel, name) for name in names}
    if kernel.loop is not None and kernel.bound is not None:
        density = kernel.loop.multiplying / kernel.loop.vector
        facts |= {"of_vector": round(density, 3), "bound": round(kernel.bound.of_peak, 3)}
    return facts


def _begin(processors: Any) -> None:
    """Has this process, and the compiler's threads, use one processor."""
    os.sched_setaffinity(0, {processors.get()})


def _jobs(
    answers: Sequence[tuple[_Question, Sequence[tuple[ConvolutionProblem, Implementation]]]],
    targets: Sequence[str],
    mesa: Path,
) -> Iterator[_Job]:
    """Of each of IREE's targets one for each key, those first that stand for most layers."""
    for name in dict.fromkeys(map(target_name, targets)):
        alike: dict[tuple[object, ...], list[tuple[ConvolutionProblem, Implementation]]] = {}
        for question, answer in answers:
            if question.name == name:
                for layer, implementation in answer:
                    alike.setdefault(kernel_key(layer, implementation), []).append((layer, implementation))
        own = tuple(each for each in targets if target_name(each) == name)
        for same in sorted(alike.values(), key=len, reverse=True):
            layer, implementation = same[0]
            yield _Job(layer, implementation, len(same), own, mesa)


def _has_all(job: _Job, results: ResultsFile) -> bool:
    return all(f"{target}, {job.layer}" in results.rows for target in job.targets)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=Path, help="a file of them")
    parser.add_argument("--targets", nargs="+", metavar="TARGET", help="all that there is a compiler for")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--output", type=Path, help="a JSON file")
    parser.add_argument("--summarize", type=Path, help="such a file: compile nothing, write what it says")
    parser.add_argument("--mesa", type=Path, default=MESA, help="the folder that Mesa is in")
    arguments = parser.parse_args()
    if arguments.summarize is not None:
        compiled_before = ResultsFile(arguments.summarize, "kernels")
        ResultsFile(arguments.output, "kernels").add_all(summary(compiled_before.rows))
        return _report(compiled_before)
    if arguments.layers is None:
        from benchmarks.amd.zoo_layers import zoo_layers

        layers = list(zoo_layers())
    else:
        layers = list(map(ConvolutionProblem.parse, arguments.layers.read_text().splitlines()))
    targets = arguments.targets or (ALL_TARGETS if is_installed(arguments.mesa) else TARGETS)
    results = ResultsFile(arguments.output, "kernels")
    context = multiprocessing.get_context("spawn")
    free = context.SimpleQueue()
    usable = sorted(os.sched_getaffinity(0))
    for number in range(4 * arguments.jobs):
        free.put(usable[number % len(usable)])
    with context.Pool(arguments.jobs, _begin, (free,)) as pool:
        questions = [
            _Question(name, tuple(layers[first::16]))
            for name in dict.fromkeys(map(target_name, targets))
            for first in range(16)
        ]
        answers = list(zip(questions, pool.map(_answer, questions, chunksize=1), strict=True))
        found = list(_jobs(answers, targets, arguments.mesa))
        jobs = sorted(
            (job for job in found if not _has_all(job, results)), key=lambda job: job.layers, reverse=True
        )
        print(f"{len(layers)} layers, {len(found)} different ones, {len(jobs)} to compile", flush=True)
        compiled = pool.imap_unordered(_compile, jobs)
        unwritten: Rows = {}
        written = time.monotonic()
        for number in range(len(jobs)):
            try:
                unwritten |= compiled.next(timeout=_SECONDS)
            except multiprocessing.TimeoutError:
                print(f"{len(jobs) - number} programs never compiled", file=sys.stderr)
                break
            except Exception as error:
                # Others are still to be compiled.
                print(f"a program failed: {error!r}", file=sys.stderr)
            if time.monotonic() > written + _WRITTEN_AFTER:
                results.add_all(unwritten)
                unwritten, written = {}, time.monotonic()
                print(f"{number + 1} of {len(jobs)}", flush=True)
        results.add_all(unwritten)
    return _report(results)


def summary(rows: Rows) -> Rows:
    """Of each target the kernels of a kind and of the same blocks."""
    found: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for row in rows.values():
        for kernel in row.get("kernels", ()):
            kind = (row["target"], _stage(kernel["name"]), *_blocks(row["chosen"]))
            found.setdefault(kind, []).append((row["layers"], kernel))
    return {", ".join(filter(None, kind)): _extremes(kind, kernels) for kind, kernels in found.items()}


def _stage(name: str) -> str:
    """What a kernel does, "IREE's" for one that isn't ours."""
    return name.split("_")[1] if name.startswith("winograd_") else "IREE's"


def _blocks(chosen: dict[str, Any] | None) -> tuple[str, str, str]:
    """The kind of a schedule, a workgroup's block, and that of a thread or a warp, where it has such."""
    schedule = {} if chosen is None else chosen["schedule"]

    def sizes(*names: str) -> str:
        return "x".join(str(schedule[name]) for name in names if name in schedule)

    of_part = sizes("thread_rows", "thread_columns") or sizes("warp_rows", "warp_columns")
    return schedule.get("kind", ""), sizes("block_rows", "block_columns"), of_part


def _extremes(kind: tuple[str, ...], kernels: Sequence[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    bounds = [kernel["bound"] for _, kernel in kernels if "bound" in kernel]
    return {
        **dict(zip(("target", "stage", "schedule", "block", "part"), kind, strict=True)),
        "layers": sum(layers for layers, _ in kernels),
        "kernels": len(kernels),
        "spilling": sum(kernel["spilled"] > 0 for _, kernel in kernels),
        "most_registers": max(kernel["registers"] for _, kernel in kernels),
        "fewest_waves": min(kernel["waves"] for _, kernel in kernels),
        "bounds": [min(bounds), max(bounds)] if bounds else None,
    }


def _report(results: ResultsFile) -> int:
    """Prints what isn't as it should be; 1 where there is such."""
    wrong = 0
    for name, row in results.rows.items():
        for kernel in row.get("kernels", ()):
            if kernel["spilled"] or kernel["waves"] < FEWEST_WAVES:
                wrong += 1
                print(f"{name}: {kernel['name']} spills {kernel['spilled']}, {kernel['waves']} waves")
        if "error" in row:
            wrong += 1
            print(f"{name}: {row['error'].splitlines()[0]}")
    print(f"{len(results.rows)} rows, {wrong} not as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
