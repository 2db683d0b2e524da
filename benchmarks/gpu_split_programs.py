"""The programs of `benchmarks.gpu_split`, compiled where the compiler is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.gpu_programs import FEW_COPIES, Variant, compile_layer, variant_of, workload_of
from benchmarks.gpu_split_cases import CASES, PRODUCT_TILE, PRODUCTS, Case, split, warpgroup
from benchmarks.square_layer import SquareLayer

if TYPE_CHECKING:
    import numpy.typing as npt
    from iree.winograd.pipelines.selection.decision import Candidate
    from iree.winograd.tuning.workloads import Workload

TARGET = "cuda:sm_90a"
LOOSE_ERROR = 1e-3
"""That of products of rounded numbers."""


def build(
    folder: Path,
    layers: list[SquareLayer],
    variants: Callable[[SquareLayer], Iterable[tuple[str, Candidate]]],
    names: list[str] | None,
    processes: int,
) -> None:
    """Compile all programs, and write what running them needs to know."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        cases = [pool.submit(build_case, folder, number, case) for number, case in enumerate(CASES)]
        programs = [
            pool.submit(_build_program, folder, layer, number, name, candidate)
            for layer in layers
            for number, (name, candidate) in enumerate(variants(layer))
            if names is None or name.startswith(tuple(names))
        ]
        products = [
            pool.submit(_build_products, folder, layer, number, target, schedule)
            for layer in PRODUCTS
            for number, (target, schedule) in enumerate(_product_schedules())
        ]
        report = {
            name: [each.result() for each in built]
            for name, built in (("cases", cases), ("layers", programs), ("products", products))
        }
    (folder / "programs.json").write_text(json.dumps(report))


def _build_program(
    folder: Path, layer: SquareLayer, number: int, name: str, candidate: Candidate
) -> dict[str, Any]:
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    path.write_bytes(compile_layer(layer, TARGET, variant_of(candidate)))
    print(path, name, flush=True)
    facts = {"predicted": dict(candidate.stage_seconds), "predicted_error": candidate.predicted_error}
    return {"layer": asdict(layer), "variant": name, "file": path.name, **facts}


def _product_schedules() -> Iterator[tuple[str, Mapping[str, int | str]]]:
    """Those that split products are timed by, and the targets that they are compiled for."""
    for block in (32, 64, 128, None):
        blocks = {} if block is None else {"summed_block": block}
        yield TARGET, warpgroup(resident_workgroups=3, walking_workgroups=396, **blocks)
        yield TARGET, warpgroup(128, 128, 6, walking_workgroups=132, **blocks)
        yield "cuda:sm_80", split(stages=4, resident_workgroups=4, **blocks)


def _build_products(
    folder: Path, layer: SquareLayer, number: int, target: str, schedule: Mapping[str, int | str]
) -> dict[str, Any]:
    path = folder / f"{layer.name}-{number}.vmfb".replace(" ", "_")
    tile = PRODUCT_TILE, PRODUCT_TILE
    path.write_bytes(compile_layer(layer, target, Variant(tile, schedule), copies=FEW_COPIES))
    print(path, schedule, flush=True)
    return {"layer": asdict(layer), "target": target, "schedule": schedule, "file": path.name}


def variants_of(
    layer: SquareLayer, promising: int, summed_blocks: list[int], limits: list[float]
) -> Iterator[tuple[str, Candidate]]:
    """By name: the choice, what it would be with less or with larger errors, and the most promising."""
    from iree.winograd.pipelines.selection.candidates import implementations
    from iree.winograd.pipelines.selection.prediction import candidate

    workload = workload_of(layer, TARGET, None)
    problem, space, limit = workload.problem, workload.space, workload.max_relative_error
    candidates = [candidate(problem, space, each) for each in implementations(space, problem)]
    candidates.sort(key=lambda each: each.predicted_seconds)
    accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
    loose = [each for each in candidates if each.predicted_error <= LOOSE_ERROR]

    def of_kind(kind: str, among: list[Candidate]) -> list[Candidate]:
        return [each for each in among if each.implementation.schedule.kind == kind]

    yield "chosen", workload.default
    yield from _by_blocks(workload, summed_blocks)
    yield "sm_80", of_kind("split", accurate)[0]
    yield "fp32", next(each for each in accurate if not each.implementation.schedule.matrix_products)
    yield "1e-3", loose[0]
    for each in limits:
        yield f"at {each:g}", next(one for one in candidates if one.predicted_error <= each)
    rounded = [each for each in loose if each.implementation.schedule.matrix_products == 1]
    for each in (*of_kind("warpgroup", accurate)[:promising], *rounded[1 : promising + 1]):
        yield str(each.implementation), each


def _by_blocks(workload: Workload, summed_blocks: list[int]) -> Iterator[tuple[str, Candidate]]:
    """The choice with matrix units adding up all large products, or other blocks of them."""
    from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.pipelines.selection.prediction import candidate

    chosen = workload.default.implementation
    schedule = chosen.schedule
    if not isinstance(schedule, MatrixSchedule):
        return
    for block in (None, *summed_blocks):
        try:
            other = replace(schedule, summed_block=block)
        except ValueError:
            # Staged ones sum no other blocks than those of a stage.
            continue
        if other != schedule:
            name = "one sum" if block is None else f"blocks of {block}"
            yield name, candidate(workload.problem, workload.space, Implementation(chosen.algorithm, other))


def build_case(folder: Path, number: int, case: Case, target: str = TARGET) -> dict[str, Any]:
    import iree.winograd
    from iree.compiler import ir
    from iree.winograd.passes.infrastructure.algorithm import Algorithm
    from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
    from iree.winograd.pipelines.backends.schedules import schedule_from_record
    from iree.winograd.pipelines.selection.implementation import Implementation
    from iree.winograd.pipelines.selection.prediction import implementation_error
    from iree.winograd.tuning.measuring.convolution_program import ConvolutionProgram

    problem = ConvolutionProblem.parse(case.problem)
    program = ConvolutionProgram(problem)
    # Without biases, results have the scale of the image.
    program.bias[...] = 0
    algorithm = Algorithm(case.output_tile, case.part_size)
    implementation = Implementation(algorithm, schedule_from_record(case.schedule))
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        source = str(program.build(context, implementation))
    compiled = iree.winograd.compile(source, target=target, strict=True)
    (folder / f"case-{number}.vmfb").write_bytes(bytes(compiled))
    sums = _sums(program)
    np.savez(folder / f"case-{number}.npz", image=program.image, sums=sums)
    predicted = implementation_error(problem, implementation)
    return {"case": asdict(case), "file": f"case-{number}", "predicted_error": predicted}


def _sums(program: Any) -> npt.NDArray[np.float64]:
    """The convolution of the program's image without bias and ReLU, in float64."""
    from iree.winograd.dialect import reference

    problem = program.problem
    image = program.image.reshape(-1, *problem.input_size, problem.input_channels)
    filters = program.filters.reshape(*problem.kernel_size, problem.group_inputs, problem.output_channels)
    padding = problem.padding_low, problem.padding_high
    convolved = reference.convolution(
        image, filters, problem.strides, problem.dilations, *padding, problem.groups
    )
    sums: npt.NDArray[np.float64] = convolved.reshape(*convolved.shape[:-1], *program.bias.shape)
    return sums
