"""What layers of small limits are compared with: a layer of one tap that moves as many bytes."""

from __future__ import annotations

import pytest

from benchmarks.gpu_layer_floors import LAYERS, floor_of
from benchmarks.gpu_layers import LENGTH
from benchmarks.tables.gpu_floors import layer_floors


@pytest.mark.parametrize("type_", LAYERS)
def test_floors_move_as_many_bytes_by_one_tap(type_: str) -> None:
    for layer in LAYERS[type_]:
        floor = floor_of(layer, type_)
        assert floor.moved_bytes(type_) == pytest.approx(layer.moved_bytes(type_), rel=0.02)
        assert floor.is_depthwise
        assert (floor.kernel, floor.stride) == (1, 1)


def test_strided_layers_are_behind_one_of_one_tap() -> None:
    for layer in LAYERS["f16"]:
        of_chain = list(layer.chain().children())
        assert len(of_chain) == (2 if layer.stride > 1 else LENGTH)
        assert of_chain[0](layer.image()[:1]).shape[2:] == (layer.size, layer.size)


def test_the_table_has_shares_of_both() -> None:
    row = {"ours_us": 5.0, "floor_us": 4.0, "limit_us": 3.0, "schedules": "streamed"}
    text = "\n".join(layer_floors([{"layers": {"a layer": row}}]))
    assert "| a layer | 5.0 | 4.0 | 0.80 | 3.0 | 0.60 | 0.75 | streamed |" in text
