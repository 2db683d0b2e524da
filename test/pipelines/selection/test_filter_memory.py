"""What a price of memory changes: layers with smaller filters, whose time it is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.selection.candidates import convolution_shape
from iree.winograd.pipelines.selection.chooser import Chooser
from iree.winograd.pipelines.selection.decision import Candidate, Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.prediction import error_limit, implementation_error
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm

PRICES = (0.0, 20.0, 100.0, 1e3, 1e6)
LAYERS = """
func.func @layers(
    %a: tensor<1x9x9x512xf32>, %ya: tensor<1x7x7x512xf32>,
    %b: tensor<1x58x58x64xf32>, %yb: tensor<1x56x56x64xf32>,
    %c: tensor<1x29x29x128xf32>, %yc: tensor<1x14x14x256xf32>) {
  %wa = arith.constant dense<1.0> : tensor<3x3x512x512xf32>
  %wb = arith.constant dense<1.0> : tensor<3x3x64x64xf32>
  %wc = arith.constant dense<1.0> : tensor<3x3x128x256xf32>
  %0 = linalg.conv_2d_nhwc_hwcf ins(%a, %wa : tensor<1x9x9x512xf32>, tensor<3x3x512x512xf32>)
    outs(%ya : tensor<1x7x7x512xf32>) -> tensor<1x7x7x512xf32>
  %1 = linalg.conv_2d_nhwc_hwcf ins(%b, %wb : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%yb : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  %2 = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>}
    ins(%c, %wc : tensor<1x29x29x128xf32>, tensor<3x3x128x256xf32>)
    outs(%yc : tensor<1x14x14x256xf32>) -> tensor<1x14x14x256xf32>
  return
}
"""


LARGE_CACHE = """
util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "sapphirerapids", cpu_features = "+avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device
"""
"""Of 2 MiB, which holds all tiles beside what a kernel transforms of filters."""
AT_LOAD = """
util.global private @w : tensor<3x3x512x512xf32>
func.func @layer(%a: tensor<1x9x9x512xf32>, %y: tensor<1x7x7x512xf32>) {
  %w = util.global.load immutable @w : tensor<3x3x512x512xf32>
  %0 = linalg.conv_2d_nhwc_hwcf ins(%a, %w : tensor<1x9x9x512xf32>, tensor<3x3x512x512xf32>)
    outs(%y : tensor<1x7x7x512xf32>) -> tensor<1x7x7x512xf32>
  return
}
"""


def decisions(price: float | None, *, keeps_all: bool = True, program: str = LAYERS) -> list[Decision]:
    context, found = ir.Context(), list[Decision]()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(program)
        select = SelectAlgorithm(filter_memory_price=price, observe=found.append, keeps_all=keeps_all)
        select.run(module.operation)
    assert len(found) == program.count("linalg.conv")
    return found


def chosen(decision: Decision) -> Candidate:
    assert decision.chosen is not None
    return decision.chosen


def filter_bytes(decision: Decision) -> int:
    assert decision.problem is not None
    implementation = chosen(decision).implementation
    shape = convolution_shape(decision.problem, implementation.algorithm)
    return shape.stored_filter_bytes(implementation.schedule)


def test_filters_shrink_with_the_price_and_are_worth_the_time() -> None:
    by_price = [decisions(price) for price in PRICES]
    for layer in zip(*by_price, strict=True):
        sizes = [filter_bytes(each) for each in layer]
        assert sizes == sorted(sizes, reverse=True)
        for price, size, decision in zip(PRICES, sizes, layer, strict=True):
            longer = chosen(decision).predicted_seconds - chosen(layer[0]).predicted_seconds
            assert longer <= 1e-6 * price * (sizes[0] - size) / 2**20
            if size < sizes[0]:
                assert "less than those of" in decision.reason
    assert filter_bytes(by_price[-1][0]) < filter_bytes(by_price[0][0])


def test_errors_stay_within_the_limit() -> None:
    for price in PRICES:
        for decision in decisions(price):
            assert decision.problem is not None
            limit = error_limit(decision.problem, decision.space, None, output_tile=None)
            assert chosen(decision).keeps(limit)


@pytest.mark.parametrize("price", [*PRICES, None])
def test_the_choice_is_among_those_that_are_looked_at(price: float | None) -> None:
    """Most algorithms aren't predicted unless a report has them."""
    of_all, of_few = decisions(price), decisions(price, keeps_all=False)
    assert sum(len(each.candidates) for each in of_few) < sum(len(each.candidates) for each in of_all)
    for all_known, few_known in zip(of_all, of_few, strict=True):
        assert chosen(few_known).implementation == chosen(all_known).implementation


def test_the_default_is_what_reading_memory_takes() -> None:
    by_default = decisions(None)
    space = by_default[0].space
    assert space.filter_byte_price == 1 / space.limits.bandwidths[-1].bytes_per_second
    given = decisions(1e6 * 2**20 * space.filter_byte_price)
    for own, same in zip(by_default, given, strict=True):
        assert chosen(own).implementation == chosen(same).implementation


def test_images_of_unknown_sizes_cost_no_memory_by_default() -> None:
    """A choice that is as fast at the expected size may not be at others."""
    decision = decisions(None)[0]
    assert decision.problem is not None
    chooser = Chooser(decision.space, None, None, (), (), None)
    assert chooser.byte_price(decision.problem) > 0
    for others in ({"unknown_sizes": (0, 1)}, {"runtime_filter": True}):
        assert chooser.byte_price(replace(decision.problem, **others)) == 0


@pytest.mark.parametrize("price", [-1.0, float("inf")])
def test_what_is_no_price(price: float) -> None:
    with pytest.raises(ValueError, match="filter_memory_price"):
        WinogradOptions(filter_memory_price=price)


def test_large_filters_of_few_tiles_may_be_stored_as_they_are() -> None:
    few_tiles, *others = decisions(None, program=LARGE_CACHE + LAYERS)
    assert few_tiles.problem is not None
    assert _taking_filters(few_tiles)
    for each in _taking_filters(few_tiles):
        shape = convolution_shape(few_tiles.problem, each.implementation.algorithm)
        stored = shape.stored_filter_bytes(each.implementation.schedule)
        assert stored == 4 * 3 * 3 * 512 * 512 < shape.filter_bytes
        # They are transformed in f32.
        alike = replace(few_tiles.problem, runtime_filter=True)
        assert each.predicted_error == implementation_error(alike, each.implementation)
    assert not any(map(_taking_filters, others))


def test_filters_that_are_known_when_a_program_is_loaded_are_transformed_then() -> None:
    """They can't be packed beforehand."""
    (decision,) = decisions(None, program=LARGE_CACHE + AT_LOAD)
    assert decision.chosen is not None
    assert not _taking_filters(decision)


def _taking_filters(decision: Decision) -> list[Candidate]:
    """Candidates whose kernels transform filters."""
    return [each for each in decision.candidates if each.implementation.schedule.transforms_filters]
