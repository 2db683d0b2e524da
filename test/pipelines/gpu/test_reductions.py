"""IREE's reductions between convolutions, in the configurations that its code for GPUs is right for.

Without a GPU what is read is how each reduction is distributed; `benchmarks.gpu_reductions` runs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import iree.winograd
import pytest
import torch
from iree.winograd.compiling.compilation import Compilation, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from torch import nn
from torch.nn import functional
from wide import sampled, wide

TARGETS = ("cuda:sm_90a", "hip:gfx942", "cuda:sm_80", "hip:gfx1100")
IMAGE = (2, 8, 8, 8)


class Between(nn.Module):
    """Layers between two pointwise convolutions, on each of several images of the first's channels."""

    def __init__(self, layers: list[tuple[int, nn.Module]]) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Conv2d(IMAGE[1], channels, 1) for channels, _ in layers)
        self.layers = nn.ModuleList(layer for _, layer in layers)
        self.after = nn.ModuleList(nn.Conv2d(channels, 8, 1) for channels, _ in layers)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        branches = zip(self.before, self.layers, self.after, strict=True)
        return torch.cat([after(layer(before(image))) for before, layer, after in branches], 1)


class Applied(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.function(image)


class SqueezeAndExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Linear(channels, 16), nn.Linear(16, channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        scales = torch.sigmoid(self.excite(torch.relu(self.squeeze(image.mean((2, 3))))))
        return image * scales[:, :, None, None]


class ChannelNorm(nn.Module):
    """Layer normalization of the channels of each pixel, as ConvNeXt's."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.norm(image.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Attention(nn.Module):
    """Of an image's pixels, behind group normalization, as Stable Diffusion's decoder has it."""

    def __init__(self, channels: int, groups: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.attention = nn.MultiheadAttention(channels, heads, batch_first=True)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(image).flatten(2).transpose(1, 2)
        attended, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        return image + attended.transpose(1, 2).reshape(image.shape)


class DiffusionBlock(nn.Module):
    """A residual block of Stable Diffusion's U-Net, with few channels for the many of its convolutions."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.narrow, self.widen = nn.Conv2d(channels, 8, 3, padding=1), nn.Conv2d(8, channels, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        hidden = self.widen(self.narrow(functional.silu(self.first(image))))
        return image + self.widen(self.narrow(functional.silu(self.second(hidden))))


def group_norms(widths: tuple[int, ...]) -> Between:
    """Groups of so many channels each."""
    return Between([(4 * width, nn.GroupNorm(4, 4 * width)) for width in widths])


def group_reductions(reduce: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Between]:
    """Scales of groups of 40 and of 24 channels."""

    def scaled(image: torch.Tensor) -> torch.Tensor:
        return (image.unflatten(1, (2, -1)) * reduce(image.unflatten(1, (2, -1)))).flatten(1, 2)

    return lambda: Between([(80, Applied(scaled)), (48, Applied(scaled))])


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "group norm": lambda: group_norms((40, 10, 20, 24, 30, 60)),
    "group norm, other widths": lambda: group_norms((1, 2, 3, 4, 6, 8, 12, 16, 32, 48, 80, 96)),
    "group norm of one group": lambda: Between([(width, nn.GroupNorm(1, width)) for width in (40, 60, 96)]),
    "group norm, one channel a group": lambda: Between([(40, nn.GroupNorm(40, 40))]),
    "instance norm": lambda: Between([(c, nn.InstanceNorm2d(c, affine=True)) for c in (20, 40, 64)]),
    "layer norm of images": lambda: Between([(c, nn.LayerNorm((c, 8, 8))) for c in (10, 24, 40)]),
    "layer norm of channels": lambda: Between([(c, ChannelNorm(c)) for c in (40, 96, 160)]),
    "squeeze and excitation": lambda: Between([(c, SqueezeAndExcitation(c)) for c in (40, 64, 120)]),
    "diffusion": lambda: Between([(320, DiffusionBlock(320, 32)), (80, DiffusionBlock(80, 2))]),
    "attention": lambda: Between([(80, Attention(80, 2, 2)), (64, Attention(64, 32, 1))]),
    "softmax of channels": lambda: Between([(40, Applied(lambda x: torch.softmax(x, 1)))]),
    "softmax of rows": lambda: Between([(40, Applied(lambda x: torch.softmax(x, 3)))]),
    "softmax of groups": lambda: Between(
        [(80, Applied(lambda x: torch.softmax(x.reshape(2, 2, -1), 2).reshape(x.shape)))]
    ),
    "maxima of groups": group_reductions(lambda x: x.amax((2, 3, 4), keepdim=True)),
    "means of groups": group_reductions(lambda x: x.mean((2, 3, 4), keepdim=True)),
    "deviations of groups": group_reductions(lambda x: x.std((2, 3, 4), keepdim=True)),
    "norms of groups": group_reductions(lambda x: (x * x).sum((2, 3, 4), keepdim=True).sqrt()),
    "products of groups": group_reductions(lambda x: x.prod(4, keepdim=True).prod(2, keepdim=True)),
    "global response norm": lambda: Between(
        [
            (
                40,
                Applied(
                    lambda x: x * (lambda n: n / n.mean(1, keepdim=True))(x.norm(dim=(2, 3), keepdim=True))
                ),
            )
        ]
    ),
    "pooling": lambda: Between([(40, nn.AdaptiveAvgPool2d(1)), (40, nn.AdaptiveAvgPool2d(1))]),
}


@dataclass(frozen=True)
class Distribution:
    """How threads share one reduction: counts of each of its loops."""

    reduced: tuple[int, ...]
    lanes: tuple[int, ...]
    subgroups: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        """Whether IREE's code adds what all subgroups have.

        A power of two lanes of one loop read a partial result each; where there are fewer, each thread reads
        the first one alone.
        """
        partial = prod(1 << (self.subgroups[loop] - 1).bit_length() for loop in self.reduced)
        return partial == 1 or any(self.lanes[loop] >= partial for loop in self.reduced)


def distributions(model: nn.Module, target: str) -> list[Distribution]:
    """Of all reductions that IREE shares among lanes, as its code is generated from."""
    torch.manual_seed(0)
    imported = iree.winograd.import_torch(model.eval(), torch.randn(IMAGE))
    options, errors = WinogradOptions(strict=True), []
    session = open_session(target_flags(target), options)
    stages = Stages(compile_to="executable-configurations")
    with Compilation(session, options, stages, report=errors.append) as compilation:
        invocation = compilation.compile(open_source(compilation, imported))
        assert invocation is not None, errors
        text = invocation.export_module().get_asm(use_local_scope=True, large_elements_limit=8)
    found = []
    for line in text.splitlines():
        bases = [re.search(rf"{name} = \[\[([\d, ]+)\]", line) for name in ("lane_basis", "subgroup_basis")]
        kinds = re.search(r"iterator_types = \[(.*?)\]", line)
        if kinds is None or "reduction" not in kinds[1] or None in bases:
            continue
        reduced = tuple(i for i, kind in enumerate(kinds[1].split(", ")) if "reduction" in kind)
        lanes, subgroups = (tuple(map(int, each[1].split(","))) for each in bases if each is not None)
        found.append(Distribution(reduced, lanes, subgroups))
    return found


@pytest.mark.parametrize("network", sampled(NETWORKS, ["group norm", "attention"]))
@pytest.mark.parametrize("target", [TARGETS[0], *wide(TARGETS[1:])])
def test_no_reduction_is_shared_by_more_subgroups_than_lanes_add(network: str, target: str) -> None:
    found = distributions(NETWORKS[network](), target)
    assert [each for each in found if not each.is_right] == []


def test_reductions_over_pixels_and_channels_are_read() -> None:
    """Else the other test would find nothing wrong."""
    found = distributions(group_norms((40, 60)), TARGETS[1])
    assert len([each for each in found if len(each.reduced) == 2]) == 4
