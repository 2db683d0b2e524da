"""Operators of ONNX's operator sets 7 to 12, which mean other things than today's, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import iree.winograd
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node

Array: TypeAlias = npt.NDArray[Any]

OPERATOR_SETS = (7, 9, 10, 12)
QUICK = (10,)
IMAGE = (1, 2, 4, 6)
RANDOM = np.random.default_rng(0)
FILTERS, BIAS = RANDOM.standard_normal((4, 2, 3, 3), np.float32), RANDOM.standard_normal(4, np.float32)
CHANNELS = {name: np.abs(RANDOM.standard_normal(2, np.float32)) + np.float32(0.1) for name in "smbv"}
# The longest sums are of the products of a filter, on both sides; results are below 32.
TOLERANCE = 4 * FILTERS[0].size * UNIT_ROUNDOFF["float32"] * 32


@dataclass(frozen=True)
class Case:
    """Nodes from `x` to `y`, and the constants that they read."""

    name: str
    nodes: list[NodeProto]
    constants: dict[str, Array] = field(default_factory=dict)


def cases(operator_set: int) -> Iterator[Case]:
    convolution = make_node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4)
    yield Case("Conv", [convolution], {"w": FILTERS, "b": BIAS})
    same = make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])
    yield Case("Conv, as much padding as it needs", [same], {"w": FILTERS})
    normalization = make_node("BatchNormalization", ["x", *"sbmv"], ["y"], epsilon=1e-2)
    yield Case("BatchNormalization", [normalization], CHANNELS)
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (None, 0, 1, 2, 3):
            attributes = {} if axis is None else {"axis": axis}
            yield Case(f"{operator} {axis}", [make_node(operator, ["x"], ["y"], **attributes)])
    yield from paddings(operator_set)
    yield from bounds(operator_set)
    yield from resizings(operator_set)


def paddings(operator_set: int) -> Iterator[Case]:
    for mode, pads in (
        ("constant", [0, 0, 1, 2, 0, 0, 0, 3]),
        ("reflect", [0, 0, 1, 2, 0, 0, 0, 3]),
        ("edge", [0, 0, 1, 2, 0, 0, 0, 3]),
        ("constant", [0, 0, -1, 2, 0, 0, 1, -1]),
        ("constant", [0, 0, -1, -2, 0, 0, -1, 0]),
    ):
        name = f"Pad {mode} {pads}"
        if operator_set < 11:
            yield Case(name, [make_node("Pad", ["x"], ["y"], pads=pads, mode=mode)])
        else:
            yield Case(name, [make_node("Pad", ["x", "p"], ["y"], mode=mode)], {"p": np.array(pads)})


def bounds(operator_set: int) -> Iterator[Case]:
    low, high = np.float32(-0.5), np.float32(0.7)
    if operator_set < 11:
        yield Case("Clip", [make_node("Clip", ["x"], ["y"], min=float(low), max=float(high))])
        yield Case("Clip above", [make_node("Clip", ["x"], ["y"], max=float(high))])
    else:
        yield Case("Clip", [make_node("Clip", ["x", "l", "h"], ["y"])], {"l": low, "h": high})
        yield Case("Clip above", [make_node("Clip", ["x", "", "h"], ["y"])], {"h": high})
    starts, ends, axes = [1, -4], [3, -1], [2, 3]
    if operator_set < 10:
        yield Case("Slice", [make_node("Slice", ["x"], ["y"], starts=starts, ends=ends, axes=axes)])
    else:
        constants = {"s": np.array(starts), "e": np.array(ends), "a": np.array(axes)}
        yield Case("Slice", [make_node("Slice", ["x", *"sea"], ["y"])], constants)


def resizings(operator_set: int) -> Iterator[Case]:
    growing = ((1, 1, 2, 2), (1, 1, 2, 3), (1, 1, 1.5, 1.5))
    factors = growing if operator_set < 10 else (*growing, (1, 1, 0.5, 0.5), (1, 1, 1.5, 0.5))
    for mode in ("nearest", "linear"):
        for scales in factors:
            constants = {"s": np.array(scales, np.float32)}
            if operator_set < 9:
                node = make_node("Upsample", ["x"], ["y"], mode=mode, scales=[float(s) for s in scales])
                constants = {}
            elif operator_set < 11:
                node = make_node("Upsample" if operator_set == 9 else "Resize", ["x", "s"], ["y"], mode=mode)
            else:
                node = make_node("Resize", ["x", "r", "s"], ["y"], mode=mode)
                constants["r"] = np.zeros(0, np.float32)
            yield Case(f"{node.op_type} {mode} {scales}", [node], constants)


@pytest.mark.parametrize(
    "operator_set",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.wide) for each in OPERATOR_SETS],
)
def test_operators_agree_with_onnxruntime(operator_set: int) -> None:
    # One program of all cases: each compiles in a fraction of the time that one of its own takes.
    model, names = joined(list(cases(operator_set)), operator_set)
    image = np.random.default_rng(1).standard_normal(IMAGE, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": image})
    program = iree.winograd.compile(iree.winograd.import_onnx(model), target="cpu", threads=1)
    results = iree.winograd.load(program, "local-sync")(image)
    for name, actual, exact in zip(names, results, expected, strict=True):
        np.testing.assert_allclose(actual, exact, rtol=0, atol=TOLERANCE, err_msg=name)


def joined(found: list[Case], operator_set: int) -> tuple[onnx.ModelProto, list[str]]:
    """A model with the result of each case, and the names of the cases."""
    nodes, constants, outputs = [], [], []
    for number, case in enumerate(found):
        renamed = {name: f"{name}{number}" for name in (*case.constants, "y")}
        for node in case.nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
            nodes.append(node)
        for name, elements in case.constants.items():
            constants.append(numpy_helper.from_array(np.asarray(elements), renamed[name]))
        outputs.append(helper.make_empty_tensor_value_info(f"y{number}"))
        outputs[-1].type.tensor_type.elem_type = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, IMAGE)]
    # Constants are inputs, too, in the first versions of the format.
    inputs += [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in constants]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, constants)
    opset = [helper.make_opsetid("", operator_set)]
    return helper.make_model(graph, opset_imports=opset, ir_version=3), [case.name for case in found]
