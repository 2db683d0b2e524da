"""AMD's schedules on another GPU: which there are, and whether a wrong result is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.pipelines.gpu.schedules.split import CooperativeSchedule

from benchmarks.amd import layers
from benchmarks.amd.on_nvidia import checked, chosen_for, compiled, merged
from benchmarks.square_layer import SquareLayer

MANY_SUMS, FEW_SUMS = SquareLayer(32, 28, 512, 512), SquareLayer(1, 8, 32, 48)


@pytest.fixture
def two_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LAYERS", {each.name: each for each in (MANY_SUMS, FEW_SUMS)})


@pytest.mark.usefixtures("two_layers")
def test_blocks_of_cooperative_matrices_are_those_of_amd() -> None:
    large, small = chosen_for("vulkan:rdna4")
    assert (large.layer, small.layer) == (replace(MANY_SUMS, batch=1), FEW_SUMS)
    schedule = large.candidate.implementation.schedule
    assert isinstance(schedule, CooperativeSchedule)
    assert (schedule.warp_rows, schedule.warp_columns) == (32, 64)


@pytest.mark.usefixtures("two_layers")
def test_the_same_kernels_run_once() -> None:
    chosen = chosen_for("vulkan:rdna3")
    others = [replace(each, targets=("another",)) for each in chosen]
    assert merged([*chosen, *others]) == [
        replace(each, targets=("vulkan:rdna3", "another")) for each in chosen
    ]


@pytest.mark.wide
@pytest.mark.usefixtures("two_layers")
def test_a_wrong_result_is_seen(tmp_path: Path) -> None:
    chosen = chosen_for("vulkan:rdna2")[1]
    record = compiled(tmp_path, 0, chosen)
    assert checked(tmp_path, record, "cpu")["right"]
    assert not checked(tmp_path, {**record, "predicted_error": 1e-9}, "cpu")["right"]
