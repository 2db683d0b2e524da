"""The error budget: no convolution gets an algorithm beyond it, and predicted errors are those of kernels."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from math import hypot
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.dialect.algebra.numerics import predicted_error, rounding_error
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.candidates import direct_algorithm
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.prediction import (
    TIME_TOLERANCE,
    algorithm_error,
    direct_error,
    error_limit,
)
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm
from wide import wide

LAYERS = """
func.func @layers(
    %a: tensor<1x58x58x64xf32>, %wa: tensor<3x3x64x64xf32>, %ya: tensor<1x56x56x64xf32>,
    %b: tensor<1x29x29x128xf32>, %wb: tensor<3x3x128x256xf32>, %yb: tensor<1x14x14x256xf32>,
    %c: tensor<1x39x39x48xf32>, %wc: tensor<5x5x48x64xf32>, %yc: tensor<1x35x35x64xf32>,
    %d: tensor<8x9x9x512xf32>, %wd: tensor<3x3x512x512xf32>, %yd: tensor<8x7x7x512xf32>,
    %e: tensor<1x224x224x3xf32>, %we: tensor<3x3x3x64xf32>, %ye: tensor<1x222x222x64xf32>,
    %wf: tensor<1x1x64x256xf32>, %yf: tensor<1x58x58x256xf32>) {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%a, %wa : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
    outs(%ya : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
  %1 = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>}
    ins(%b, %wb : tensor<1x29x29x128xf32>, tensor<3x3x128x256xf32>)
    outs(%yb : tensor<1x14x14x256xf32>) -> tensor<1x14x14x256xf32>
  %2 = linalg.conv_2d_nhwc_hwcf ins(%c, %wc : tensor<1x39x39x48xf32>, tensor<5x5x48x64xf32>)
    outs(%yc : tensor<1x35x35x64xf32>) -> tensor<1x35x35x64xf32>
  %3 = linalg.conv_2d_nhwc_hwcf ins(%d, %wd : tensor<8x9x9x512xf32>, tensor<3x3x512x512xf32>)
    outs(%yd : tensor<8x7x7x512xf32>) -> tensor<8x7x7x512xf32>
  %4 = linalg.conv_2d_nhwc_hwcf ins(%e, %we : tensor<1x224x224x3xf32>, tensor<3x3x3x64xf32>)
    outs(%ye : tensor<1x222x222x64xf32>) -> tensor<1x222x222x64xf32>
  %5 = linalg.conv_2d_nhwc_hwcf ins(%a, %wf : tensor<1x58x58x64xf32>, tensor<1x1x64x256xf32>)
    outs(%yf : tensor<1x58x58x256xf32>) -> tensor<1x58x58x256xf32>
  return
}
"""


def decisions(limit: float | None, output_tile: int | None = None, *, text: str = LAYERS) -> list[Decision]:
    """What is decided of the convolutions of a program."""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    found: list[Decision] = []
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        SelectAlgorithm(output_tile=output_tile, max_relative_error=limit, observe=found.append).run(
            module.operation
        )
    assert len(found) == text.count("linalg.conv")
    return found


@pytest.mark.parametrize("limit", [1e-5, 2e-6, 1e-6, 5e-7, 3e-7, 1e-7, 1e-8])
@pytest.mark.parametrize("output_tile", [None, 1, 4])
def test_no_algorithm_exceeds_the_limit(limit: float, output_tile: int | None) -> None:
    """Where none keeps it, what IREE's own code has is the limit: one running sum over taps and channels."""
    for decision in decisions(limit, output_tile):
        assert decision.problem is not None and decision.candidates
        left = algorithm_error(decision.problem, direct_algorithm(decision.problem))
        accurate = [each for each in decision.candidates if each.predicted_error <= limit]
        accurate = accurate or [each for each in decision.candidates if each.predicted_error <= left]
        if decision.chosen is None:
            assert accurate == []
            assert f"exceeds {max(limit, left):.1e}" in decision.reason
        else:
            fastest = min(each.predicted_seconds for each in accurate)
            assert decision.chosen in accurate
            assert decision.chosen.predicted_seconds <= (1 + TIME_TOLERANCE) * fastest


@pytest.mark.parametrize("limit", [None, 1e-5, 3e-7, 1e-8])
def test_the_choice_is_the_same_where_nobody_asks_for_all_candidates(limit: float | None) -> None:
    """Most algorithms aren't looked at then."""
    texts = []
    for observe in (None, lambda decision: None):
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(LAYERS)
            SelectAlgorithm(max_relative_error=limit, observe=observe).run(module.operation)
            texts.append(str(module))
    assert texts[0] == texts[1] and "winograd.schedule" in texts[0]


