"""Networks that torch exports as ONNX files, against torch in double precision."""

from __future__ import annotations

import copy
import io
import warnings

import iree.winograd
import onnx
import pytest
import torch
from conformance import compile_rewritten

from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.network import Network
from benchmarks.zoo_report import ERROR_FACTOR, MIN_ERROR

NETWORKS = {name: BLOCKS[name] for name in ("transposed_decoder", "audio_stack")}


@pytest.mark.wide
@pytest.mark.parametrize("name", NETWORKS)
def test_network_agrees_with_torch(name: str) -> None:
    with torch.no_grad():
        model, image = NETWORKS[name].calibrated(), NETWORKS[name].input(2)
        expected = copy.deepcopy(model).double()(image.double())
        eager = relative_error(model(image), expected)
    compiled = compile_rewritten(iree.winograd.import_onnx(exported(model, NETWORKS[name])))
    assert compiled.rewritten
    program = iree.winograd.load(compiled.program, "local-sync")
    # Compiled once, for any batch.
    assert program.main.signature.inputs[0].shape[0] is None
    assert relative_error(program(image), expected) < max(MIN_ERROR, ERROR_FACTOR * eager)


def exported(model: torch.nn.Module, network: Network) -> onnx.ModelProto:
    """The model for any batch, as `torch.onnx` writes it."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Torch warns of its exporter that needs no further package, and of sizes that the model asks for.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (network.input(2),),
            file,
            dynamo=False,
            input_names=["image"],
            dynamic_axes={"image": {0: "batch"}},
        )
    return onnx.load_from_string(file.getvalue())


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result - expected).abs().max() / expected.abs().max())
