"""Gradients of convolutions, imported from torch and computed by compiled programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import log, pi, sqrt

import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.importers.import_model import import_torch
from iree.winograd.loading.runtime import load
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from torch_problem import Problem
from wide import wide

SPACES = {
    "cpu:host": CpuBackend(CpuTarget.of("", "")).search_space(),
    "vulkan": GpuBackend(GpuTarget(1024, 65536)).search_space(),
}
"""By target, what says the error that an algorithm may have. A driver for Vulkan needs no GPU."""


def gradients(
    problem: Problem, gradient: torch.Tensor, image: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Of the image, the filter and a bias."""
    return torch.ops.aten.convolution_backward(
        gradient, image, weight, [problem.outputs], *problem.window, [True, True, True]
    )


class Backward(torch.nn.Module):
    """The gradients of one problem after another, whose operands follow each other."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = problems

    def forward(self, *operands: torch.Tensor) -> list[torch.Tensor]:
        return [
            each
            for number, problem in enumerate(self.problems)
            for each in gradients(problem, *operands[3 * number : 3 * number + 3])
        ]


def expect_gradients(problems: Sequence[Problem], target: str = "cpu:host") -> None:
    """All three of each, computed by one program, are as near to those in float64 as their budget says."""
    operands = []
    for problem in problems:
        image, weight = problem.operands()
        operands += [torch.randn_like(problem.convolve(image, weight)), image, weight]
    model = import_torch(torch.export.export(Backward(problems), tuple(operands)))
    program = load(compile(model, target=target), device="vulkan" if target == "vulkan" else "local-task")
    budget = SPACES[target].max_relative_errors["f32"]
    exact = Backward(problems)(*(operand.double() for operand in operands))
    names = [f"{name}, {problem}" for problem in problems for name in ("image", "weight", "bias")]
    for name, result, expected in zip(names, program(*operands), exact, strict=True):
        errors = (torch.as_tensor(result).double() - expected).abs()
        # The budget is for the mean; of n errors the largest is about sqrt(pi ln n) times that.
        largest = 2 * sqrt(pi * log(max(2, errors.numel())))
        assert errors.max() <= largest * budget * expected.abs().mean().clamp_min(1), name


PROBLEMS = (
    Problem((12, 11), (3, 3), (1, 1), (1, 1), (1, 1), channels=16, outputs=16),
    Problem((12, 11), (3, 5), (2, 3), (1, 2), (1, 1)),
    Problem((9, 8), (2, 3), (1, 1), (3, 3), (1, 1)),
    Problem((9, 9), (3, 3), (2, 1), (1, 2), (2, 1), groups=2),
    Problem((7, 7), (3, 3), (1, 1), (1, 1), (1, 1), channels=4, outputs=8, groups=4),
    Problem((7, 6), (3, 3), (1, 1), (1, 1), (1, 1), channels=8, outputs=8, groups=8),
    Problem((8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),
    Problem((4, 6), (1, 3), (3, 1), (1, 1), (1, 2)),
    Problem((31,), (4,), (2,), (1,), (1,)),
    Problem((5, 6, 4), (3, 2, 3), (1, 2, 1), (1, 0, 1), (1, 1, 1)),
    Problem((6, 5), (4, 4), (2, 2), (1, 1), (1, 1), transposed=True, output_padding=(1, 0)),
)


@pytest.mark.parametrize(
    "problems", [PROBLEMS[:9:4], *wide([PROBLEMS[2:9:4], (*PROBLEMS[1:9:2], *PROBLEMS[9:])])], ids=len
)
def test_gradients_are_torchs(problems: Sequence[Problem]) -> None:
    expect_gradients(problems)


@pytest.mark.parametrize("problems", wide([PROBLEMS[6:7], (PROBLEMS[3], *PROBLEMS[9:])]), ids=len)
def test_gradients_on_a_gpu_are_torchs(problems: Sequence[Problem]) -> None:
    expect_gradients(problems, "vulkan")


def random_problem(seed: int) -> Problem | None:
    """None where a convolution has no outputs."""
    generator = random.Random(seed)
    rank = generator.choice([1, 2, 2, 2, 3])

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(generator.randint(low, high) for _ in range(rank))

    strides, groups = sizes(1, 3), generator.choice([1, 1, 2, 3])
    transposed = generator.random() < 0.2
    more = tuple(generator.randint(0, stride - 1) for stride in strides) if transposed else ()
    problem = Problem(
        sizes(3, 12 if rank < 3 else 6),
        sizes(1, 6 if rank < 3 else 3),
        strides,
        sizes(0, 3),
        sizes(1, 2),
        groups * generator.randint(1, 20),
        groups * generator.randint(1, 20),
        groups,
        generator.randint(1, 4),
        transposed,
        more,
    )
    return problem if min(problem.output_size) > 0 else None


@pytest.mark.wide
@pytest.mark.parametrize("first", range(0, 10, 10))
def test_gradients_of_random_convolutions_are_torchs(first: int) -> None:
    problems = [random_problem(seed) for seed in range(first, first + 5)]
    expect_gradients([problem for problem in problems if problem is not None])


class Forward(torch.nn.Module):
    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def forward(self, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return self.problem.convolve(image, weight)


@pytest.mark.wide
def test_errors_of_gradients_are_within_twice_the_forwards() -> None:
    """Or within the error budget, where the convolution itself makes less of it."""
    problem = random_problem(3)
    assert problem is not None
    image, weight = problem.operands()
    gradient = torch.randn_like(problem.convolve(image, weight))

    def relative_errors(model: torch.nn.Module, *operands: torch.Tensor) -> list[float]:
        exported = torch.export.export(model, operands)
        program = load(compile(import_torch(exported), target="cpu:host", threads=1), device="local-sync")
        exact = model(*(operand.double() for operand in operands))
        results, exacts = program(*operands), exact
        if isinstance(exact, torch.Tensor):
            results, exacts = (results,), (exact,)
        pairs = zip(results, exacts, strict=True)
        return [
            float((torch.as_tensor(result).double() - expected).abs().sum() / expected.abs().sum())
            for result, expected in pairs
        ]

    (forward,) = relative_errors(Forward(problem), image, weight)
    limit = max(2 * forward, SPACES["cpu:host"].max_relative_errors["f32"])
    for name, error in zip(
        ("image", "weight"), relative_errors(Backward([problem]), gradient, image, weight), strict=False
    ):
        assert error <= limit, name


def test_one_gradient_alone() -> None:
    """Programs ask for the gradients that they need."""

    class OfWeight(torch.nn.Module):
        def forward(self, gradient: torch.Tensor, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            _, of_weight, _ = torch.ops.aten.convolution_backward(
                gradient, image, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
            )
            return of_weight

    operands = torch.randn(2, 5, 8, 8), torch.randn(2, 3, 8, 8), torch.randn(5, 3, 3, 3)
    model = import_torch(torch.export.export(OfWeight(), operands))
    assert [each.shape for each in model.outputs] == [(5, 3, 3, 3)]