@pytest.mark.parametrize("limit", [1e-5, 1e-6])
def test_sums_are_no_shorter_than_the_limit_asks_for(limit: float) -> None:
    """Though shorter ones are more accurate and take as long, as far as predictions tell."""
    text = """
    func.func @main(%x: tensor<1x58x58x64xf32>, %w: tensor<3x3x64x64xf32>, %y: tensor<1x56x56x64xf32>)
        -> tensor<1x56x56x64xf32> {
      %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x58x58x64xf32>, tensor<3x3x64x64xf32>)
        outs(%y : tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32>
      return %r : tensor<1x56x56x64xf32>
    }
    """
    (decision,) = decisions(limit, text=text)
    assert decision.chosen is not None
    chosen = decision.chosen.implementation
    alike = [
        each
        for each in decision.candidates
        if each.implementation.algorithm == chosen.algorithm
        and each.implementation.schedule.apart_from_sums == chosen.schedule.apart_from_sums
    ]
    assert len(alike) > 1
    assert decision.chosen == next(each for each in alike if each.predicted_error <= limit)


def test_the_default_is_a_limit_too() -> None:
    by_default = decisions(None)
    limit = by_default[0].space.max_relative_errors["f32"]
    assert [each.chosen for each in by_default] == [each.chosen for each in decisions(limit)]


def test_no_limit_leaves_a_convolution_for_the_error_that_it_has_anyway() -> None:
    text = """
func.func @layer(%x: tensor<1x7x7x8192xf32>, %w: tensor<1x1x8192x64xf32>, %y: tensor<1x7x7x64xf32>) {
  %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x7x7x8192xf32>, tensor<1x1x8192x64xf32>)
    outs(%y : tensor<1x7x7x64xf32>) -> tensor<1x7x7x64xf32>
  return
}"""
    (by_default,) = decisions(None, text=text)
    assert by_default.chosen is not None
    assert by_default.chosen.predicted_error > 3e-7
    for each in (3e-7, 1e-8):
        (limited,) = decisions(each, text=text)
        assert limited.chosen == by_default.chosen
        assert f"none keeps within {each:.1e}" in limited.reason


def test_a_result_that_is_rounded_may_have_twice_the_error_of_the_direct_convolution() -> None:
    """Its rounding included. Nothing else may be rounded for that."""
    sizes = "1x28x28x256->256 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    space = decisions(None)[0].space
    for type_, name in (("f16", "float16"), ("bf16", "bfloat16")):
        problem = ConvolutionProblem.parse(f"{sizes}, result of {type_}")
        limit, direct = error_limit(problem, space, None, None), direct_error(problem)
        assert limit is not None and 1e-5 < limit < predicted_error((1,), (1,), 1, operand_type="float16")
        rounding = rounding_error(name)
        assert hypot(limit, rounding) <= 2 * hypot(direct, rounding)
        assert problem.measured == ConvolutionProblem.parse(sizes)


@pytest.mark.parametrize(("operation", "rounded"), [("arith.truncf", "f16"), ("arith.addf", None)])
def test_who_reads_a_result_decides_whether_it_is_rounded(operation: str, rounded: str | None) -> None:
    layer = Layer(22, 16, 3, 4, operands="f32", result="f16")
    text = layer.text(layer.numbers()[1])
    if rounded is None:
        # The result itself is returned.
        text = (
            text.replace("xf16>", "xf32>")
            .replace("%out: f16", "%out: f32")
            .replace("%half : f16", "%half : f32")
        )
        text = text.replace("arith.truncf %in : f32 to f16", "arith.addf %in, %in : f32")
    (decision,) = decisions(None, text=text)
    assert decision.problem is not None
    assert decision.problem.rounded_type == rounded


def test_limits_matter() -> None:
    """So that the tests above have something to find."""
    errors = [
        [each.chosen.predicted_error for each in decisions(limit) if each.chosen is not None]
        for limit in (1e-5, 1e-6, 1e-7)
    ]
    assert max(errors[0]) > 1e-6
    assert max(errors[1]) < max(errors[0])
    assert max(errors[2]) > 1e-7
    assert [len(each) for each in errors] == [6, 6, 6]


