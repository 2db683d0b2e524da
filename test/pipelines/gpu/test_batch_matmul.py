"""Products of the matrices of a batch, as attention has them, on Vulkan: from where heads are in memory."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from torch import nn
from wide import wide

UNIT_ROUNDOFF = 2.0**-24


class Heads(nn.Module):
    """Scores of scaled queries and keys, and their products with values: slices of one tensor."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        split = x.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        scores = (queries * 0.25) @ keys.transpose(-2, -1)
        return scores, (scores @ values).transpose(1, 2).flatten(2)


CASES = [(1, 3, 77, 20), *wide([(3, 2, 64, 18)])]
"""Images, heads, tokens, channels of a head."""


@pytest.mark.parametrize("case", CASES)
def test_products_of_heads(case: tuple[int, int, int, int], gpu_target: str, gpu_device: str) -> None:
    images, heads, tokens, channels = case
    x = np.random.default_rng(0).standard_normal((images, tokens, 3 * heads * channels), np.float32)
    imported = iree.winograd.import_torch(Heads(heads), torch.from_numpy(x))
    compiled = compile(imported, target=gpu_target, strict=True)
    assert b"winograd_batch_matmul" in bytes(compiled)
    scores, attended = map(np.asarray, iree.winograd.load(compiled, gpu_device)(x))
    split = x.astype(np.float64).reshape(images, tokens, 3, heads, channels).transpose(2, 0, 3, 1, 4)
    queries, keys, values = split
    expected = queries @ keys.swapaxes(2, 3) / 4
    # Each term is rounded as often as there are sums after it, and before as the factor is applied.
    sizes = np.abs(queries) @ np.abs(keys).swapaxes(2, 3) / 4
    bound = (channels + 2) * UNIT_ROUNDOFF * sizes
    assert (np.abs(scores - expected) <= bound).all()
    result = (expected @ values).swapaxes(1, 2).reshape(images, tokens, -1)
    of_scores = (bound + tokens * UNIT_ROUNDOFF * sizes) @ np.abs(values)
    assert (np.abs(attended - result) <= 1.01 * of_scores.swapaxes(1, 2).reshape(result.shape)).all()


class Product(nn.Module):
    """Of two matrices that are known only at run time, beside a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)

    def forward(
        self, image: torch.Tensor, left: torch.Tensor, right: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return left @ right, self.convolution(image)


def product_arguments(rows: int, reduction: int, columns: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((1, 3, 8, 8), (1, rows, reduction), (1, reduction, columns))
    return [torch.randn(*shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("sizes", wide([(256, 64, 160), (160, 512, 96)]))
def test_large_products_of_one_matrix_are_layers(
    sizes: tuple[int, int, int], gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose filters are transformed, and on matrix units split, as the program runs."""
    monkeypatch.setattr(GpuSearchSpace, "least_unknown_multiply_adds", 1)
    arguments = product_arguments(*sizes)
    compiled = compile(iree.winograd.import_torch(Product(), *arguments), target=gpu_target, strict=True)
    assert b"winograd_filter_f1_1" in bytes(compiled)
    result, _ = map(np.asarray, iree.winograd.load(compiled, gpu_device)(*arguments))
    _, left, right = (each.numpy().astype(np.float64) for each in arguments)
    # Split operands have two bits less, whose products three roundings more.
    bound = (sizes[1] + 8) * UNIT_ROUNDOFF * (np.abs(left) @ np.abs(right))
    assert (np.abs(result - left @ right) <= bound).all()


@pytest.mark.parametrize("sizes", wide([(1024, 512, 512)]))
def test_products_of_thousands_of_rows_are_layers_on_hopper(sizes: tuple[int, int, int]) -> None:
    imported = iree.winograd.import_torch(Product(), *product_arguments(*sizes))
    assert b"winograd_filter_f1_1" in bytes(compile(imported, target="cuda:sm_90a", strict=True))


@pytest.mark.parametrize("target", wide(["cuda:sm_80", "hip:gfx942"]))
def test_products_compile_for_all_targets(target: str) -> None:
    imported = iree.winograd.import_torch(Heads(3), torch.zeros(1, 77, 180))
    assert b"winograd_batch_matmul" in bytes(compile(imported, target=target, strict=True))
