"""Counters of layers: which layers results name, and what is read of the rows that the profiler writes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from benchmarks.gpu_layer_counters import COUNTERS, counted, layer_of
from benchmarks.gpu_layers import Layer

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize(
    ("key", "layer"),
    [
        ("32x7x7x768<->3072 1x1 f16", Layer(32, 7, 768, 3072, 1)),
        ("32x28x28x240 5x5, depthwise f32", Layer(32, 28, 240, 240, 5, groups=240)),
        ("1x112x112x24 3x3, stride 2, groups of 8 f16", Layer(1, 112, 24, 24, 3, 2, 3)),
    ],
)
def test_names_are_those_of_layers(key: str, layer: Layer) -> None:
    assert layer_of(key) == (layer, key.split()[-1])


def test_all_that_were_measured_have_such_names() -> None:
    for path in RESULTS.glob("gpu-layer-limits-*.json"):
        for key in json.loads(path.read_text())["layers"]:
            layer, type_ = layer_of(key)
            assert f"{layer} {type_}" == key


def test_rows_of_kernels_are_those_of_their_layers() -> None:
    """Numbers have commas, durations any unit; what changes a layout isn't a layer's."""
    told = io.StringIO()
    writer = csv.writer(told, quoting=csv.QUOTE_ALL)
    writer.writerow(["ID", "Range", "Kernel Name", *COUNTERS.values()])
    units = ["ns" if name == "microseconds" else "cycle" for name in COUNTERS]
    writer.writerow(["", "", "", *units])
    writer.writerow([0, "1:layer 3:none", "main_dispatch_0_transpose_4x4", *["1"] * len(COUNTERS)])
    writer.writerow([1, "1:layer 12:none", "winograd_direct_1", *["2,500.5"] * len(COUNTERS)])
    lines = ["==PROF== Connected", *told.getvalue().splitlines(), "==PROF== Disconnected"]
    ((number, counters),) = counted(lines)
    assert number == 12 and counters["kernel"] == "winograd_direct_1"
    assert counters["microseconds"] == pytest.approx(2.5005) and counters["issue"] == 2500.5
