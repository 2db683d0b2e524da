"""Channels of images of half precision and of any size that are scaled, by numbers that are exact."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from host import HOST
from iree.winograd.pipelines.cpu.backend import CpuBackend

CHANNELS = 32


class Gated(torch.nn.Module):
    """Images, as a convolution gives them back, times the means of their channels, through another one."""

    def __init__(self) -> None:
        super().__init__()
        self.same, self.gate, self.again = (
            torch.nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False) for _ in range(3)
        )
        with torch.no_grad():
            for convolution in (self.same, self.gate, self.again):
                convolution.weight.copy_(torch.eye(CHANNELS)[..., None, None])

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        same = self.same(image)
        gate = self.gate(torch.nn.functional.adaptive_avg_pool2d(same, 1))
        scaled: torch.Tensor = self.again(same * gate)
        return scaled


@pytest.mark.parametrize("type_", [torch.float16, torch.bfloat16])
def test_channels_of_any_size_are_scaled(type_: torch.dtype) -> None:
    sizes = {2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)}
    example = torch.zeros(1, CHANNELS, 20, 24, dtype=type_)
    exported = torch.export.export(Gated().eval().to(type_), (example,), dynamic_shapes=(sizes,))
    compiled = winograd.compile(winograd.import_torch(exported), threads=1, strict=True)
    if CpuBackend(HOST).search_space().stores_half:
        assert b"winograd_elementwise_anyxanyx%d" % CHANNELS in compiled
    program = winograd.load(compiled, "local-sync")
    generator = torch.Generator().manual_seed(0)
    for height, width in [(20, 24), (2, 4), (3, 1026), (31, 18)]:
        mean = torch.randint(-7, 8, (1, CHANNELS, 1, 1), generator=generator)
        left = torch.randint(-8, 9, (1, CHANNELS, height, width // 2), generator=generator)
        # Numbers of up to four digits, whose products have eight, which both types hold.
        image = mean + torch.cat([left, -left], 3)
        result = program(image.to(type_))
        np.testing.assert_array_equal(result.double().numpy(), (image * mean).double().numpy())


class GatedByArgument(Gated):
    def forward(self, image: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        scaled: torch.Tensor = self.again(self.same(image) * gate[..., None, None])
        return scaled


def test_channels_are_scaled_by_an_argument() -> None:
    """Numbers of workgroups are computed behind what begins commands, and are other kernels', too."""
    sizes = {2: torch.export.Dim("height", min=2), 3: torch.export.Dim("width", min=2)}
    example = [torch.zeros(1, CHANNELS, *size, dtype=torch.float16) for size in ((20, 24), ())]
    model = GatedByArgument().eval().half()
    exported = torch.export.export(model, tuple(example), dynamic_shapes=(sizes, None))
    program = winograd.load(
        winograd.compile(winograd.import_torch(exported), threads=1, strict=True), "local-sync"
    )
    generator = torch.Generator().manual_seed(0)
    for size in [(20, 24), (3, 5), (20, 24)]:
        image = torch.randint(-15, 16, (1, CHANNELS, *size), generator=generator)
        gate = torch.randint(-15, 16, (1, CHANNELS), generator=generator)
        result = program(image.half(), gate.half())
        np.testing.assert_array_equal(
            result.double().numpy(), (image * gate[..., None, None]).double().numpy()
        )
