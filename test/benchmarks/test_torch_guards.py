"""What torch takes of a call, measured with few calls of a small network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import torch_guards
from benchmarks.networks import gpu
from benchmarks.networks.network import Network
from benchmarks.tables.gpu_calls import torch_guards as guards_table


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layer(image)
        return features


def test_fewer_guards_are_kept_of_the_same_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "NETWORKS", {"small": Network(_Small, (3, 8, 8))})
    monkeypatch.setattr(torch_guards, "_ROUNDS", 1)
    rows = []
    threads = torch.get_num_threads()
    with torch.no_grad():
        for guards in torch_guards._KEPT:
            torch._dynamo.reset()
            rows.append(torch_guards._measured(torch_guards.Task("small", guards, "cpu")))
    torch.set_num_threads(threads)
    assert {each["arguments"] for each in rows} == {3}
    all_, fewer, none = (each["kept"] for each in rows)
    assert all_ > fewer > none == 0
    assert all(each["call"] > 0 < each["guards_of_call"] for each in rows)


def test_a_row_has_all_variants_of_a_network() -> None:
    found = {
        f"net {guards}": {
            "network": "net",
            "torch": "2.0",
            "arguments": 3,
            "kept": kept,
            "call": 2.0 * kept,
            "guards_of_call": kept,
        }
        for guards, kept in (("all", 90), ("fewer", 20), ("none", 10))
    }
    half = {"half all": {**found["net all"], "network": "half"}}
    lines = guards_table([{torch_guards.TITLE: {**found, **half}}])
    assert lines[2:] == ["| `net` | 2.0 | 3 | 90 | 180 | 90 | 20 | 40 | 20 | 20 |"]
