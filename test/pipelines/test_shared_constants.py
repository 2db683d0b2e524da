"""Filters that a program uses many times are in it once, also transformed, scaled and packed."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.passes.match.values.constants import constant_array
from wide import wide

CHANNELS = 64
FILTER_BYTES = CHANNELS * CHANNELS * 9 * 4


class Repeated(torch.nn.Module):
    """One convolution, applied many times, as in an unrolled loop; scaled, and to images of two sizes.

    Each output is half or a quarter of the sum of two inputs, so that all results are exact for tiles of two.
    """

    def __init__(self, times: int, scales: tuple[float, ...], halves: bool = False) -> None:
        super().__init__()
        self.times, self.halves = times, halves
        self.convolution = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        weights = torch.zeros(CHANNELS, CHANNELS, 9)
        channels = torch.arange(CHANNELS)
        weights[channels, channels, channels % 9] = 1
        weights[channels, (channels + 5) % CHANNELS, channels % 7] = -1
        self.convolution.weight = torch.nn.Parameter(weights.unflatten(2, (3, 3)), requires_grad=False)
        self.register_buffer("scales", torch.tensor(scales)[:, None, None, None].repeat(1, CHANNELS, 1, 1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        for number in range(self.times):
            image = torch.relu(self.convolution(image) * self.scales[number % len(self.scales)])
            if self.halves and number == self.times // 2:
                image = torch.nn.functional.max_pool2d(image, 2)
        return image


def compiled(network: torch.nn.Module, target: str = "cpu") -> bytes:
    imported = iree.winograd.import_torch(network.eval(), torch.zeros(1, CHANNELS, 16, 16))
    return iree.winograd.compile(imported, target=target, threads=1, output_tile=2, strict=True)


@pytest.mark.parametrize("target", ["cpu", *wide(["cuda:sm_80"])])
def test_a_convolution_that_is_applied_five_times_is_stored_once(target: str) -> None:
    once, often = (len(compiled(Repeated(times, (0.5,)), target)) for times in (1, 5))
    assert once > FILTER_BYTES
    assert often - once < FILTER_BYTES / 2


def test_filters_that_are_scaled_differently_stay_apart() -> None:
    network = Repeated(4, (0.5, 0.25), halves=True)
    image = torch.randint(-8, 9, (1, CHANNELS, 16, 16), generator=torch.Generator().manual_seed(0)).float()
    program = compiled(network)
    result = np.asarray(iree.winograd.load(program, threads=1)(image.numpy()))
    exact = network.double()(image.double()).numpy()
    assert np.count_nonzero(exact) > exact.size / 10
    np.testing.assert_array_equal(result, exact)


PROGRAM = """
func.func @main() {
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %same = arith.constant dense_resource<w> : tensor<2x3xf32>
  %other = arith.constant dense_resource<v> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %u = linalg.transpose ins(%same : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  return
}
{-# dialect_resources: { builtin: {
  w: "0x040000000000803F00000040000040400000804000000000000080BF",
  v: "0x040000000000803F00000040000040400000804000000000000080BF"
} } #-}
"""


def test_what_is_computed_of_one_constant_alike_is_one_resource() -> None:
    calls = []
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(PROGRAM)
        (block,) = module.body.operations[0].regions[0].blocks
        w, same, other, _, transposed, same_transposed = [each.results[0] for each in list(block)[:6]]
        constants = SharedConstants()
        with ir.InsertionPoint(block.operations[6]):

            def computed(source: ir.Value, factor: float, how: object = None) -> str:
                def compute() -> np.ndarray:
                    calls.append(factor)
                    return constant_array(source) * factor

                value = constants.computed(source, how or factor, "made", compute)
                expected = constant_array(source) * np.float32(factor)
                np.testing.assert_array_equal(constant_array(value), expected)
                return str(value.owner.attributes["value"])

            first = computed(w, 2)
            assert computed(same, 2) == first
            assert calls == [2]
            # Equal elements of another constant aren't looked for.
            assert len({first, computed(other, 2), computed(w, -2), computed(transposed, 2)}) == 4
            assert computed(same_transposed, 2) == computed(transposed, 2)
            assert calls == [2, 2, -2, 2]
            assert computed(w, 2, "for another image") == first
            # A zero with another sign is another number.
            assert len({computed(w, 0), computed(w, -0.0, "negative")}) == 2
        module.operation.verify()
