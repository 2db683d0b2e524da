"""Filters that are stored in half precision, and widened where few outputs wait for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from half_precision import SUM_ERRORS, TYPES, expect_rounded_once, in_double, results_of
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu import backend
from iree.winograd.pipelines.cpu.kernels.filters import stored_filters
from iree.winograd.pipelines.cpu.processor.instruction_set import ProcessorFacts
from iree.winograd.pipelines.cpu.processor.x86 import X86
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.report.schema import types_text
from wide import wide, wide_combinations

CHANNELS, COLUMNS = 1300, 1000
"""Of a filter that no L2 cache holds in f32, and columns that are no whole blocks."""
NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}


@pytest.fixture(autouse=True)
def without_units(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That multiply bf16: they read its filters as they are anyway."""
    known = X86.facts

    def facts(self: X86, cpu: str, features: set[str]) -> ProcessorFacts:
        return known(self, cpu, features)._replace(multiplies_bf16=False, has_matrix_unit=False)

    monkeypatch.setattr(X86, "facts", facts)
    # What a process knows of a processor it asks for once.
    backend._cpu_target.cache_clear()
    yield
    backend._cpu_target.cache_clear()


@pytest.mark.parametrize(
    ("type_", "rows"), [(TYPES[0], 1), *wide_combinations([(TYPES[1], 1), *((each, 7) for each in TYPES)])]
)
def test_a_few_rows_read_them(type_: torch.dtype, rows: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, report = torch.nn.Linear(CHANNELS, COLUMNS, bias=False).to(type_), tmp_path / "report.json"
    inputs = [torch.randn(rows, CHANNELS).to(type_)]
    results = results_of(model, inputs, report=report)
    (layer,) = json.loads(report.read_text())["layers"]
    name = NAMES[type_]
    assert layer["candidates"][layer["chosen"]]["schedule"]["filter_type"] == name
    assert types_text(layer["types"]) == f"{name} as f32, filters {name}, sums f32, result {name}"
    expect_rounded_once(results, in_double(model, inputs), type_, SUM_ERRORS["cpu"])


@pytest.mark.parametrize("layer", ["linear", *wide(["7x7"])])
def test_many_outputs_read_f32(layer: str, tmp_path: Path) -> None:
    """They are multiplied for longer than filters take to come from memory."""
    linear = torch.nn.Linear(CHANNELS, COLUMNS, bias=False), (300, CHANNELS)
    model, shape = linear if layer == "linear" else (torch.nn.Conv2d(512, 512, 3, padding=1), (1, 512, 7, 7))
    report = tmp_path / "report.json"
    results_of(model.half(), [torch.zeros(shape).half()], report=report)
    (told,) = json.loads(report.read_text())["layers"]
    assert "filter_type" not in told["candidates"][told["chosen"]]["schedule"]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_what_half_precision_lacks_stays(name: str) -> None:
    schedule = DirectSchedule(8, 1, 4, 1, 1, filter_type=name)
    halves, third = np.array([[1.0, -0.5, 0.0, 1.25]], np.float32), np.array([[1 / 3]], np.float32)
    with ir.Context():
        assert stored_filters(halves, schedule).itemsize == 2
        assert stored_filters(third, schedule) is third
