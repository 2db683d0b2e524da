import pytest
import torch
from iree.winograd.tuning.measuring.outcome import Timing
from torch import nn

from benchmarks.comparison import speedup
from benchmarks.networks.googlenet import GoogLeNet
from benchmarks.networks.unet import UNet


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_googlenet_has_as_many_parameters_as_its_authors_model() -> None:
    # Theirs has a bias per channel instead of a batch normalization's scale and shift.
    model = GoogLeNet()
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 3 + 9 * 6
    channels = sum(convolution.out_channels for convolution in convolutions)
    assert count_parameters(model) - channels == 6_998_552


def test_googlenet_gives_classes() -> None:
    with torch.no_grad():
        assert GoogLeNet().eval()(torch.zeros(2, 3, 224, 224)).shape == (2, 1000)


def test_unet_has_as_many_parameters_as_its_authors_model() -> None:
    model = UNet()
    # 23 convolutions, four of them transposed.
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    assert sum(isinstance(module, kinds) for module in model.modules()) == 23
    assert count_parameters(model) == 31_030_658


def test_unet_keeps_the_size_of_images() -> None:
    with torch.no_grad():
        assert UNet()(torch.zeros(1, 1, 32, 48)).shape == (1, 2, 32, 48)


def test_speedup_is_against_the_best_other_tool() -> None:
    timings = {name: Timing((seconds,)) for name, seconds in [("ours", 1.0), ("iree", 0.5), ("torch", 3.0)]}
    assert speedup(timings, "ours") == 3
    assert speedup(timings, "torch") is None
    assert speedup({**timings, "openvino": Timing((2.0,))}, "torch") == pytest.approx(2 / 3)
