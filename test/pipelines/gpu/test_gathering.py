"""Products of images of half precision that gather what they multiply: their code, and when they are chosen.

`test_half_precision.py` checks their results where there is such a GPU.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import iree.winograd
import pytest
import torch
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.warpgroup_schedules import GATHERING_SCHEDULES
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptxas import spilled_bytes
from scheduled_program import HOPPER
from torch import nn
from wide import wide_combinations

HOPPER_MACHINE = default_gpu_machine("sm_90a")
HALVES = "f32, operands of f16, result of f16"


def shape(
    batch: int, size: int, channels: int, outputs: int, kernel: int, types: str = HALVES
) -> ConvolutionShape:
    """Of a direct convolution that keeps its images' size."""
    pad = kernel // 2
    problem = ConvolutionProblem.parse(
        f"{batch}x{size}x{size}x{channels}->{outputs} kernel {kernel}x{kernel} stride 1x1 dilation 1x1 "
        f"padding {pad}x{pad} {pad}x{pad} groups 1 {types}"
    )
    direct = decompose(problem.kernel_size, (1, 1), part_size=(1, 1))
    return ConvolutionShape.decomposed(problem, direct)


def fastest(of: ConvolutionShape) -> GpuSchedule:
    """Of those that multiply once."""
    offered = default_schedules(of, HOPPER, HOPPER_MACHINE)
    return next(each for each in offered if each.matrix_products == 1)


@pytest.mark.parametrize(
    ("layer", "block"),
    [
        ((32, 14, 256, 256, 3), (128, 128)),
        ((2, 64, 320, 320, 3), (128, 160)),
        ((1, 128, 512, 512, 3), (128, 256)),
    ],
)
def test_blocks_fill_the_gpu(layer: tuple[int, ...], block: tuple[int, int]) -> None:
    chosen = fastest(shape(*layer))
    assert isinstance(chosen, WarpgroupSchedule) and chosen.gathers
    assert (chosen.block_rows, chosen.block_columns) == block
    assert chosen.reduction_parts == 1


@pytest.mark.parametrize("layer", [(2, 8, 1280, 1280, 3), (1, 7, 512, 512, 3), (32, 1, 3136, 1024, 1)])
def test_few_tiles_are_summed_in_parts(layer: tuple[int, ...]) -> None:
    chosen = fastest(shape(*layer))
    assert isinstance(chosen, WarpgroupSchedule) and chosen.gathers
    assert chosen.reduction_parts > 4


def test_few_channels_lie_in_patches() -> None:
    """A tile's patch is read once, where gathered rows come nine times."""
    assert fastest(shape(32, 56, 64, 64, 3)).kind == "implicit-gemm"


@pytest.mark.parametrize(
    "other",
    [
        shape(32, 14, 256, 256, 3, "f32"),
        shape(32, 14, 96, 256, 3),
    ],
    ids=["f32", "no whole stages of channels"],
)
def test_other_images_are_not_gathered(other: ConvolutionShape) -> None:
    offered = schedules(other, HOPPER, HOPPER_MACHINE)
    assert not any(isinstance(each, WarpgroupSchedule) and each.gathers for each in offered)


def test_images_of_bf16_are_gathered_by_the_same_schedules() -> None:
    """Numbers of either type are as many, as fast, and multiplied as they are."""

    def gathering(types: str) -> list[WarpgroupSchedule]:
        offered = schedules(shape(32, 14, 256, 256, 3, types), HOPPER, HOPPER_MACHINE)
        return [each for each in offered if isinstance(each, WarpgroupSchedule) and each.gathers]

    halves, others = gathering(HALVES), gathering(HALVES.replace("f16", "bf16"))
    assert {each.multiplied_type for each in halves} == {"f16"}
    assert others == [replace(each, multiplied_type="bf16") for each in halves]


def test_stages_behind_the_reduction_are_not_gathered() -> None:
    stored = shape(2, 8, 64, 64, 3)
    stored = stored.with_element_types(replace(stored.element_types, input="f16"))
    nine = replace(GATHERING_SCHEDULES[-1], reduction_parts=9)
    assert SplitPacking(stored, nine).reads_image
    assert not SplitPacking(stored, replace(nine, reduction_parts=2)).reads_image


@pytest.mark.parametrize(
    ("type_", "channels", "outputs", "kernel", "batch", "size"),
    [
        (torch.float16, 256, 256, 3, 32, 14),
        *wide_combinations(
            [
                (torch.bfloat16, 256, 256, 3, 32, 14),
                (torch.float16, 320, 320, 3, 2, 64),
                (torch.float16, 512, 512, 3, 1, 128),
                (torch.float16, 512, 512, 3, 1, 7),
                (torch.float16, 256, 512, 1, 32, 28),
                (torch.bfloat16, 320, 320, 3, 2, 64),
                (torch.bfloat16, 256, 512, 1, 32, 28),
            ]
        ),
    ],
)
def test_is_a_kernel_without_another_before_it(
    type_: torch.dtype, channels: int, outputs: int, kernel: int, batch: int, size: int, tmp_path: Path
) -> None:
    """What a residual block ends with is read beside its sums, with hardly a register spilled."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(channels, channels, 1)
            self.second = nn.Conv2d(channels, outputs, kernel, padding=kernel // 2)

        def forward(self, image: torch.Tensor, shortcut: torch.Tensor) -> torch.Tensor:
            return (self.second(self.first(image).relu()) + shortcut).relu()

    images = [torch.zeros(batch, each, size, size, dtype=type_) for each in (channels, outputs)]
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    model = iree.winograd.import_torch(Block().eval().to(type_), *images)
    iree.winograd.compile(model, target="cuda:sm_90a", flags=flags, strict=True)
    spilled = spilled_bytes(tmp_path, "sm_90a")
    assert not any("input" in name for name in spilled)
    # Blocks of 128 x 256 save two registers around their residual, not while they multiply.
    assert max(spilled.values()) <= 8, spilled
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    multiplying = [each for each in text.split(".visible .entry")[1:] if "wgmma.mma_async" in each]
    assert len(multiplying) == 2
    for each in multiplying:
        gathers = re.search(r"cp\.async\.cg\.shared\.global", each) is not None
        assert gathers == ("cp.async.mbarrier.arrive.noinc" in each)
        # Pixels of pointwise layers may come by boxes.
        assert gathers != ("cp.async.bulk.tensor.2d" in each)
    assert kernel == 1 or any("cp.async.cg" in each for each in multiplying)
