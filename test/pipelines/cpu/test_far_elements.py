"""Images of unknown sizes of more than 2^31 elements, of which kernels read few."""

from __future__ import annotations

from math import prod

import iree.winograd
import numpy as np
import pytest
from wide import wide

DILATION, CHANNELS, FILTERS = 30000, 28, 8
SIZE = (1, 2 * DILATION + 3, 1280, CHANNELS)
assert prod(SIZE) > 2**31

NAMED = {
    "direct": ("conv_2d_nhwc_hwcf", f"3x3x{CHANNELS}x{FILTERS}", FILTERS),
    "depthwise": ("depthwise_conv_2d_nhwc_hwc", f"3x3x{CHANNELS}", CHANNELS),
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """In a sparse file: what isn't written takes no memory, nor what isn't read."""
    path = tmp_path_factory.mktemp("far") / "image"
    image = np.asarray(np.memmap(path, np.float32, "w+", shape=SIZE))
    random = np.random.default_rng(0)
    for row in (0, DILATION, 2 * DILATION):
        image[:, row : row + 3] = random.integers(-8, 9, (1, 3, *SIZE[2:]))
    return image


@pytest.mark.parametrize("kernel", ["depthwise", *wide(["direct"])])
def test_reads_elements_behind_two_to_the_31st(kernel: str, image: np.ndarray) -> None:
    operation, filter_shape, filters = NAMED[kernel]
    weights = np.random.default_rng(1).integers(-8, 9, list(map(int, filter_shape.split("x"))))
    result = f"tensor<1x?x?x{filters}xf32>"
    program = f"""
    func.func @main(%x: tensor<1x?x?x{CHANNELS}xf32>) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %reach = arith.constant {2 * DILATION} : index
      %h = tensor.dim %x, %c1 : tensor<1x?x?x{CHANNELS}xf32>
      %w = tensor.dim %x, %c2 : tensor<1x?x?x{CHANNELS}xf32>
      %oh = arith.subi %h, %reach : index
      %ow = arith.subi %w, %c2 : index
      %f = arith.constant dense<"0x{weights.astype(np.float32).tobytes().hex()}"> : tensor<{filter_shape}xf32>
      %e = tensor.empty(%oh, %ow) : {result}
      %z = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.{operation} {{
        dilations = dense<[{DILATION}, 1]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
        ins(%x, %f : tensor<1x?x?x{CHANNELS}xf32>, tensor<{filter_shape}xf32>) outs(%z : {result}) -> {result}
      return %r : {result}
    }}"""
    compiled = iree.winograd.compile(program, threads=1, strict=True, size_hint=SIZE[1:3])
    assert b"winograd_f1x1_3x3_anyxany" in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    assert run.main.is_read_only(0), "the image would be copied"
    rows = np.stack([image[0, row : row + 3] for row in (0, DILATION, 2 * DILATION)]).astype(np.float64)
    columns = np.stack([rows[:, :, tap : tap + SIZE[2] - 2] for tap in range(3)])
    sums = "vthwc,tvcf->hwf" if kernel == "direct" else "vthwc,tvc->hwc"
    np.testing.assert_array_equal(np.asarray(run(image))[0], np.einsum(sums, columns, weights))
