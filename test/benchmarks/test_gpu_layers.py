"""Limits of layers on GPUs, and the layers of networks that they are of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.gpu_kernel_times import Peaks
from benchmarks.gpu_layers import Layer, layers_of, programs
from benchmarks.networks.network import Network
from benchmarks.tables.gpu import layer_limits

PEAKS = Peaks(bytes=1e8, matrix_operations=3e9, f32_operations=1e8)


def test_the_limit_is_that_of_memory_or_of_what_multiplies() -> None:
    moved = 32 * 14 * 14 * (16 + 64) + 16 * 64
    assert Layer(32, 14, 16, 64, 1).limit_us("f16", PEAKS) == pytest.approx(2 * moved / 1e8)
    assert Layer(32, 14, 16, 64, 1).limit_us("f32", PEAKS) == pytest.approx(4 * moved / 1e8)
    operations = 2 * 32 * 14 * 14 * 4096 * 4096
    assert Layer(32, 14, 4096, 4096, 1).limit_us("f16", PEAKS) == pytest.approx(operations / 3e9)
    assert Layer(32, 14, 4096, 4096, 1).limit_us("f32", PEAKS) == pytest.approx(operations / 1e9)
    depthwise = Layer(32, 14, 512, 512, 31, groups=512)
    # All outputs multiply all pixels.
    assert depthwise.limit_us("f16", PEAKS) == pytest.approx(2 * 14**4 * 32 * 512 / 1e8)
    narrow = Layer(32, 14, 512, 512, 3, 2, groups=512)
    inside = (2 + 6 * 3) ** 2
    assert narrow.limit_us("f16", Peaks(1e9, 1, 1)) == pytest.approx(2 * inside * 32 * 512)


def test_a_pointwise_layer_reads_only_pixels_that_it_multiplies() -> None:
    strided = Layer(32, 15, 16, 16, 1, stride=2)
    assert strided.limit_us("f32", PEAKS) == pytest.approx(4 * (32 * 8 * 8 * (16 + 16) + 16 * 16) / 1e8)


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.expand, self.project = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 8, 1)
        self.depthwise = nn.Conv2d(32, 32, 3, 2, 1, groups=32)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.squeeze, self.linear = nn.Conv2d(8, 4, 1), nn.Linear(8, 16)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        narrow = self.grouped(self.project(self.depthwise(self.expand(self.first(image)))))
        squeezed = self.squeeze(narrow.mean((2, 3), keepdim=True))
        result: torch.Tensor = self.linear(narrow.permute(0, 2, 3, 1)) + squeezed.mean()
        return result


def test_layers_of_a_network_are_pointwise_depthwise_and_grouped() -> None:
    assert set(layers_of(Network(_Network, (3, 16, 16)), 32)) == {
        Layer(32, 16, 8, 32, 1),
        Layer(32, 16, 32, 32, 3, 2, 32),
        Layer(32, 8, 8, 32, 1),
        Layer(32, 8, 8, 8, 3, groups=2),
        Layer(32, 8, 8, 16, 1),
    }


@pytest.mark.parametrize("layer", [Layer(2, 9, 8, 16, 1), Layer(2, 9, 8, 8, 3, 2, 8)], ids=str)
def test_chains_keep_images_but_for_strides(layer: Layer) -> None:
    result = layer.chain()(layer.image())
    assert result.shape == ((2, 8, 9, 9) if layer.length > 1 else (2, 8, 5, 5))


def test_layers_beyond_small_ones_are_told_with_the_worst_first() -> None:
    row = {"type": "f16", "ours_us": 10.0, "predicted_us": 9.0, "schedules": "gemm"}
    row |= {"ours_error": 1e-4, "predicted_error": 1e-4, "torch_us": None}
    rows = {
        "32x56x56x24<->96 1x1 f16": {**row, "limit_us": 8.0},
        "32x56x56x24 3x3, depthwise f16": {**row, "limit_us": 6.0},
        "1x7x7x24 3x3, depthwise f16": {**row, "limit_us": 0.1},
    }
    lines = layer_limits([{"layers": rows}])
    named = [name for line in lines for name in rows if f"| {name} |" in line]
    assert named == ["32x56x56x24 3x3, depthwise f16", "32x56x56x24<->96 1x1 f16"]
    rows["32x56x56x24 3x3, depthwise f16"]["torch_us"] = 11.0
    text = " ".join(layer_limits([{"layers": rows}]))
    assert "Of the other 1 that torch was timed with, too, 1 take it no less time." in text


def test_predictions_are_told_of_large_layers_and_of_all() -> None:
    row = {"type": "f16", "schedules": "gemm", "ours_error": 1e-4, "predicted_error": 1e-4, "ours_us": 10.0}
    large = {**row, "limit_us": 8.0, "predicted_us": 5.0}
    small = {**row, "limit_us": 0.1, "predicted_us": 20.0}
    text = " ".join(layer_limits([{"layers": {"32x56x56x24 1x1 f16": large, "1x7x7x24 1x1 f16": small}}]))
    assert "0.50 (0.50 to 0.50) of these, 1.00 (0.50 to 2.00) of all layers" in text


def test_no_program_is_waited_for_when_time_is_over(tmp_path: Path) -> None:
    assert list(programs([Layer(1, 8, 8, 8, 1)], "f32", tmp_path, 1, 0.0)) == []


def test_layers_are_told_beside_copies_of_as_many_bytes_where_there_are_any() -> None:
    row = {"type": "f16", "schedules": "gemm", "ours_error": 1e-4, "predicted_error": 1e-4, "ours_us": 10.0}
    row |= {"predicted_us": 9.0, "limit_us": 6.0}
    rows = {"32x14x14x24 1x1 f16": {**row, "copied_us": 8.0}, "32x14x14x48 1x1 f16": row}
    text = " ".join(layer_limits([{"layers": rows}]))
    assert "| 2 | 0.60 | 0.60 | 0 | 0.80 | 1 | 10.0 |" in text
    assert "| 6.0 | 0.60 | 8.0 | 0.80 | 9.0 |" in text and "| 6.0 | 0.60 |  |  | 9.0 |" in text
