"""Means and maxima of windows that part images of open sizes, as torch.export has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.importers import torch_graphs
from torch.nn.functional import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)

UNIT_ROUNDOFF = 2.0**-24
SIZES = [(64, 48, 2), (33, 29, 7), (16, 97, 3), (14, 14, 14), (7, 7, 7), (5, 6, 3), (1, 1, 1), (2, 1, 3)]
"""Multiples of the windows' number, all equal to it, smaller, and what fits no window."""


class Pooling(torch.nn.Module):
    """Pools images of one to three dimensions, whose sizes are one more than multiples in the example."""

    def forward(self, signal: torch.Tensor, image: torch.Tensor, volume: torch.Tensor) -> list[torch.Tensor]:
        maxima, places = adaptive_max_pool2d(image, (3, 7), return_indices=True)  # type: ignore[no-untyped-call]
        return [
            adaptive_avg_pool1d(signal, 5),
            adaptive_avg_pool2d(image, 7),
            adaptive_avg_pool2d(image, (3, 1)),
            adaptive_avg_pool3d(volume, (2, 3, 1)),
            adaptive_max_pool1d(signal, 5),
            maxima,
            places.to(torch.float32),
            adaptive_max_pool3d(volume, (2, 3, 1)),
        ]


def exported(model: torch.nn.Module, *shapes: tuple[int, ...]) -> torch.export.ExportedProgram:
    arguments = tuple(torch.zeros(shape) for shape in shapes)
    sizes = tuple(dict.fromkeys(range(2, len(shape)), torch.export.Dim.DYNAMIC) for shape in shapes)
    return torch.export.export(model, arguments, dynamic_shapes=sizes)


@pytest.mark.wide
def test_open_sizes_agree_with_float64() -> None:
    model = Pooling()
    source = winograd.import_torch(exported(model, (2, 3, 16), (2, 3, 64, 36), (2, 3, 9, 10, 5)))
    program = winograd.load(winograd.compile(source, threads=1), device="local-sync")
    for size in SIZES:
        images = [torch.randn(2, 3, *size[:rank]) for rank in (1, 2, 3)]
        exact = model(*(image.double() for image in images))
        for result, values in zip(program(*(image.numpy() for image in images)), exact, strict=True):
            terms = sum(side + 1 for side in size)
            bound = UNIT_ROUNDOFF * terms * max(image.abs().max().item() for image in images)
            np.testing.assert_allclose(np.asarray(result), values.numpy(), atol=bound, rtol=0)


def test_what_torch_decomposes_for_the_size_of_the_example_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a program reads beyond images of other sizes, or computes something else."""

    def is_refused(holds: Callable[[int], bool], message: str) -> None:
        def of_a_size(image: Any) -> Any:
            return image.clamp(min=0) if holds(image.shape[2]) else image

        table = {torch.ops.aten.relu.default: of_a_size}
        monkeypatch.setattr(torch_graphs, "import_decompositions", lambda: table)
        with pytest.raises(winograd.ModelImportError, match=message):
            winograd.import_torch(exported(torch.nn.ReLU(), (1, 3, 15, 20)))

    is_refused(lambda height: height == 15, "size 2 of result 0 is open, but")
    is_refused(lambda height: height % 7 == 1, r"for those at which Mod\(s\d+, 7\) = 1: export it")
