"""Grouped and depthwise convolutions on Vulkan against float64, in both layouts.

Naming the algorithm leaves IREE's own kernels out; those of NCHW depthwise convolutions were found wrong.
"""

from __future__ import annotations

from dataclasses import replace

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from checked_programs import check_together, compile_rewritten
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.kernels.grouped.grouped import GroupedKernel
from iree.winograd.pipelines.gpu.schedules.columns import GroupedBlockSchedule, GroupedSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from scheduled_program import HOPPER, ScheduledProgram
from wide import wide, wide_combinations

SIZE, TAPS, STRIDE = 15, 3, 2
OUTPUTS = (SIZE - TAPS) // STRIDE + 1

_PROGRAM = """
func.func @main(%image: {image}, %filter: {filter}) -> {output} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
  %result = linalg.{name} {{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>,
      winograd.algorithm = {{output_tile = array<i64: {m}, {m}>, part_size = array<i64: {p}, {p}>}}}}
    ins(%image, %filter : {image}, {filter}) outs(%zeros : {output}) -> {output}
  return %result : {output}
}}
"""


def _tensor(*sizes: int) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def _run(
    name: str,
    m: int,
    p: int,
    image: npt.NDArray[np.float32],
    filters: npt.NDArray[np.float32],
    target: str,
) -> None:
    """Checks one convolution of an image N x H x W x g x C/g by filters R x S x g x C/g x K/g."""
    batch, _, _, groups, channels = image.shape
    outputs = filters.shape[-1]
    if name == "depthwise_conv_2d_nchw_chw":
        arguments = [image[..., 0].transpose(0, 3, 1, 2), filters[..., 0, 0].transpose(2, 0, 1)]
        shape, order = (batch, groups, OUTPUTS, OUTPUTS), (0, 2, 3, 1)
    elif name == "depthwise_conv_2d_nhwc_hwc":
        arguments = [image[..., 0], filters[..., 0, 0]]
        shape, order = (batch, OUTPUTS, OUTPUTS, groups), (0, 1, 2, 3)
    else:
        arguments = [image.transpose(0, 3, 4, 1, 2), filters.transpose(2, 4, 3, 0, 1)]
        shape, order = (batch, groups, outputs, OUTPUTS, OUTPUTS), (0, 3, 4, 1, 2)
    text = _PROGRAM.format(
        name=name,
        m=m,
        p=p,
        stride=STRIDE,
        image=_tensor(*arguments[0].shape),
        filter=_tensor(*arguments[1].shape),
        output=_tensor(*shape),
    )
    program = iree.winograd.load(compile_rewritten(text, target), device=target.partition(":")[0])
    result = np.asarray(program(*map(np.ascontiguousarray, arguments))).transpose(order)
    expected = np.concatenate(
        [
            convolution(image[..., g, :].astype(float), filters[:, :, g].astype(float), (STRIDE, STRIDE))
            for g in range(groups)
        ],
        axis=3,
    )
    bound = error_bound((m, m), (p, p), channels, views=(TAPS // p + TAPS % p) ** 2)
    expect_within(result.reshape(expected.shape), expected, bound)
    assert np.abs(expected).max() > 2 * bound


@pytest.mark.parametrize("channels", [6, *wide([1])])
@pytest.mark.parametrize("name", ["depthwise_conv_2d_nhwc_hwc", "depthwise_conv_2d_nchw_chw"])
def test_depthwise(name: str, channels: int, gpu_target: str) -> None:
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (2, SIZE, SIZE, channels, 1)).astype(np.float32)
    filters = generator.uniform(-1, 1, (TAPS, TAPS, channels, 1, 1)).astype(np.float32)
    _run(name, 1, 1, image, filters, gpu_target)


@pytest.mark.parametrize(
    ("sizes", "m", "p"), [((3, 5, 6), 2, 2), *wide_combinations([((2, 8, 8), 1, 1), ((5, 20, 3), 2, 2)])]
)
def test_grouped(sizes: tuple[int, int, int], m: int, p: int, gpu_target: str) -> None:
    groups, channels, outputs = sizes
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (2, SIZE, SIZE, groups, channels)).astype(np.float32)
    filters = generator.uniform(-1, 1, (TAPS, TAPS, groups, channels, outputs)).astype(np.float32)
    _run("conv_2d_ngchw_gfchw", m, p, image, filters, gpu_target)


def test_groups_of_few_channels(gpu_target: str, gpu_device: str) -> None:
    """Groups of two quads to three, of columns or blocks that don't divide outputs, against float64."""
    program = ScheduledProgram(
        (10, 11),
        24,
        36,
        (3, 3),
        (1, 1),
        (1, 1),
        low=(1, 1),
        high=(1, 1),
        groups=3,
        schedule=GroupedSchedule(64, 4, columns=4),
    )
    blocks = replace(program, strides=(2, 1), schedule=GroupedBlockSchedule(36, 2, 3, lanes=3))
    check_together([program, blocks], target=gpu_target, devices=[gpu_device])


def test_groups_of_other_channels_have_no_columns() -> None:
    odd = ConvolutionProblem(1, (14, 14), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 16, 96, 96)
    shape = ConvolutionShape.decomposed(odd, decompose((3, 3), (1, 1), part_size=(1, 1)))
    with pytest.raises(ValueError, match="is no direct convolution of groups of whole quads"):
        GroupedKernel(shape, GroupedSchedule())


@pytest.mark.parametrize(("size", "channels"), [(112, 24), (56, 56)])
def test_blocks_are_chosen_for_groups_of_many_images(size: int, channels: int) -> None:
    """Where an H200 took 0.6 to 0.8 of the time of columns."""
    facts = 32, (size,) * 2, (1, 1), (0, 0), (3, 3), (2, 2), (1, 1), channels // 8, channels, channels
    direct = decompose((3, 3), (1, 1), strides=(2, 2), part_size=(1, 1))
    shape = ConvolutionShape.decomposed(ConvolutionProblem(*facts), direct)
    chosen = default_schedules(shape, HOPPER, default_gpu_machine("sm_90a"))[0]
    assert isinstance(chosen, GroupedBlockSchedule)
