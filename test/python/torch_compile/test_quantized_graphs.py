"""Graphs of models that PT2E quantised: what is between bytes within a program, and what isn't."""

from __future__ import annotations

import iree.winograd
import pytest
import torch
from test_exported_quantization import UNSIGNED, through_bytes
from torch import nn

_OPERATORS = torch.ops.quantized_decomposed
SCALE, ZERO = 0.05, 117


class BetweenBytes(nn.Module):
    """Two convolutions with bytes between them, of an image and with a result of bytes without a sign."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = _OPERATORS.dequantize_per_tensor(image, SCALE, ZERO, *UNSIGNED)
        x = self.last(torch.relu(through_bytes(self.first(x), SCALE, ZERO)))
        result: torch.Tensor = _OPERATORS.quantize_per_tensor(x, SCALE, ZERO, *UNSIGNED)
        return result


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore::iree.winograd.FallbackWarning")
def test_a_program_holds_bytes_and_others_are_the_fallbacks() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, image = BetweenBytes().eval(), torch.randint(0, 256, (1, 4, 12, 12), dtype=torch.uint8)
    with torch.no_grad():
        expected = model(image)
        options = {"measured": False, "threads": 1, "fallback": "eager"}
        result = torch.compile(model, backend="winograd", options=options)(image)
        (graph,) = iree.winograd.explain(model, image, options=options).graphs
    assert result.dtype == torch.uint8
    # A number near a half may become either byte.
    steps = (result.int() - expected.int()).abs()
    assert steps.max() <= 1 and steps.double().mean() < 0.01
    (part,) = graph.parts
    assert len(part.convolutions) == 2
    outside = {name for rejection in graph.rejections for name in rejection.operators}
    assert outside == {
        f"quantized_decomposed.{each}_per_tensor.default" for each in ("quantize", "dequantize")
    }
