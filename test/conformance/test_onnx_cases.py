"""The cases that ONNX tests backends with: all that hold a convolution and that IREE compiles."""

from __future__ import annotations

import warnings
from math import prod

import iree.winograd
import numpy as np
import onnx
import pytest
from conformance import compile_rewritten, expect_stock_failure
from iree.compiler import ir
from iree.compiler.extras import onnx_importer
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.errors import CompilationError
from onnx.backend.test.case.node import collect_testcases

with warnings.catch_warnings():
    # Cases of other operators divide by zero when they are made.
    warnings.simplefilter("ignore", RuntimeWarning)
    CASES = {
        case.name: case
        for case in collect_testcases(None)
        if any("Conv" in node.op_type for node in case.model.graph.node)
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=() if name.startswith(("test_basic_conv", "test_conv_")) else pytest.mark.wide
        )
        for name in CASES
    ],
)
def test_case_agrees_if_iree_compiles_it(name: str) -> None:
    case = CASES[name]
    source = import_onnx(case.model, "main")
    try:
        compiled = compile_rewritten(source)
    except CompilationError:
        expect_stock_failure(lambda: iree.winograd.compile(source, target="cpu", enable_winograd=False))
        return
    if name.startswith(("test_basic_conv", "test_conv_", "test_convtranspose")):
        assert compiled.rewritten
    program = iree.winograd.load(compiled.program, device="local-sync")
    for arguments, expected in case.data_sets:
        results = program(*map(np.asarray, arguments))
        for actual, exact in zip(
            results if isinstance(results, tuple) else (results,), expected, strict=True
        ):
            # IREE's integers have no signs.
            result = actual.view(exact.dtype)
            np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance(*arguments[:2]))


def import_onnx(model: onnx.ModelProto, entry: str) -> str:
    model.graph.name = entry
    inferred = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model, data_prop=True))
    with ir.Context() as context:
        module = inferred.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(inferred.main_graph, module).import_all()
        module.verify()
        return module.get_asm()


def tolerance(image: np.ndarray, filters: np.ndarray) -> float:
    """Of sums in the arguments' type, on both sides: the expected results are rounded as well.

    These small convolutions are direct ones, and no case makes its errors more than twice as large after it.
    """
    if not np.issubdtype(image.dtype, np.floating):
        return 0.0
    # Per output: one of both channel dimensions of a filter is the reduction's.
    products = max(filters.shape[:2]) * prod(filters.shape[2:])
    largest_sum = products * float(np.abs(image).max() * np.abs(filters).max())
    return 4 * products * UNIT_ROUNDOFF[image.dtype.name] * largest_sum
