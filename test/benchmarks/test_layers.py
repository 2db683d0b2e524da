import itertools

import numpy as np
import pytest
import torch
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.compiled import compile_plain, compiled_peer
from benchmarks.convolutions import (
    ConvolutionLayer,
    reference,
    relative_error,
    resnet_layers,
    vgg_layers,
)
from benchmarks.layers import speedups
from benchmarks.limits import LimitProbes, Limits
from benchmarks.programs import LAYOUTS, convolution_program

LAYER = ConvolutionLayer("test", batch=2, height=5, width=7, channels=3, filters=4)


def test_operations_are_counted_one_by_one() -> None:
    positions = itertools.product(range(5), range(7), range(3), range(3))
    inside = sum(0 <= row + i - 1 < 5 and 0 <= column + j - 1 < 7 for row, column, i, j in positions)
    assert LAYER.flops == 2 * 2 * 5 * 7 * 9 * 3 * 4
    assert LAYER.necessary_flops == 2 * 2 * inside * 3 * 4


def test_bytes_are_those_of_the_arrays() -> None:
    operands = LAYER.random_operands()
    output = 4 * LAYER.batch * LAYER.height * LAYER.width * LAYER.filters
    inputs = operands.image.nbytes + operands.kernel.nbytes + operands.bias.nbytes
    assert LAYER.bytes_moved == inputs + output


def test_layers_are_those_of_the_networks() -> None:
    assert resnet_layers(8)[0].name == "resnet 8x56x56 64->64"
    assert len(resnet_layers(1)) == 4
    # Thirteen layers, four of which repeat another one.
    assert len(set(vgg_layers(1))) == 9
    # 15.3 billion multiply-adds in the convolutions of VGG-16, with the repeated layers.
    repeated = {(56, 256): 2, (28, 512): 2, (14, 512): 3}
    total = sum(layer.flops * repeated.get((layer.height, layer.channels), 1) for layer in vgg_layers(1))
    assert total / 2e9 == pytest.approx(15.35, abs=0.01)


def test_sizes_are_positive() -> None:
    with pytest.raises(ValueError, match="channels must be positive, got 0"):
        ConvolutionLayer("test", 1, 1, 1, 0, 1)


def test_reference_is_the_convolution() -> None:
    operands = LAYER.random_operands()
    image, kernel, bias = (
        torch.from_numpy(array).double()
        for array in (operands.image_nchw, operands.kernel_fchw, operands.bias)
    )
    expected = torch.relu(torch.conv2d(image, kernel, bias, padding=1))[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(reference(operands), expected, rtol=0, atol=1e-14)


def test_relative_error() -> None:
    exact = np.array([0.0, -4.0, 2.0])
    assert relative_error(np.array([0.5, -4, 2], np.float32), exact) == 0.125
    with pytest.raises(ValueError, match="shapes differ"):
        relative_error(np.zeros(2, np.float32), exact)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs_compute_the_layer(layout: str) -> None:
    operands = LAYER.random_operands()
    image = operands.image if layout == "nhwc" else operands.image_nchw
    peer = compiled_peer(
        "iree", compile_plain(convolution_program(LAYER, operands, layout)), image, layout, 1
    )
    # Sums of 27 products and a bias.
    assert relative_error(peer.output()[0], reference(operands)) < 64 * 2.0**-24


def test_an_unknown_layout() -> None:
    with pytest.raises(ValueError, match="layout must be one of"):
        convolution_program(LAYER, LAYER.random_operands(), "chwn")


def test_limits_bound_by_arithmetic_or_by_memory() -> None:
    assert Limits(1.0, 1e12).seconds(LAYER) == LAYER.necessary_flops
    assert Limits(1e12, 1.0).seconds(LAYER) == LAYER.bytes_moved
    with pytest.raises(ValueError, match="must be positive"):
        Limits(0.0, 1.0)


def test_measured_limits_are_those_of_a_real_machine() -> None:
    probes = LimitProbes(threads=1)
    for contender in probes.contenders:
        contender.run()
    limits = probes.limits({"multiply-add": Timing((1.0,)), "copy": Timing((2.0,))})
    assert limits.bandwidth == 2 * (64 << 20) / 2
    # 20 or 12 vectors of 16 or 8 elements, two operations each.
    assert limits.flops / 200_000 in (2 * 20 * 16, 2 * 12 * 8)


def test_speedups_are_against_the_best_other_tool() -> None:
    seconds = {"ours-nhwc": 1.0, "ours-nchw": 2.0, "iree-nhwc": 0.1, "torch-nhwc": 6.0, "openvino-nchw": 4.0}
    timings = {name: Timing((value,)) for name, value in seconds.items()}
    assert speedups(timings, list(seconds)) == {"ours-nhwc": 4, "ours-nchw": 2}
    assert speedups(timings, ["ours-nhwc", "iree-nhwc"]) == {}
