from pathlib import Path

import numpy as np
import pytest
import torch
from iree.winograd import compile, load
from iree.winograd.dialect.bindings import ir
from torch import nn

from benchmarks.networks.network import Network
from benchmarks.subject import Subject, store_program


class TwoResults(nn.Module):
    """A convolution between numbers that are no parameters, and its sums."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        y = self.norm(self.convolution(x)) * torch.linspace(1, 2, 4)[:, None, None]
        return y, {"sums": y.sum(dim=(2, 3))}


NETWORK = Network(TwoResults, (3, 8, 8))


@pytest.fixture
def subject() -> Subject:
    with torch.no_grad():
        return Subject(NETWORK.calibrated(), NETWORK.input(1))


def test_a_network_is_the_same_each_time_and_its_activations_are_normal() -> None:
    first, second = NETWORK.calibrated(), NETWORK.calibrated()
    assert all(
        torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True)
    )
    with torch.no_grad():
        spread = first.norm(first.convolution(NETWORK.input(64))).std()
    assert 0.8 < spread < 1.2


def test_errors_are_those_of_the_worst_result(subject: Subject) -> None:
    image, sums = subject.exact
    assert image.dtype == np.float64
    assert subject.error((image, sums)) == 0
    assert subject.error((image, sums + 0.01 * np.abs(sums).max())) == pytest.approx(0.01)
    assert np.isnan(subject.error((image, np.full_like(sums, np.nan))))
    with pytest.raises(ValueError, match=r"expected results of \[\(1, 4, 6, 6\), \(1, 4\)\]"):
        subject.error((sums, image))


@pytest.mark.wide
def test_a_stored_program_takes_its_weights_from_the_model(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "program.zip"
    store_program(subject.imported, subject.model, path)
    with torch.no_grad():
        subject.model.get_parameter("convolution.bias").add_(1)
    again = Subject(subject.model, subject.images, path)
    assert again.imported.seconds == subject.imported.seconds
    program = load(compile(again.imported.value))
    assert again.error(tuple(program(again.images.numpy()))) < 1e-6
    assert again.imported.value.build(ir.Context()).operation.verify()
