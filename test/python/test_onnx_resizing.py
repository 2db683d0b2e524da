"""ONNX's `Resize` of images whose sizes are known only at run time, against ONNX's reference."""

from __future__ import annotations

from pathlib import Path

import iree.winograd as winograd
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

FORMS = [
    ("nearest", "asymmetric", "floor", (1.5, 0.75)),
    ("nearest", "half_pixel", "round_prefer_floor", (0.3, 2.25)),
    ("nearest", "half_pixel", "ceil", None),
    ("nearest", "align_corners", "round_prefer_ceil", None),
    ("nearest", "pytorch_half_pixel", "floor", (2.0, 3.0)),
    ("linear", "asymmetric", "", (1.5, 0.75)),
    ("linear", "half_pixel", "", None),
    ("linear", "pytorch_half_pixel", "", (3.0, 1.25)),
    ("linear", "align_corners", "", None),
]
"""Modes, coordinates, roundings, and scales; without these an operand says the sizes."""
SIZES = [((5, 6), (9, 4)), ((1, 7), (3, 1)), ((13, 8), (1, 17)), ((4, 4), (4, 4)), ((10, 20), (20, 10))]
"""Those of the image, and those that it gets."""


def resizing() -> onnx.ModelProto:
    """A model of an image and of another one, whose size it gets where no scale says another."""
    nodes = [
        helper.make_node("Shape", ["image"], ["former"], end=2),
        helper.make_node("Shape", ["other"], ["latter"], start=2),
        helper.make_node("Concat", ["former", "latter"], ["sizes"], axis=0),
    ]
    results, constants = [], []
    for number, (mode, coordinates, rounding, scales) in enumerate(FORMS):
        attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if rounding:
            attributes["nearest_mode"] = rounding
        operands = ["image", "", "", "sizes"] if scales is None else ["image", "", f"scales {number}"]
        if scales is not None:
            constants.append(helper.make_tensor(operands[2], TensorProto.FLOAT, [4], [1, 1, *scales]))
        nodes.append(helper.make_node("Resize", operands, [f"result {number}"], **attributes))
        results.append(
            helper.make_tensor_value_info(f"result {number}", TensorProto.FLOAT, [1, 3, None, None])
        )
    images = [
        helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, "height", "width"]),
        helper.make_tensor_value_info("other", TensorProto.FLOAT, [1, 1, "rows", "columns"]),
    ]
    graph = helper.make_graph(nodes, "resizing", images, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.wide
def test_open_sizes_agree_with_the_reference(tmp_path: Path) -> None:
    model, path = resizing(), tmp_path / "resizing.onnx"
    onnx.save(model, path)
    compiled = winograd.compile(winograd.import_onnx(path), threads=1, strict=True)
    program, reference = winograd.load(compiled, device="local-sync"), ReferenceEvaluator(model)
    generator = np.random.default_rng(0)
    for size, other_size in SIZES:
        image = generator.standard_normal((1, 3, *size)).astype(np.float32)
        other = np.zeros((1, 1, *other_size), np.float32)
        expected = reference.run(None, {"image": image, "other": other})
        # A position is the result of four operations on numbers up to the image's size, in each dimension.
        bound = 2.0**-24 * (2 * 4 * 2 * max(*size, *other_size) + 8) * np.abs(image).max()
        for form, result, values in zip(FORMS, program(image, other), expected, strict=True):
            error = 0 if form[0] == "nearest" else bound
            np.testing.assert_allclose(np.asarray(result), values, atol=error, rtol=0, err_msg=str(form))


def test_other_forms_of_open_sizes_are_refused(tmp_path: Path) -> None:
    model, path = resizing(), tmp_path / "resizing.onnx"
    (mode,) = (each for each in model.graph.node[3].attribute if each.name == "mode")
    mode.s = b"cubic"
    onnx.save(model, path)
    with pytest.raises(winograd.ModelImportError, match="known only at run time in the mode 'cubic asym"):
        winograd.import_onnx(path)
