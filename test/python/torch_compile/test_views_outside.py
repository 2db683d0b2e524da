"""Results that are views, as a slice of channels is, of what a part computes."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.part_program import inverse, memory_order, output_nodes
from small_networks import UNIT_ROUNDOFF, compiled
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves
from wide import wide_combinations

Head = Callable[[torch.Tensor], Any]


def _moments(features: torch.Tensor) -> Any:
    """As of a variational autoencoder."""
    mean, logarithm = features.chunk(2, dim=1)
    return mean, torch.exp(logarithm.clamp(-3, 3)), logarithm


class Heading(torch.nn.Module):
    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.heads = heads

    def forward(self, image: torch.Tensor) -> Any:
        features = torch.relu(self.convolution(image))
        return [head(features) for head in self.heads]


@pytest.mark.parametrize(
    ("heads", "layout"),
    [
        ((_moments, lambda features: features[:, 1:5, ::2]), torch.contiguous_format),
        *wide_combinations(
            [
                (
                    (
                        lambda features: features.chunk(2, dim=1)[1],
                        lambda features: features[:, 2:, :, 1].transpose(0, 1)[1:],
                        lambda features: features.diagonal(0, 2, 3),
                    ),
                    torch.contiguous_format,
                ),
                (
                    (
                        lambda features: (features[:, :3], features),
                        lambda features: features.mean((2, 3), keepdim=True).expand(-1, -1, 4, 5),
                        lambda features: features.flatten(2).transpose(1, 2)[:, 1:],
                    ),
                    torch.channels_last,
                ),
            ]
        ),
    ],
)
def test_only_the_view_is_taken_outside_of_a_part(heads: Sequence[Head], layout: torch.memory_format) -> None:
    model = Heading(heads).eval()
    images = torch.randn(2, 3, 8, 9).contiguous(memory_format=layout)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        results = tree_leaves(compiled(model, cache=False)(images))
    for result, expected in zip(results, tree_leaves(model(images)), strict=True):
        assert result.stride() == expected.stride()
        # Sums of 27 products; an exponential enlarges errors by itself, at most e^3.
        bound = 10 * 30 * UNIT_ROUNDOFF * float(expected.abs().max())
        torch.testing.assert_close(result, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 2, 3, 1), (1, 0)])
def test_transposed_tensors_of_any_size_are_dense(order: tuple[int, ...]) -> None:
    """As the boxes of a detector: their strides are symbols."""
    given = torch.randn(*range(2, 2 + len(order)))
    graph = make_fx(lambda tensor: tensor.permute(order), tracing_mode="symbolic")(given).graph
    (output,) = output_nodes(graph)
    assert memory_order(output.meta["val"]) == inverse(order)
