"""Graphs of half precision: what torch's models are after `.half()`, `.bfloat16()` or under autocast."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext

import iree.winograd
import pytest
import torch
from wide import wide_combinations

NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}
ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 64, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(64)
        self.second = torch.nn.Conv2d(64, 64, 3, padding=1)
        self.head = torch.nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(image)))
        result: torch.Tensor = self.head((x + torch.relu(self.second(x))).mean((2, 3)))
        return result


@pytest.mark.parametrize(
    ("type_", "autocast"),
    [(torch.float16, False), *wide_combinations([(torch.bfloat16, False), (torch.bfloat16, True)])],
    ids=str,
)
def test_convolutions_are_compiled_and_as_accurate_as_eager(type_: torch.dtype, autocast: bool) -> None:
    torch.manual_seed(0)
    model, image = Block().eval(), torch.randn(1, 3, 40, 40)
    expected = copy.deepcopy(model).double()(image.double())
    if not autocast:
        model, image = model.to(type_), image.to(type_)
        expected = copy.deepcopy(model).double()(image.double())
    mode: AbstractContextManager[object] = torch.autocast("cpu", type_) if autocast else nullcontext()
    torch._dynamo.reset()
    with torch.no_grad(), mode:
        eager = model(image)
        # Whatever is faster on a busy machine: what is tested is what programs compute.
        compiled = torch.compile(model, backend="winograd", options={"measured": False})
        result = compiled(image)
        (graph,) = iree.winograd.explain(model, image).graphs
    convolutions = [each for part in graph.parts for each in part.convolutions]
    assert len(convolutions) == 2
    name = NAMES[type_]
    for each in convolutions:
        assert each.types is not None and each.types["operands"] == each.types["result"] == name
        assert each.types["domain"] == each.types["sums"] == "f32"
        assert f", {name} as " in str(each) and f", sums f32, result {name}, error " in str(each)
    assert result.dtype == eager.dtype
    off, eager_off = ((each.double() - expected).abs().max() for each in (result, eager))
    assert off <= 1.5 * eager_off + ROUNDOFF[type_] * expected.abs().max()
