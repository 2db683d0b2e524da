"""What a layer can't take less than on a GPU, by its operations and by its bytes."""

from __future__ import annotations

from math import prod

import pytest
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.selection.candidates import convolution_shape
from iree.winograd.pipelines.selection.prediction import predict
from scheduled_program import HOPPER

X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
POINTWISE = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
LAYERS = (f"32x56x56x64->64 {X3}", f"1x14x14x256->256 {X3}", f"32x56x56x96->384 {POINTWISE}")


@pytest.mark.parametrize(
    "target", [HOPPER, GpuTarget(1024, 48 << 10)], ids=["sm_90a", "without matrix units"]
)
def test_no_layer_is_predicted_to_take_less(target: GpuTarget) -> None:
    space = GpuSearchSpace(target, GpuBackend(target).default_machine)
    for layer in LAYERS:
        problem = ConvolutionProblem.parse(layer)
        size = 4 * problem.input_channels * problem.output_channels * prod(problem.kernel_size)
        of_image = prod(problem.output_size) * problem.output_channels
        of_image += prod(problem.input_size) * problem.input_channels
        size += 4 * (problem.batch or 1) * of_image
        ours = [each for each in predict(problem, space) if not each.implementation.is_left_to_iree]
        assert ours
        for each in ours:
            algorithm, schedule = each.implementation.algorithm, each.implementation.schedule
            shape = convolution_shape(problem, algorithm)
            tiles = (problem.batch or 1) * prod(shape.tiles_per_image)
            operations = 2 * tiles * shape.tile_products * shape.output_channels
            limit = space.limit_seconds(operations, size, schedule)
            assert limit is not None and 0 < limit <= each.predicted_seconds
            # More bytes than any cache holds are bound by memory.
            moved = space.limit_seconds(operations, 1 << 40, schedule)
            assert moved == pytest.approx((1 << 40) / space.machine.memory_bandwidth)


def test_each_product_of_split_numbers_counts() -> None:
    space = GpuSearchSpace(HOPPER, GpuBackend(HOPPER).default_machine)
    problem = ConvolutionProblem.parse(LAYERS[0])
    schedules = {
        each.implementation.schedule.matrix_products: each.implementation.schedule
        for each in predict(problem, space)
    }
    one, three = (space.limit_seconds(1 << 40, 1, schedules[products]) for products in (1, 3))
    assert one is not None and three == pytest.approx(3 * one)