@dataclass(frozen=True)
class Layer:
    """A convolution of `size` x `size` x `channels` by `taps` x `taps` to 24 channels, in tiles of `tile`."""

    size: int
    channels: int
    taps: int
    tile: int
    stride: int = 1
    operands: str = "f32"
    result: str = "f32"

    def __str__(self) -> str:
        window = f"{self.taps}x{self.taps}/{self.stride}"
        return f"{self.size}x{self.size}x{self.channels}-{window}-m{self.tile}-{self.operands}-{self.result}"

    def numbers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Image and filter."""
        generator = np.random.default_rng(0)
        shapes = ((1, self.size, self.size, self.channels), (self.taps, self.taps, self.channels, 24))
        image, filters = (torch.from_numpy(generator.standard_normal(shape)) for shape in shapes)
        return image.to(TYPES[self.operands]), filters.to(TYPES[self.operands])

    def text(self, filters: torch.Tensor) -> str:
        image = f"tensor<1x{self.size}x{self.size}x{self.channels}x{self.operands}>"
        weights = f"tensor<{self.taps}x{self.taps}x{self.channels}x24x{self.operands}>"
        extent = (self.size - self.taps) // self.stride + 1
        output, rounded = (f"tensor<1x{extent}x{extent}x24x{type_}>" for type_ in ("f32", self.result))
        rounding = f"""
  %unwritten = tensor.empty() : {rounded}
  %returned = linalg.generic {{
    indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (a, b, c, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
    ins(%result : {output}) outs(%unwritten : {rounded}) {{
  ^bb0(%in: f32, %out: {self.result}):
    %half = arith.truncf %in : f32 to {self.result}
    linalg.yield %half : {self.result}
  }} -> {rounded}"""
        ends = (rounding, "%returned") if self.result != "f32" else ("", "%result")
        return f"""
func.func @main(%image: {image}) -> {rounded} {{
  %filter = arith.constant dense<"0x{filters.view(torch.uint8).numpy().tobytes().hex()}"> : {weights}
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
  %result = linalg.conv_2d_nhwc_hwcf {{strides = dense<{self.stride}> : vector<2xi64>}}
    ins(%image, %filter : {image}, {weights}) outs(%zeros : {output}) -> {output}{ends[0]}
  return {ends[1]} : {rounded}
}}
"""


TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
PREDICTED = [
    Layer(22, 64, 3, 6),
    *wide(Layer(22, 64, 3, tile) for tile in (1, 4)),
    *wide([Layer(41, 64, 3, 4, stride=2)]),
    Layer(22, 64, 3, 6, operands="bf16", result="bf16"),
    *wide([Layer(22, 64, 3, 2), Layer(22, 512, 3, 4), Layer(24, 64, 5, 4)]),
    *wide([Layer(22, 64, 3, 4, operands="f16")]),
    *wide(Layer(22, 64, taps, 4, operands="f16", result="f16") for taps in (1, 3)),
    *wide([Layer(22, 16, 3, 6), Layer(22, 256, 3, 2), Layer(22, 512, 3, 6)]),
    *wide(Layer(22, 64, 3, tile) for tile in (3, 5)),
    *wide([Layer(41, 256, 3, 4, stride=2), Layer(20, 512, 1, 1)]),
]


@pytest.mark.parametrize("layer", PREDICTED, ids=str)
def test_measured_errors_are_those_predicted(layer: Layer, tmp_path: Path) -> None:
    """To 20%, of all types: a mean over 9600 outputs scatters by 1%, and the model of roundings is good to
    10% (docs/guides/accuracy.md). It takes all taps of all parts for nonzero, but parts may be longer than
    the kernel.
    """
    image, filters = layer.numbers()
    report = tmp_path / "report.json"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = iree.winograd.compile(
            layer.text(filters), output_tile=layer.tile, threads=1, report=report
        )
    (decision,) = json.loads(report.read_text())["layers"]
    predicted = decision["candidates"][decision["chosen"]]["predicted_error"]
    if layer.result != "f32":
        predicted = hypot(predicted, rounding_error(str(TYPES[layer.result]).removeprefix("torch.")))
    result = torch.as_tensor(iree.winograd.load(compiled, device="local-sync")(image)).double().numpy()
    exact = convolution(image.double().numpy(), filters.double().numpy(), (layer.stride, layer.stride))
    measured = np.abs(result - exact).sum() / np.abs(exact).sum()
    assert 1 / 1.2 < measured / predicted < 1.2
