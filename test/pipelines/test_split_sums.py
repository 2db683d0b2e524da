"""Sums of many elements are as accurate as sums of sums."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from wide import wide, wide_combinations

UNIT_ROUNDOFF = 2.0**-24


class Sum(torch.nn.Module):
    """The sum of squares of each group of channels of an image that a convolution has copied, or its root."""

    def __init__(self, channels: int, groups: int, *, is_norm: bool = False) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.convolution.weight.data = torch.eye(channels)[:, :, None, None]
        self.groups = groups
        self.is_norm = is_norm

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        copied = self.convolution(image)
        grouped = copied.reshape(image.shape[0], self.groups, -1)
        return torch.linalg.vector_norm(grouped, dim=-1) if self.is_norm else (grouped * grouped).sum(-1)


@pytest.mark.parametrize("is_norm", [False, True], ids=["sum", "norm"])
@pytest.mark.parametrize(
    ("batch", "size", "groups", "longest"),
    [(2, 64, 4, 128), *wide_combinations([(1, 112, 16, 112), (3, 64, 1, 256)])],
)
def test_error_grows_with_the_root_of_the_length(
    batch: int, size: int, groups: int, longest: int, is_norm: bool
) -> None:
    """`p + q` additions in a row, and a product, round each element (Higham 2002, section 4.2).

    A root halves the relative error, and is rounded to about a unit in the last place.

    All elements are alike, of which one running sum would lose up to half a unit in the last place of the sum
    each time.
    """
    model = Sum(16, groups, is_norm=is_norm).eval()
    image = torch.full((batch, 16, size, size), float(np.sqrt(1 + 2.0**-11)))
    program = iree.winograd.load(
        iree.winograd.compile(iree.winograd.import_torch(model, image), threads=2, strict=True),
        threads=2,
    )
    with torch.no_grad():
        expected = model.double()(image.double()).numpy()
    error = np.abs(np.asarray(program(image.numpy())) - expected)
    length = 16 // groups * size * size
    additions = longest + length // longest
    roundings = (additions + 1) / 2 + 2 if is_norm else additions + 1
    assert np.all(error <= roundings * UNIT_ROUNDOFF * expected)


class Norms(torch.nn.Module):
    """The norms of each channel of an image that a convolution has copied, and of all of it."""

    def __init__(self, channels: int, *, merges_pixels: bool) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.convolution.weight.data = torch.eye(channels)[:, :, None, None]
        self.merges_pixels = merges_pixels

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        copied = self.convolution(image)
        norm = torch.linalg.vector_norm
        if self.merges_pixels:
            return norm(copied.flatten(2), dim=-1), norm(copied)
        return norm(copied, dim=(2, 3)), norm(copied)


@pytest.mark.parametrize("merges_pixels", [False, True], ids=["sides", "pixels"])
def test_norms_of_images_of_any_size_are_off_by_their_sides(merges_pixels: bool) -> None:
    """As above: rows are added one after the other, then the pixels of their sum, then the channels."""
    channels, sides = 16, (160, 352)
    model = Norms(channels, merges_pixels=merges_pixels).eval()
    image = torch.full((1, channels, *sides), float(np.sqrt(1 + 2.0**-11)))
    sizes = {dimension: torch.export.Dim(f"size_{dimension}", min=2, max=4096) for dimension in (2, 3)}
    exported = torch.export.export(model, (image,), dynamic_shapes=(sizes,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=2, strict=True)
    results = iree.winograd.load(compiled, threads=2)(image.numpy())
    with torch.no_grad():
        expected = model.double()(image.double())
    for result, exact, additions in zip(results, expected, (sum(sides), sum(sides) + channels), strict=True):
        error = np.abs(np.asarray(result) - exact.numpy())
        assert np.all(error <= ((additions + 1) / 2 + 2) * UNIT_ROUNDOFF * exact.numpy())


class Energy(torch.nn.Module):
    """The sum of the squares of a signal that a convolution has copied."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 1, 1, bias=False)
        self.convolution.weight.data = torch.ones(1, 1, 1)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return self.convolution(signal).square().sum(dim=(1, 2))


