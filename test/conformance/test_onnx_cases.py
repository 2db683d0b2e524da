"""The cases that ONNX tests backends with: those with a convolution, and pooling, that IREE compiles."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from math import prod
from unittest.mock import patch

import iree.winograd
import numpy as np
import onnx
import pytest
from conformance import compile_rewritten, expect_stock_failure
from iree.compiler import ir
from iree.compiler.extras import onnx_importer
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.errors import WinogradError
from onnx.backend.test.case import node as operators
from onnx.backend.test.case.test_case import TestCase


def cases(kind: str) -> list[TestCase]:
    """Those of the modules that `kind` is in the names of.

    ONNX makes those of all operators unless kept from it, and of each module when it is imported.
    """
    with warnings.catch_warnings(), patch.object(operators, "import_recursive"):
        # Cases of other operators divide by zero when they are made.
        warnings.simplefilter("ignore", RuntimeWarning)
        for module in pkgutil.iter_modules(operators.__path__):
            if kind in module.name:
                import_module(f"{operators.__name__}.{module.name}")
        return operators.collect_testcases(None)


def of_convolutions() -> Iterator[TestCase]:
    """All of them, but some of the causal ones, which differ in one attribute."""
    made = [case for case in cases("conv") if has(case, "Conv")]
    yield from (case for case in made if "causal" not in case.name)
    yield from islice((case for case in made if "causal" in case.name), 1, None, 5)


def has(case: TestCase, kind: str) -> bool:
    return any(kind in node.op_type for node in case.model.graph.node)


CASES = {case.name: case for case in of_convolutions()}
REWRITTEN = ("test_basic_conv", "test_conv_", "test_convtranspose")
QUICK = ("test_basic_conv_with_padding", "test_conv_with_autopad_same")
# ONNX has numbers of this case with four digits.
FOUR_DIGITS = "test_averagepool_2d_ceil_last_window_starts_on_pad"


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.wide]


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in CASES])
def test_case_agrees_if_iree_compiles_it(name: str) -> None:
    check(CASES[name])


@pytest.mark.wide
def test_pooling_agrees_if_iree_compiles_it() -> None:
    """Every eighth case: neighbours differ in one attribute."""
    pooled = (case for case in cases("pool") if has(case, "Pool") and not has(case, "Conv"))
    for case in islice(pooled, 1, None, 8):
        check(case)


def check(case: TestCase) -> None:
    """Its results are those that ONNX has, or IREE alone doesn't compile it."""
    name = case.name
    try:
        compiled = compile_rewritten(iree.winograd.import_onnx(case.model))
    except WinogradError:
        expect_stock_failure(
            lambda: iree.winograd.compile(import_by_iree(case.model), target="cpu", enable_winograd=False)
        )
        return
    if name.startswith(REWRITTEN):
        assert compiled.rewritten
    program = iree.winograd.load(compiled.program, device="local-sync")
    graph = case.model.graph
    assert [each.name for each in program.main.signature.inputs] == [each.name for each in graph.input]
    assert [each.name for each in program.main.signature.outputs] == [each.name for each in graph.output]
    for arguments, expected in case.data_sets:
        results = program(*map(np.asarray, arguments))
        for actual, exact in zip(
            results if isinstance(results, tuple) else (results,), expected, strict=True
        ):
            # IREE's integers have no signs.
            result = actual.view(exact.dtype)
            digits = 1e-4 if name == FOUR_DIGITS else 0
            atol = tolerance(graph.node, *arguments[:2]) + digits
            np.testing.assert_allclose(result, exact, rtol=0, atol=atol, err_msg=name)


def import_by_iree(model: onnx.ModelProto) -> str:
    model.graph.name = "main"
    inferred = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model, data_prop=True))
    with ir.Context() as context:
        module = inferred.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(inferred.main_graph, module).import_all()
        module.verify()
        return module.get_asm()


def tolerance(nodes: list[onnx.NodeProto], image: np.ndarray, filters: np.ndarray | None = None) -> float:
    """Of sums in the arguments' type, on both sides: the expected results are rounded as well.

    These small convolutions are direct ones, and no case makes its errors more than twice as large after it.
    Windows that are pooled hold at most the whole image.
    """
    if not np.issubdtype(image.dtype, np.floating):
        return 0.0
    largest = float(np.abs(image).max(initial=0))
    if any("Pool" in node.op_type for node in nodes):
        products = prod(window(nodes[0], image))
        largest_sum = products * largest
    else:
        # Per output: one of both channel dimensions of a filter is the reduction's.
        products = max(filters.shape[:2]) * prod(filters.shape[2:])
        largest_sum = products * largest * float(np.abs(filters).max())
    return 4 * products * UNIT_ROUNDOFF[image.dtype.name] * largest_sum


def window(node: onnx.NodeProto, image: np.ndarray) -> tuple[int, ...]:
    sizes = [tuple(each.ints) for each in node.attribute if each.name == "kernel_shape"]
    return sizes[0] if sizes else image.shape[2:]
