"""Programs of any size that keep the commands of the last call for arguments of the same sizes."""

import weakref
from typing import Any

import iree.winograd as winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch

SIZES = [(12, 20), (12, 20), (20, 12), (12, 20), (12, 12), (3, 3), (3, 3), (12, 20)]
DEVICES = ["local-sync", "local-task"]


class Pooled(torch.nn.Module):
    """Layers whose sizes differ, one that IREE computes, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3, 2, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.first(image))
        return self.second(features), features.sum(1).flip(2)


@pytest.fixture(scope="module")
def program() -> bytes:
    sizes = {2: torch.export.Dim("height", min=3), 3: torch.export.Dim("width", min=3)}
    exported = torch.export.export(Pooled().eval(), (torch.zeros(1, 3, 12, 20),), dynamic_shapes=(sizes,))
    return winograd.compile(winograd.import_torch(exported), threads=1)


def image_of(number: int, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    return np.random.default_rng(number).uniform(-1, 1, (1, 3, *size)).astype(np.float32)


def results_of(loaded: Any, image: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    return [np.asarray(each) for each in loaded(image)]


@pytest.mark.parametrize("device", DEVICES)
def test_each_call_is_as_the_first_of_a_program(program: bytes, device: str) -> None:
    """Whether its sizes are those of the call before or others, and with all results before it kept."""
    loaded = winograd.load(program, device)
    images = [image_of(number, size) for number, size in enumerate(SIZES)]
    results = [results_of(loaded, image) for image in images]
    for image, computed in zip(images, results, strict=True):
        for result, expected in zip(computed, results_of(winograd.load(program, device), image), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_refused_call_leaves_the_next_one_right(program: bytes, device: str) -> None:
    loaded, image = winograd.load(program, device), image_of(0, SIZES[0])
    expected = results_of(loaded, image)
    with pytest.raises(winograd.CallError):
        loaded(np.zeros((1, 4, 20, 12), np.float32))
    for result, first in zip(results_of(loaded, image), expected, strict=True):
        np.testing.assert_array_equal(result, first)


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_and_results_are_not_kept(program: bytes, device: str) -> None:
    loaded, image = winograd.load(program, device), image_of(0, SIZES[0])
    results = results_of(loaded, image)
    references = [weakref.ref(each) for each in (image, *results)]
    del image, results
    results_of(loaded, image_of(1, SIZES[0]))
    assert [reference() for reference in references] == [None] * 3
