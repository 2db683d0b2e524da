"""Convolutions whose outer taps may read only padding, on whole numbers, which are added up exactly."""

from __future__ import annotations

from itertools import product
from typing import Any

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem

CONVOLUTIONS = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}


def random_problem(
    generator: np.random.Generator, rank: int, groups: int, channels: int
) -> ConvolutionProblem:
    """One whose dilation is about the size of its image, so that some taps may read padding only."""
    while True:
        kernel, strides = (tuple(map(int, generator.integers(1, 4, rank))) for _ in range(2))
        size = tuple(map(int, generator.integers(2, 7, rank)))
        dilations = tuple(map(int, generator.integers(1, 9, rank)))
        low, high = (
            tuple(
                int(generator.integers(0, taps * dilation))
                for taps, dilation in zip(kernel, dilations, strict=True)
            )
            for _ in range(2)
        )
        if rank == 2:
            high = low
        try:
            return ConvolutionProblem(
                batch=2,
                input_size=size,
                padding_low=low,
                padding_high=high,
                kernel_size=kernel,
                strides=strides,
                dilations=dilations,
                groups=groups,
                input_channels=channels,
                output_channels=16,
            )
        except ValueError:
            continue


@pytest.mark.parametrize("seed", range(100))
def test_finds_the_taps_that_read_the_image(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), 1, 1, 8)
    (size,), (outputs,) = problem.input_size, problem.output_size
    (low,), (stride,), (dilation,) = problem.padding_low, problem.strides, problem.dilations
    taps = range(problem.kernel_size[0])
    reading = [
        tap
        for tap in taps
        if any(0 <= output * stride + tap * dilation - low < size for output in range(outputs))
    ]
    expected = range(reading[0], reading[-1] + 1) if reading else taps
    assert problem.reading_taps == (expected,)


class Trimmed(torch.nn.Module):
    """Convolutions of images of their own, and the gradients of the filters of those of two dimensions."""

    def __init__(self, problems: list[ConvolutionProblem], runtime_filters: bool) -> None:
        super().__init__()
        self.problems, self.runtime_filters = problems, runtime_filters
        for number, each in enumerate(problems):
            shape = each.output_channels, each.group_inputs, *each.kernel_size
            self.register_buffer(f"filter{number}", torch.randint(-2, 3, shape).float())

    def forward(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for number, each in enumerate(self.problems):
            image = arguments[number]
            filters = getattr(self, f"filter{number}")
            if self.runtime_filters:
                filters = filters * arguments[-1]
            around = [
                size
                for sizes in zip(reversed(each.padding_low), reversed(each.padding_high), strict=True)
                for size in sizes
            ]
            padded = torch.nn.functional.pad(image, around)
            convolution: Any = CONVOLUTIONS[each.spatial_rank]
            result = convolution(
                padded, filters, stride=each.strides, dilation=each.dilations, groups=each.groups
            )
            results.append(result)
            if each.spatial_rank == 2:
                window = each.strides, each.padding_low, each.dilations, False, [0, 0], each.groups
                _, gradient, _ = torch.ops.aten.convolution_backward(
                    result, image, filters, None, *window, [False, True, False]
                )
                results.append(gradient)
        return results


@pytest.mark.wide
@pytest.mark.parametrize("runtime_filters", [False, True], ids=["constant", "known at run time"])
def test_agrees_with_float64(runtime_filters: bool) -> None:
    seed = int(runtime_filters)
    generator = np.random.default_rng(seed)
    problems = [
        random_problem(generator, rank, groups, channels)
        for rank, (groups, channels) in product((1, 2, 3), ((1, 16), (4, 16), (16, 16)))
    ]
    torch.manual_seed(seed)
    model = Trimmed(problems, runtime_filters)
    arguments = [
        torch.randint(-2, 3, (each.batch or 1, each.input_channels, *each.input_size)).float()
        for each in problems
    ]
    arguments.append(torch.tensor([2.0]))
    imported = iree.winograd.import_torch(model, *arguments)
    program = iree.winograd.load(iree.winograd.compile(imported, output_tile=1, strict=True))
    expected = model.double()(*(each.double() for each in arguments))
    for result, exact in zip(program(*arguments), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result), exact.numpy())
