"""Transposed convolutions, imported from torch and from ONNX, and computed by compiled programs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.importers.import_model import import_onnx, import_torch
from iree.winograd.loading.runtime import load
from torch_problem import Problem
from wide import wide_combinations


def transposed(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Problem:
    return Problem(
        size,
        kernel,
        strides,
        padding,
        dilations,
        channels=2,
        outputs=3,
        transposed=True,
        output_padding=output_padding,
    )


def expect(problem: Problem, result: npt.NDArray[np.float32]) -> None:
    """`result` is that of the operands, within the error of sums in any order."""
    image, weight = (operand.double() for operand in problem.operands())
    terms = problem.channels * prod(problem.kernel)
    bound = terms * UNIT_ROUNDOFF["float32"] * problem.convolve(image.abs(), weight.abs()).max()
    # The least tiles are the only ones that so few products are worth.
    assert (torch.as_tensor(result).double() - problem.convolve(image, weight)).abs().max() <= 8 * bound


class Layers(torch.nn.Module):
    """A layer for each problem, with an image of its own."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = problems
        self.weights = torch.nn.ParameterList(problem.operands()[1] for problem in problems)

    def forward(self, *images: torch.Tensor) -> list[torch.Tensor]:
        layers = zip(self.problems, images, self.weights, strict=True)
        return [problem.convolve(image, weight) for problem, image, weight in layers]


def check(problems: Sequence[Problem], target: str = "cpu", device: str = "local-task") -> None:
    """Compute all problems by one program."""
    images = [problem.operands()[0] for problem in problems]
    compiled = compile(import_torch(Layers(problems), *images), target=target, strict=True)
    results = load(compiled, device=device)(*images)
    for problem, result in zip(problems, results if len(problems) > 1 else [results], strict=True):
        expect(problem, result)


PROBLEMS = (
    # torch-mlir read beyond the image where padding exceeds the filter's extent by less than output padding.
    transposed((4, 6), (1, 3), (3, 1), (1, 1), (2, 0), (1, 1)),
    transposed((9, 7), (3, 3), (3, 3), (5, 3), (2, 1), (2, 2)),
    transposed((9,), (3,), (3,), (5,), (2,), (2,)),
    transposed((3, 4, 4), (1, 2, 2), (1, 3, 2), (0, 2, 0), (0, 2, 1), (1, 1, 1)),
    # Padding alone, output padding alone, and as much of it.
    transposed((8, 6), (1, 2), (2, 2), (2, 4), (1, 0), (1, 2)),
    transposed((6, 7), (2, 4), (2, 3), (1, 1), (1, 2), (1, 1)),
)


def test_transposed_convolutions_of_torch() -> None:
    check(PROBLEMS)


@pytest.mark.wide
def test_phases_of_outputs_are_written_between_each_other_on_a_gpu() -> None:
    """In the image that they are parts of: nothing is inserted."""
    check(PROBLEMS[1:2], target="vulkan", device="vulkan")


def random_problem(seed: int) -> Problem | None:
    """One whose padding exceeds the filter; None where it has no outputs."""
    generator = random.Random(seed)
    rank = generator.choice([1, 2, 2, 2, 3])

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(generator.randint(low, high) for _ in range(rank))

    strides, dilations, kernel = sizes(1, 3), sizes(1, 3), sizes(1, 3)
    more = [
        generator.randint(0, max(stride, dilation) - 1)
        for stride, dilation in zip(strides, dilations, strict=True)
    ]
    padding = [
        dilation * (taps - 1) + generator.randint(0, 2)
        for dilation, taps in zip(dilations, kernel, strict=True)
    ]
    problem = transposed(sizes(2, 9), kernel, strides, tuple(padding), tuple(more), dilations)
    return problem if min(problem.output_size) > 0 else None


@pytest.mark.wide
@pytest.mark.parametrize("first", range(0, 10, 5))
def test_random_transposed_convolutions_of_torch(first: int) -> None:
    check([problem for seed in range(first, first + 5) if (problem := random_problem(seed)) is not None])


@pytest.mark.parametrize(
    ("problem", "origin"),
    [
        (PROBLEMS[0], "computed"),
        *wide_combinations([(PROBLEMS[0], "input"), (PROBLEMS[1], "constant"), (PROBLEMS[-1], "input")]),
    ],
    ids=str,
)
def test_transposed_convolutions_of_onnx(problem: Problem, origin: str) -> None:
    """With a filter that the model holds, is given, or computes."""
    image, weight = problem.operands()
    nodes = [
        onnx.helper.make_node(
            "ConvTranspose",
            ["image", "weight"],
            ["result"],
            strides=problem.strides,
            pads=[*problem.padding, *problem.padding],
            output_padding=problem.output_padding,
            dilations=problem.dilations,
        )
    ]
    operands = {"image": image}
    if origin == "input":
        operands["weight"] = weight
    elif origin == "computed":
        nodes.insert(0, onnx.helper.make_node("Neg", ["negative"], ["weight"]))
        operands["negative"] = -weight
    float_type = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "transposed",
        [onnx.helper.make_tensor_value_info(name, float_type, each.shape) for name, each in operands.items()],
        [onnx.helper.make_tensor_value_info("result", float_type, None)],
        [onnx.numpy_helper.from_array(weight.numpy(), "weight")] if origin == "constant" else [],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    expect(problem, load(compile(import_onnx(model), strict=True))(*operands.values()))
