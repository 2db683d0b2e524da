"""The samples that PyTorch tests its own convolutions with, those that torch-mlir and IREE compile.

They are all of images, and every other one of sounds and films, whose convolutions become those of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import iree.winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from conformance import (
    Compiled,
    compile_rewritten,
    expect_agreement,
    expect_stock_failure,
    split_failures,
)
from half_precision import ROUNDOFF, SMALLEST
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from wide import wide_combinations

OPERATIONS = [f"nn.functional.{kind}{rank}d" for kind in ("conv", "conv_transpose") for rank in (1, 2, 3)]


@dataclass(frozen=True, eq=False)
class Sample:
    """One call of a convolution function."""

    function: Any
    is_transposed: bool
    image: torch.Tensor
    filters: torch.Tensor
    bias: torch.Tensor | None
    options: dict[str, Any]

    def __call__(self, image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        return self.function(image, filters, self.bias, **self.options)

    def in_type(self, type_: torch.dtype) -> Sample:
        """The same of numbers that are rounded to a type."""
        bias = None if self.bias is None else self.bias.to(type_)
        return replace(self, image=self.image.to(type_), filters=self.filters.to(type_), bias=bias)

    def check(self, actual: np.ndarray, compiled: Compiled) -> None:
        bias = None if self.bias is None else self.bias.double()
        expected = self.function(self.image.double(), self.filters.double(), bias, **self.options)
        groups = self.options.get("groups", 1)
        first, second, *kernel = self.filters.shape
        inputs, outputs = (first, second * groups) if self.is_transposed else (second * groups, first)
        bound = compiled.error_bound(tuple(kernel), inputs, outputs, inputs // groups)
        scale = float(self.image.abs().max() * self.filters.abs().max())
        largest = inputs // groups * prod(kernel) * scale + (0 if bias is None else float(bias.abs().max()))
        if self.image.dtype != torch.float32:
            # Sums are in float32 and rounded when they are complete.
            least = ROUNDOFF[self.image.dtype] * expected.abs() + SMALLEST[self.image.dtype]
            bound += 2 * UNIT_ROUNDOFF["float32"] * largest / scale
            expect_within(actual, expected.numpy(), least.numpy() + bound * scale)
            return
        expect_agreement(actual, expected.numpy(), bound * scale, largest)


class Samples(torch.nn.Module):
    """All samples as one program, of the images and, unless they are constants, the filters."""

    def __init__(self, samples: Sequence[Sample], constant_filters: bool) -> None:
        super().__init__()
        self.samples = samples
        self.constant_filters = constant_filters
        for index, sample in enumerate(samples):
            self.register_buffer(f"filters_{index}", sample.filters)

    def forward(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = len(self.samples)
        filters = arguments[count:]
        if self.constant_filters:
            filters = tuple(self.get_buffer(f"filters_{index}") for index in range(count))
        return tuple(
            sample(image, weights)
            for sample, image, weights in zip(self.samples, arguments[:count], filters, strict=True)
        )


# One worker runs what compiles the samples of one function, of those of images for each eighth.
PARTS = [
    pytest.param(
        name,
        first,
        marks=[
            pytest.mark.xdist_group(name),
            *([] if (name, first) == ("nn.functional.conv2d", 0) else [pytest.mark.wide]),
        ],
    )
    for name in OPERATIONS
    for first in range(8 if name.endswith("2d") else 1)
]


@pytest.mark.parametrize(("name", "first"), PARTS)
def test_constant_filters(name: str, first: int) -> None:
    for samples, compiled in _compilable_samples(name, first):
        _check(samples, compiled, [sample.image for sample in samples])


@pytest.mark.parametrize(
    ("name", "type_", "step"),
    [
        ("nn.functional.conv2d", torch.float16, 32),
        *wide_combinations(
            [
                ("nn.functional.conv2d", torch.bfloat16, 4),
                ("nn.functional.conv_transpose2d", torch.float16, 4),
            ]
        ),
    ],
    ids=str,
)
def test_half_precision(name: str, type_: torch.dtype, step: int) -> None:
    samples = [sample.in_type(type_) for sample in _samples(name)[::step]]
    compilable, failing = split_failures(samples, lambda batch: compile_rewritten(_import(batch), threads=1))
    for batch, compiled in compilable:
        _check(batch, compiled, [sample.image for sample in batch])
    assert len(failing) <= len(samples) / 2, "too few samples compile for the test to tell anything"


@pytest.mark.wide
@pytest.mark.parametrize(("name", "first"), PARTS[1:9])
def test_filters_known_at_run_time_and_tiles_of_2(name: str, first: int) -> None:
    samples = [sample for batch, _ in _compilable_samples(name, first) for sample in batch]
    arguments = [sample.image for sample in samples] + [sample.filters for sample in samples]
    model = iree.winograd.import_torch(Samples(samples, constant_filters=False), *arguments)
    _check(samples, compile_rewritten(model, output_tile=2), arguments)


def _check(samples: Sequence[Sample], compiled: Compiled, arguments: Sequence[torch.Tensor]) -> None:
    results = iree.winograd.load(compiled.program, device="local-sync")(*arguments)
    if len(samples) == 1:
        results = (results,)
    for sample, result in zip(samples, results, strict=True):
        sample.check(np.asarray(torch.as_tensor(result).float()), compiled)


@cache
def _compilable_samples(name: str, first: int) -> list[tuple[Sequence[Sample], Compiled]]:
    """An eighth of the samples of images, every other one of sounds and films, as few programs.

    They compile with constant filters; IREE fails on others.
    """
    samples = _samples(name)[first :: 8 if name.endswith("2d") else 2]
    compilable, failing = split_failures(samples, lambda batch: compile_rewritten(_import(batch)))
    for sample in failing:
        expect_stock_failure(
            lambda sample=sample: iree.winograd.compile(
                _import([sample]), target="cpu", enable_winograd=False
            )
        )
    assert len(failing) <= len(samples) / 2, "too few samples compile for the test to tell anything"
    return compilable


def _import(samples: Sequence[Sample]) -> iree.winograd.ImportedModel:
    return iree.winograd.import_torch(
        Samples(samples, constant_filters=True), *(sample.image for sample in samples)
    )


def _samples(name: str) -> list[Sample]:
    # Not imported with this module, which all workers import: torch makes the samples of all its operators.
    from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    (operation,) = (each for each in op_db if each.name == name)
    samples = []
    for sample in operation.sample_inputs("cpu", torch.float32, requires_grad=False):
        filters, bias = sample.args
        samples.append(
            Sample(operation.op, "transpose" in name, sample.input, filters, bias, dict(sample.kwargs))
        )
    return samples
