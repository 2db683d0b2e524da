"""How a program is compiled and run: the target, its numbers, and what computes its convolutions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from math import prod
from unittest import mock

from guest import EMULATED
from hypothesis import strategies as st
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import Schedule
from iree.winograd.pipelines.selection.candidates import (
    SearchSpace,
    candidate_algorithms,
    convolution_shape,
)
from iree.winograd.pipelines.selection.chooser import Chooser
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import candidate
from iree.winograd.pipelines.selection.schedule_ranges import schedule_ranges
from number_types import NUMBER_TYPES, NumberType

TARGETS = {
    "avx512": "cpu:skylake-avx512",
    "amx": "cpu:skylake-avx512",
    "avx2": "cpu:haswell",
    "sse": "cpu:x86-64",
    "host": "cpu",
    "neon": "cpu:cortex-a72",
    "neon-fp16": "cpu:cortex-a76",
    "apple": "cpu:apple-m1",
    "sve": "cpu:neoverse-v1",
    "vulkan": "vulkan",
    "cuda": "cuda:sm_80",
}
"""By name, what `iree.winograd.compile` calls it."""
FEATURES = {"amx": "--iree-llvmcpu-target-cpu-features=+amx-tile,+amx-bf16"}
"""The flags of targets that no processor's name tells apart: programs for AMX run without it, too."""

DRAWN_NUMBERS = ("f32", "f32", "f32", "f32", "f16", "bf16")
"""Those of a program: most findings don't depend on them, and bounds of f32 tell more."""


@dataclass(frozen=True)
class Configuration:
    target: str
    """A name in `TARGETS`."""
    threads: int
    """That the program is compiled for."""
    output_tile: int | None
    """As in `WinogradOptions`."""
    implementation_seed: int | None
    """Of the choice of an algorithm and schedule that the tuner may try; None takes the predicted ones."""
    fold_filters: str = "compile"
    evaluates_constants: bool = False
    """Whether IREE compiles and runs what is computed from constants, which takes a while."""
    verifies: bool = True
    """Whether IREE verifies the program after each of its passes, which takes a third of the time."""
    optimizes: bool = True
    """Whether IREE's code generator does what it need not."""
    size_hint: tuple[int, ...] = ()
    """As in `WinogradOptions`."""
    numbers: str = "f32"
    """A name in `NUMBER_TYPES`: what its tensors hold."""

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            "--iree-llvmcpu-debug-symbols=false",
            f"--iree-opt-const-eval={str(self.evaluates_constants).lower()}",
            # Each constant would be computed by a function of its own, a tenth of the time.
            f"--iree-opt-const-expr-hoisting={str(self.evaluates_constants).lower()}",
            *([FEATURES[self.target]] if self.target in FEATURES else []),
            *(() if self.optimizes else ("--iree-llvmcpu-mlir-opt-level=O0",)),
        )

    @property
    def number_type(self) -> NumberType:
        numbers = NUMBER_TYPES[self.numbers]
        # IREE's conversions for processors without F16C know no numbers below the least normal one.
        is_converted = self.target == "sse" and self.numbers == "f16"
        return replace(numbers, zero_below=2.0**-14) if is_converted else numbers

    @property
    def is_cpu(self) -> bool:
        return TARGETS[self.target].startswith("cpu")

    @property
    def emulated(self) -> str | None:
        """The processor that an emulator runs its programs as, if one does."""
        processor = TARGETS[self.target].partition(":")[2]
        return processor if processor in EMULATED else None


def configurations(
    targets: Sequence[str], numbers: Sequence[str] = DRAWN_NUMBERS
) -> st.SearchStrategy[Configuration]:
    return st.builds(
        Configuration,
        target=st.sampled_from(targets),
        threads=st.sampled_from((1, 2, 16)),
        # Fewer of what takes longest to compile.
        output_tile=st.sampled_from((None, None, None, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)),
        implementation_seed=st.one_of(st.none(), st.integers(0, 2**20)),
        fold_filters=st.sampled_from(("compile", "compile", "load")),
        evaluates_constants=st.sampled_from((*(False,) * 7, True)),
        verifies=st.sampled_from((False, False, False, True)),
        optimizes=st.sampled_from((False, False, True)),
        # The last is of the batch, too, where three sizes are open.
        size_hint=st.sampled_from(((), (7,), (16,), (40,), (5, 16, 24))),
        numbers=st.sampled_from(numbers),
    )


@contextmanager
def chosen_implementations(configuration: Configuration) -> Iterator[list[Decision]]:
    """Has compilations in the block choose as `configuration` says; yields what they decide."""
    decisions: list[Decision] = []
    decide = Chooser.decide
    seed = configuration.implementation_seed

    def decide_at_random(*arguments: object) -> Decision:
        decision = decide(*arguments)  # type: ignore[arg-type]
        if seed is not None and decision.chosen is not None and decision.problem is not None:
            choice = random.Random(f"{seed} {decision.names}")
            implementation = _random_implementation(decision.problem, decision.space, choice)
            chosen = candidate(decision.problem, decision.space, implementation)
            ranges = schedule_ranges(decision.problem, decision.space, implementation, None)
            decision = replace(decision, chosen=chosen, tuned=True, candidates=(chosen,), ranges=ranges)
        decisions.append(decision)
        return decision

    with mock.patch.object(Chooser, "decide", decide_at_random):
        yield decisions


def _random_implementation(
    problem: ConvolutionProblem, space: SearchSpace, choice: random.Random
) -> Implementation:
    algorithms = list(candidate_algorithms(problem))
    # Kernels are written out per element of the transformed tile: many small ones for each large one.
    while True:
        (algorithm,) = choice.choices(algorithms, [_transformed_size(each) ** -0.5 for each in algorithms])
        if schedules := _accurate_schedules(space, problem, algorithm):
            (schedule,) = choice.choices(schedules, [_unrolled_size(each) ** -0.5 for each in schedules])
            return Implementation(algorithm, schedule)
        # A workgroup has not the memory for it; there is one, as the convolution was taken.
        algorithms.remove(algorithm)


def _transformed_size(algorithm: Algorithm) -> int:
    """Elements of a transformed tile."""
    return prod(m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True))


def _unrolled_size(schedule: Schedule) -> int:
    """Vectors of sums that a kernel holds in registers, each with operations of its own."""
    blocks = [getattr(schedule, f.name) for f in fields(schedule) if f.name.startswith("register_")]
    return prod(filter(None, blocks))


@cache
def _accurate_schedules(
    space: SearchSpace, problem: ConvolutionProblem, algorithm: Algorithm
) -> list[Schedule]:
    """Without those that round operands: only programs whose users ask for it have them."""
    return [
        schedule
        for schedule in space.schedules(convolution_shape(problem, algorithm))
        if schedule.keeps_operands(problem.exact_type, are_transformed=not algorithm.is_direct)
    ]
