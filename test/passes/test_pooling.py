"""Pooling in three dimensions, against its definition."""

from __future__ import annotations

import iree.winograd
import numpy as np
import torch

WINDOWS = (
    ((1, 2, 2), (1, 2, 2), 0, 1),
    (3, 2, 1, 1),
    ((2, 1, 1), (2, 1, 1), 0, 1),
    ((2, 3, 3), (1, 2, 1), (1, 1, 1), (2, 1, 2)),
    ((1, 1, 1), (2, 1, 1), 0, 1),
)
"""Window, stride, padding and dilation."""


class Poolings(torch.nn.Module):
    """Several of one film."""

    def __init__(self, convolution: torch.nn.Conv3d) -> None:
        super().__init__()
        self.convolution = convolution
        self.poolings = torch.nn.ModuleList(torch.nn.MaxPool3d(*each) for each in WINDOWS)

    def forward(self, film: torch.Tensor) -> list[torch.Tensor]:
        film = self.convolution(film)
        return [pooling(film) for pooling in self.poolings]


def test_maxima_of_films_are_those_of_torch() -> None:
    """Exactly, whatever numbers there are: a maximum rounds nothing."""
    convolution = torch.nn.Conv3d(2, 20, 1, bias=False)
    # A convolution that sums one element keeps it as it is.
    torch.nn.init.zeros_(convolution.weight)
    convolution.weight.data[:, 0] = 1
    film = torch.randn(2, 2, 5, 9, 8)
    film[0, 0, 1:3] = -3e38
    film[1, 0, 2, 4] = torch.inf
    film[:, 1] = 0
    model = Poolings(convolution).eval()
    program = iree.winograd.load(iree.winograd.compile(iree.winograd.import_torch(model, film), strict=True))
    with torch.no_grad():
        expected = model(film)
    for window, result, exact in zip(WINDOWS, program(film.numpy()), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result), exact.numpy(), err_msg=str(window))
