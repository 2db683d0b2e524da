"""What the page on limitations says is so."""

from __future__ import annotations

from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from iree.winograd.compiling.diagnostics import capture_remarks
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "limitations.md").read_text()


def program(
    element: str = "f32",
    result: str | None = None,
    batch: str = "1",
    rows: str = "14",
    output_rows: str = "12",
    filter_channels: int = 8,
) -> str:
    """A 3x3 convolution of `batch` x `rows` x 14 x 8 to 16 channels."""
    image, filters = f"tensor<{batch}x{rows}x14x8x{element}>", f"tensor<3x3x{filter_channels}x16x{element}>"
    output = f"tensor<{batch}x{output_rows}x12x16x{result or element}>"
    return f"""
func.func @main(%image: {image}, %filter: {filters}, %init: {output}) -> {output} {{
  %result = linalg.conv_2d_nhwc_hwcf
    {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
    ins(%image, %filter : {image}, {filters}) outs(%init : {output}) -> {output}
  return %result : {output}
}}
"""


def product(element: str = "f32", rows: str = "4") -> str:
    """Of `rows` and a matrix that is an argument."""
    image, matrix = f"tensor<{rows}x8x{element}>", f"tensor<8x16x{element}>"
    output = f"tensor<{rows}x16x{element}>"
    return f"""
func.func @main(%image: {image}, %matrix: {matrix}, %empty: {output}) -> {output} {{
  %zero = arith.constant 0.0 : {element}
  %init = linalg.fill ins(%zero : {element}) outs(%empty : {output}) -> {output}
  %result = linalg.matmul ins(%image, %matrix : {image}, {matrix}) outs(%init : {output}) -> {output}
  return %result : {output}
}}
"""


def remarks(text: str) -> list[str]:
    """What selection says of the layers in `text`."""
    found: list[Diagnostic] = []
    with ir.Context() as context:
        capture_remarks(context, found.append)
        SelectAlgorithm().run(ir.Module.parse(text).operation)
        context.finalize_remarks()
    return [remark.message for remark in found]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (program("i32"), "its body is not a multiplication and an addition"),
        (program("i8", "i32"), "its operands have different element types"),
        (program(rows="?", output_rows="?"), "its output isn't known to be as large as its input allows"),
        (program(batch="0"), "its input has no elements"),
        (
            program(output_rows="11"),
            "its output (11, 12) is smaller than the (12, 12) that its input allows",
        ),
        (program(batch="?", filter_channels=7), "its operands have 7 and 8 input channels"),
        (product("f16"), "it has elements of type f16, not f32"),
        (product(rows="?"), "its sizes are known only at run time"),
        (product(), "its matrix is known only when running it"),
    ],
)
def test_what_is_left_says_why(text: str, reason: str) -> None:
    (remark,) = remarks(text)
    assert reason in remark
    assert f"`{reason}`" in " ".join(PAGE.split())


def test_a_batch_known_only_at_run_time_is_rewritten() -> None:
    assert remarks(program(batch="?")) == []


def test_numbers_below_the_normal_ones_are_zero() -> None:
    image, filters = np.full((1, 14, 14, 8), 1e-40, np.float32), np.ones((3, 3, 8, 16), np.float32)
    init = np.zeros((1, 12, 12, 16), np.float32)
    for enable_winograd in (True, False):
        compiled = iree.winograd.compile(program(), enable_winograd=enable_winograd)
        assert not np.asarray(iree.winograd.load(compiled, device="local-sync")(image, filters, init)).any()
    assert "numbers below 1.2e-38" in PAGE


def test_a_nan_stays_in_its_tile() -> None:
    image = np.zeros((1, 14, 14, 8), np.float32)
    image[0, 6, 6, 0] = np.nan
    filters = np.ones((3, 3, 8, 16), np.float32)
    init = np.zeros((1, 12, 12, 16), np.float32)
    direct, winograd = (
        np.isnan(np.asarray(iree.winograd.load(compiled, device="local-sync")(image, filters, init)))
        for compiled in (iree.winograd.compile(program(), output_tile=tile) for tile in (1, 4))
    )
    assert direct[0, 4:7, 4:7].all() and direct.sum() == 9 * 16
    # The outputs that read it lie in the second of three tiles.
    assert winograd[0, 4:8, 4:8].all() and winograd.sum() == 16 * 16
