"""Channels that become pixels, in networks that enlarge images: of whole numbers, which are exact."""

from __future__ import annotations

import iree.winograd
import onnx
import pytest
import torch
from iree.winograd.pipelines.gpu import tensor_kernels
from torch import nn
from torch.nn import functional
from wide import wide, wide_combinations

CHANNELS = 8


class Enlarged(nn.Module):
    """Enlarged by a convolution whose channels become pixels, and added to a larger image."""

    def __init__(self, factor: int, slopes: int) -> None:
        super().__init__()
        self.factor = factor
        self.convolution = nn.Conv2d(CHANNELS, CHANNELS * factor**2, 3, padding=1)
        self.scale = nn.Parameter(torch.zeros(1, CHANNELS * factor**2, 1, 1))
        self.activation = nn.PReLU(slopes)
        self.last = nn.Conv2d(CHANNELS, 4, 1)
        generator = torch.Generator().manual_seed(1)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
            parameter.copy_(torch.randint(-3, 4, parameter.shape, generator=generator))

    def forward(self, image: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        made = self.convolution(image) * self.scale
        result: torch.Tensor = self.last(self.activation(functional.pixel_shuffle(made, self.factor)) + skip)
        return result


class Gated(nn.Module):
    """Of images whose channels can't be permuted, as two are multiplied, and of which one leaves.

    Those of a third one can.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(CHANNELS, 4 * CHANNELS, 1) for _ in range(3))
        self.last = nn.Conv2d(CHANNELS, 4, 1)
        generator = torch.Generator().manual_seed(1)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
            parameter.copy_(torch.randint(-3, 4, parameter.shape, generator=generator))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, third = (convolution(image) for convolution in self.convolutions)
        activated = torch.relu(functional.pixel_shuffle(third, 2))
        enlarged = functional.pixel_shuffle(first * second, 2), activated
        return *(self.last(each) for each in enlarged), functional.pixel_shuffle(first, 2)


def integers(*shape: int) -> torch.Tensor:
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(0)).float()


def check(model: nn.Module, *given: torch.Tensor, target: str, device: str) -> bytes:
    """All sums of products are whole numbers that f32 has: errors are those of misplaced elements."""
    imported = iree.winograd.import_torch(model, *given)
    program = bytes(iree.winograd.compile(imported, target=target, output_tile=1, strict=True))
    found, exact = (
        iree.winograd.load(program, device)(*given),
        model.double()(*(each.double() for each in given)),
    )
    model.float()
    pairs = zip(found, exact, strict=True) if isinstance(exact, tuple) else [(found, exact)]
    for result, expected in pairs:
        assert expected.abs().max() < 2**23
        assert torch.equal(torch.as_tensor(result).double(), expected)
    return program


@pytest.mark.parametrize(("factor", "slopes"), [(2, CHANNELS), *wide_combinations([(3, 1)])])
def test_shuffled_pixels_are_those_of_torch(factor: int, slopes: int) -> None:
    given = integers(2, CHANNELS, 5, 7), integers(2, CHANNELS, 5 * factor, 7 * factor)
    check(Enlarged(factor, slopes), *given, target="cpu", device="local-task")


def test_channels_that_keep_their_order_are_shuffled_too() -> None:
    check(Gated(), integers(2, CHANNELS, 5, 7), target="cpu", device="local-task")


def test_a_kernel_moves_runs_of_channels(
    gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_kernels, "_LEAST_SLOW", 64)
    program = check(Gated(), integers(2, CHANNELS, 5, 7), target=gpu_target, device=gpu_device)
    assert b"winograd_rearranged_2x5x2x7x2x8" in program


@pytest.mark.parametrize("mode", ["DCR", *wide(["CRD"])])
def test_depth_to_space_of_onnx(mode: str) -> None:
    """By both of its orders of channels, the second of which keeps neighbours."""
    image, filters = integers(1, CHANNELS, 4, 5), integers(4 * CHANNELS, CHANNELS, 1, 1)
    last = integers(4, CHANNELS, 1, 1)
    nodes = [
        onnx.helper.make_node("Conv", ["image", "filter"], ["made"]),
        onnx.helper.make_node("DepthToSpace", ["made"], ["larger"], blocksize=2, mode=mode),
        onnx.helper.make_node("Conv", ["larger", "last"], ["result"]),
    ]
    tensors = {"filter": filters, "last": last}
    graph = onnx.helper.make_graph(
        nodes,
        "enlarged",
        [onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, list(image.shape))],
        [onnx.helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, [1, 4, 8, 10])],
        [onnx.numpy_helper.from_array(value.numpy(), name) for name, value in tensors.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    program = iree.winograd.compile(iree.winograd.import_onnx(model), output_tile=1, strict=True)
    made = functional.conv2d(image.double(), filters.double())
    if mode == "DCR":
        made = made.reshape(1, 4, CHANNELS, 4, 5).transpose(1, 2).reshape(1, 4 * CHANNELS, 4, 5)
    expected = functional.conv2d(functional.pixel_shuffle(made, 2), last.double())
    assert torch.equal(torch.as_tensor(iree.winograd.load(program)(image)).double(), expected)
