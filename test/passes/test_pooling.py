"""Pooling in three dimensions, against its definition."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch


@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation"),
    [
        ((1, 2, 2), (1, 2, 2), 0, 1),
        (3, 2, 1, 1),
        ((2, 1, 1), (2, 1, 1), 0, 1),
        ((2, 3, 3), (1, 2, 1), (1, 1, 1), (2, 1, 2)),
        ((1, 1, 1), (2, 1, 1), 0, 1),
    ],
)
def test_maxima_of_films_are_those_of_torch(
    window: int | tuple[int, int, int],
    stride: int | tuple[int, int, int],
    padding: int | tuple[int, int, int],
    dilation: int | tuple[int, int, int],
) -> None:
    """Exactly, whatever numbers there are: a maximum rounds nothing."""
    convolution = torch.nn.Conv3d(2, 20, 1, bias=False)
    pooling = torch.nn.MaxPool3d(window, stride, padding, dilation)
    # A convolution that sums one element keeps it as it is.
    torch.nn.init.zeros_(convolution.weight)
    convolution.weight.data[:, 0] = 1
    film = torch.randn(2, 2, 5, 9, 8)
    film[0, 0, 1:3] = -3e38
    film[1, 0, 2, 4] = torch.inf
    film[:, 1] = 0
    model = torch.nn.Sequential(convolution, pooling).eval()
    program = iree.winograd.load(iree.winograd.compile(iree.winograd.import_torch(model, film), strict=True))
    with torch.no_grad():
        expected = model(film).numpy()
    np.testing.assert_array_equal(np.asarray(program(film.numpy())), expected)
