"""IREE's reductions between convolutions, in the configurations that its code for GPUs is right for.

Without a GPU what is read is how each reduction is distributed; `benchmarks.gpu_reductions` runs them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from torch import nn
from wide import wide, wide_combinations

from benchmarks.reduction_networks import IMAGE, IMAGE_CHANNELS, NETWORKS, Between, group_norms

TARGETS = ("cuda:sm_90a", "hip:gfx942", "cuda:sm_80", "hip:gfx1100")
OTHER_AMD_TARGETS = (
    "gfx908",
    "gfx90a",
    "gfx950",
    "gfx1101",
    "gfx1103",
    "gfx1150",
    "gfx1151",
    "gfx1200",
    "gfx1201",
)
"""Through HIP."""


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


def imported(model: nn.Module, image: tuple[int, ...] = IMAGE) -> ImportedModel:
    torch.manual_seed(0)
    return iree.winograd.import_torch(model.eval(), torch.randn(image))


def reductions(model: ImportedModel, target: str) -> list[str]:
    """All of IREE's, as its code is generated from."""
    options, errors = WinogradOptions(strict=True), []
    session = open_session(target_flags(target), options)
    stages = Stages(compile_to="executable-configurations")
    with Compilation(session, options, stages, report=errors.append) as compilation:
        invocation = compilation.compile(open_source(compilation, model))
        assert invocation is not None, errors
        text = invocation.export_module().get_asm(use_local_scope=True, large_elements_limit=8)
    return [line for line in text.splitlines() if "linalg.generic" in line and '"reduction"' in line]


def distributions(model: ImportedModel, target: str) -> list[Distribution]:
    """Of all reductions that IREE shares among lanes."""
    found = []
    for line in reductions(model, target):
        bases = [re.search(rf"{name} = \[\[([\d, ]+)\]", line) for name in ("lane_basis", "subgroup_basis")]
        kinds = re.search(r"iterator_types = \[(.*?)\]", line)
        if kinds is None or None in bases:
            continue
        reduced = tuple(i for i, kind in enumerate(kinds[1].split(", ")) if "reduction" in kind)
        lanes, subgroups = (tuple(map(int, each[1].split(","))) for each in bases if each is not None)
        found.append(Distribution(reduced, lanes, subgroups))
    return found


@pytest.mark.parametrize("network", wide(dict.fromkeys(("attention", *list(NETWORKS)[::6]))))
def test_no_reduction_is_shared_by_more_subgroups_than_lanes_add(network: str) -> None:
    """For a target of either maker, a few also for others, with subgroups of the same sizes."""
    model = imported(NETWORKS[network]())
    for target in TARGETS if list(NETWORKS).index(network) % 12 == 0 else TARGETS[:2]:
        assert [each for each in distributions(model, target) if not each.is_right] == [], target


@pytest.mark.parametrize("chip", wide(OTHER_AMD_TARGETS))
def test_group_normalization_loses_no_sums_on_any_chip(chip: str) -> None:
    """Of three channels a group, whose sums IREE would share by more subgroups than it adds."""
    found = distributions(imported(group_norms((3,))), f"hip:{chip}")
    assert [each.is_right for each in found] == [True, True]


@pytest.mark.parametrize(
    ("target", "groups"),
    [("cuda:sm_90a", 32), *wide_combinations([("cuda:sm_90a", 1), ("hip:gfx942", 4), ("vulkan", 1)])],
)
def test_sums_of_few_large_groups_are_none_of_irees(groups: int, target: str) -> None:
    """Not one workgroup, in the worst case one thread, adds all."""
    model = imported(Between([(128, nn.GroupNorm(groups, 128))]), (1, 8, 64, 64))
    assert reductions(model, target) == []


@pytest.mark.parametrize("shape", wide([(96, 1, 56), (80, 2, 8), (30, 3, 31)]))
def test_normalization_between_convolutions_is_that_of_torch(
    shape: tuple[int, int, int], gpu_target: str, gpu_device: str
) -> None:
    """Of numbers whose mean is as large as their deviation, by a driver whose loops end after 65535 turns."""
    channels, groups, size = shape
    torch.manual_seed(0)
    model = Between([(channels, nn.GroupNorm(groups, channels))]).eval()
    image = torch.randn(2, IMAGE_CHANNELS, size, size) + 1
    compiled = iree.winograd.compile(iree.winograd.import_torch(model, image), target=gpu_target, strict=True)
    program = iree.winograd.load(compiled, gpu_device)
    with torch.no_grad():
        single = model(image)[0].numpy()
        expected = model.double()(image.double())[0].numpy()
    bound = max(4 * np.abs(single - expected).max(), 1e-6 * np.abs(expected).max())
    assert np.abs(np.asarray(program(image.numpy())) - expected).max() <= bound


@pytest.mark.parametrize("width", [2052, *wide([2056])])
@pytest.mark.parametrize("targets", [TARGETS[:1], *wide([TARGETS[1:]])])
def test_sums_of_many_groups_are_shared_by_lanes(width: int, targets: tuple[str, ...]) -> None:
    """Of more channels than threads of a kernel share, or hold: IREE gets pixels and channels of a group."""
    model = imported(Between([(32 * width, nn.GroupNorm(32, 32 * width))]), (32, IMAGE_CHANNELS, 4, 4))
    for target in targets:
        found = distributions(model, target)
        assert [len(each.reduced) for each in found] == [2, 2], target
        assert [each for each in found if not each.is_right] == [], target
