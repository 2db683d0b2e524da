"""Kinds of networks that torch exports as ONNX files, against torch in double precision."""

from __future__ import annotations

import copy
import io
import warnings

import iree.winograd
import onnx
import pytest
import torch
from onnx_exports import EXPORTS
from wide import wide_combinations

from benchmarks.zoo_report import ERROR_FACTOR, MIN_ERROR

QUICK = ("super-resolution by 2", "self-attention")
OTHERS = [name for name in EXPORTS if name not in QUICK]
# These by both exporters, a few of the rest by the newer one, which takes longer than compiling what it
# writes: layers have the same forms in all networks.
BY_THE_NEWER = ("windows", "segmenter", "LSTM")
CASES = [
    (QUICK[0], False),
    *wide_combinations([(QUICK[0], True), (QUICK[1], False)]),
    *(pytest.param(name, name in BY_THE_NEWER, marks=pytest.mark.wide) for name in OTHERS),
]


@pytest.mark.parametrize(("name", "dynamo"), CASES)
def test_network_agrees_with_torch(name: str, dynamo: bool) -> None:
    torch.manual_seed(0)
    model, image = EXPORTS[name].make().eval(), torch.randn(EXPORTS[name].shape)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(image.double())
        eager = relative_error(model(image), expected)
    program = iree.winograd.compile(
        iree.winograd.import_onnx(exported(model, image, EXPORTS[name].any_batch, dynamo)),
        target="cpu",
        threads=1,
    )
    result = iree.winograd.load(program, "local-sync")(image)
    assert result.shape == expected.shape
    assert relative_error(result, expected) < max(MIN_ERROR, ERROR_FACTOR * eager)


def exported(model: torch.nn.Module, image: torch.Tensor, any_batch: bool, dynamo: bool) -> onnx.ModelProto:
    """The model as one of the exporters of `torch.onnx` writes it."""
    file = io.BytesIO()
    fast_path = torch.backends.mha.get_fastpath_enabled()
    # Its operators are torch's own, which have no form in ONNX.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings():
            # Torch warns of its older exporter, and of sizes that the model asks for.
            warnings.simplefilter("ignore")
            if dynamo:
                shapes = ({0: torch.export.Dim("batch")} if any_batch else None,)
                torch.onnx.export(model, (image,), dynamo=True, verbose=False, dynamic_shapes=shapes).save(
                    file
                )
            else:
                axes = {"image": {0: "batch"}} if any_batch else None
                torch.onnx.export(
                    model, (image,), file, dynamo=False, input_names=["image"], dynamic_axes=axes
                )
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    return onnx.load_from_string(file.getvalue())


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result - expected).abs().max() / expected.abs().max())