def test_sums_of_signals_of_any_length_are_off_by_a_few_roundings() -> None:
    """A square and the sum, which is in f64, are rounded once each; one running sum was off by 5e-4."""
    signal = torch.full((1, 1, 1 << 18), float(np.sqrt(1 + 2.0**-11)))
    length = {2: torch.export.Dim("length", min=2, max=1 << 20)}
    exported = torch.export.export(Energy(), (signal,), dynamic_shapes=(length,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=2, strict=True)
    result = iree.winograd.load(compiled, threads=2)(signal.numpy())
    exact = Energy().double()(signal.double()).detach().numpy()
    assert np.all(np.abs(np.asarray(result) - exact) <= 3 * UNIT_ROUNDOFF * exact)


class Gram(torch.nn.Module):
    """The products of channels of an image, which a convolution has copied, over all pixels of heads."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.convolution.weight.data = torch.eye(channels)[:, :, None, None]
        self.heads = heads

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        rows = self.convolution(image).reshape(image.shape[0], self.heads, -1, image[0, 0].numel())
        return rows @ rows.transpose(-1, -2)


@pytest.mark.parametrize(("batch", "heads"), [(1, 1), *wide_combinations([(2, 1), (1, 2), (2, 4)])])
def test_products_over_all_pixels_are_sums_of_those_of_blocks(batch: int, heads: int) -> None:
    """As above, of 65536 pixels in 64 blocks of 1024."""
    model = Gram(16, heads).eval()
    image = torch.full((batch, 16, 256, 256), float(np.sqrt(1 + 2.0**-11)))
    program = iree.winograd.load(
        iree.winograd.compile(iree.winograd.import_torch(model, image), threads=2, strict=True),
        threads=2,
    )
    with torch.no_grad():
        expected = model.double()(image.double()).numpy()
    error = np.abs(np.asarray(program(image.numpy())) - expected)
    assert np.all(error <= (1024 + 64 + 1) * UNIT_ROUNDOFF * expected)


class FewOutputs(torch.nn.Module):
    """A fully connected layer of all of an image that a convolution has copied."""

    def __init__(self, channels: int, size: int, outputs: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.convolution.weight.data = torch.eye(channels)[:, :, None, None]
        self.linear = torch.nn.Linear(channels * size * size, outputs, bias=False)
        self.linear.weight.data.fill_(float(np.sqrt(1 + 2.0**-11)))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.linear(self.convolution(image).flatten(1))


@pytest.mark.parametrize(("batch", "outputs"), [(1, 3), *wide_combinations([(2, 1), (3, 4)])])
def test_layers_of_few_outputs_are_sums_of_products_of_blocks(batch: int, outputs: int) -> None:
    """As above, of 65536 pixels and channels in 64 blocks of 1024."""
    model = FewOutputs(16, 64, outputs).eval()
    image = torch.full((batch, 16, 64, 64), float(np.sqrt(1 + 2.0**-11)))
    program = iree.winograd.load(
        iree.winograd.compile(iree.winograd.import_torch(model, image), threads=2, strict=True),
        threads=2,
    )
    with torch.no_grad():
        expected = model.double()(image.double()).numpy()
    error = np.abs(np.asarray(program(image.numpy())) - expected)
    assert np.all(error <= (1024 + 64 + 1) * UNIT_ROUNDOFF * expected)


@pytest.mark.parametrize(
    "norm",
    [
        torch.nn.GroupNorm(4, 16),
        *wide([torch.nn.InstanceNorm2d(16, affine=True), torch.nn.LayerNorm((16, 72, 72))]),
    ],
)
def test_normalizations_are_those_of_torch(norm: torch.nn.Module) -> None:
    """Of numbers whose mean is as large as their deviation, so that rounding of either shows."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 1), norm, torch.nn.Conv2d(16, 16, 1)).eval()
    image = torch.randn(2, 16, 72, 72) + 1
    program = iree.winograd.load(iree.winograd.compile(iree.winograd.import_torch(model, image), strict=True))
    with torch.no_grad():
        single = model(image).numpy()
        expected = model.double()(image.double()).numpy()
    model.float()
    largest = np.abs(expected).max()
    bound = max(4 * np.abs(single - expected).max(), 1e-6 * largest)
    assert np.abs(np.asarray(program(image.numpy())) - expected).max() <= bound
