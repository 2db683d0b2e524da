"""Layer normalization of rows, whose lengths are no multiples of vectors, too."""

from __future__ import annotations

from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import onnx
import pytest
import torch
from iree.winograd.compiling.program import compile
from wide import lesser, wide_combinations

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
FLOAT = onnx.TensorProto.FLOAT


def layer_norm(length: int, affine: bool) -> torch.nn.LayerNorm:
    layer = torch.nn.LayerNorm(length, elementwise_affine=affine).eval()
    if affine:
        generator = torch.Generator().manual_seed(length)
        torch.nn.init.normal_(layer.weight, generator=generator)
        torch.nn.init.normal_(layer.bias, generator=generator)
    return layer


def exact(layer: torch.nn.LayerNorm, x: Array) -> tuple[Exact, Exact]:
    """The result in float64, and a bound of the error of one in float32 with sums in any order."""
    u, length = UNIT_ROUNDOFF, x.shape[-1]
    scale, shift = (
        np.float64(0) + constant if parameter is None else parameter.detach().double().numpy()
        for parameter, constant in ((layer.weight, 1.0), (layer.bias, 0.0))
    )
    x64 = x.astype(np.float64)
    centred = x64 - x64.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True) + layer.eps
    normal = centred / np.sqrt(variance)
    # Of the mean: as many roundings as there are terms, and that of the quotient.
    of_mean = length * u * np.abs(x64).mean(-1, keepdims=True)
    # A shift of the mean adds its square to the variance, since differences sum to zero. Each square has two
    # roundings of the difference and one of its own; then come the sum, the quotient, and epsilon, rounded
    # and added.
    of_variance = (length + 5) * u + of_mean**2 / variance
    # Half of that for the inverse root, and its two roundings; of the difference one, of the product one.
    relative = of_variance / 2 + 4 * u
    bound = np.abs(scale) * (of_mean / np.sqrt(variance) + np.abs(normal) * relative)
    result = normal * scale + shift
    return result, 1.01 * (bound + u * (np.abs(normal * scale) + np.abs(result)))


def expect_exact(layer: torch.nn.LayerNorm, x: Array, result: Array) -> None:
    expected, bound = exact(layer, x)
    assert (np.abs(result - expected) <= bound).all()


@pytest.mark.parametrize(
    ("target", "shape", "affine"),
    [
        ("cpu", (2, 40, 49), True),
        *wide_combinations(
            [("cpu", (3, 16), True), ("cpu", (2, 3, 5, 197), False), ("cpu", (1, 3, 1000), True)]
        ),
        *lesser([("cpu:haswell", (2, 40, 49), True), ("cpu:x86-64", (2, 40, 49), True)]),
    ],
)
def test_layer_normalization_of_rows(target: str, shape: tuple[int, ...], affine: bool) -> None:
    layer = layer_norm(shape[-1], affine)
    # The mean is larger than the deviation: a difference of sums of squares would cancel.
    x = np.random.default_rng(0).uniform(95, 105, shape).astype(np.float32)
    imported = iree.winograd.import_torch(layer, torch.from_numpy(x))
    compiled = compile(imported, target=target, threads=2, strict=True)
    assert b"winograd_layer_norm" in compiled
    expect_exact(layer, x, np.asarray(iree.winograd.load(compiled, threads=2)(x)))


def test_onnx_operator(tmp_path: Path) -> None:
    """Its means and roots have as many dimensions as rows have, and are spread over them."""
    layer = layer_norm(21, affine=True)
    x = np.random.default_rng(0).normal(size=(2, 5, 21)).astype(np.float32)
    image, result = (onnx.helper.make_tensor_value_info(name, FLOAT, x.shape) for name in "xy")
    parameters = [
        onnx.numpy_helper.from_array(each.detach().numpy(), name) for name, each in layer.named_parameters()
    ]
    node = onnx.helper.make_node("LayerNormalization", ["x", "weight", "bias"], ["y"], epsilon=layer.eps)
    graph = onnx.helper.make_graph([node], "main", [image], [result], parameters)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    imported = iree.winograd.import_onnx(tmp_path / "model.onnx")
    compiled = compile(imported, target="cpu", threads=1, strict=True)
    assert b"winograd_layer_norm" in compiled
    expect_exact(layer, x, np.asarray(iree.winograd.load(compiled, threads=1)(x)))


def test_a_batch_known_at_run_time() -> None:
    layer = layer_norm(21, affine=True)
    imported = iree.winograd.import_torch(layer, torch.zeros(2, 3, 21), dynamic_batch=True)
    compiled = compile(imported, target="cpu", threads=1, strict=True)
    assert b"winograd_layer_norm" in compiled
    loaded = iree.winograd.load(compiled, threads=1)
    for batch in (2, 5):
        x = np.random.default_rng(batch).normal(size=(batch, 3, 21)).astype(np.float32)
        expect_exact(layer, x, np.asarray(loaded(x)))


def test_pixels_of_images_of_any_size() -> None:
    layer = layer_norm(21, affine=True)
    sizes = {dimension: torch.export.Dim(f"size_{dimension}") for dimension in (1, 2)}
    exported = torch.export.export(layer, (torch.zeros(1, 5, 6, 21),), dynamic_shapes=(sizes,))
    compiled = compile(iree.winograd.import_torch(exported), target="cpu", threads=2, strict=True)
    assert b"winograd_layer_norm" in compiled
    loaded = iree.winograd.load(compiled, threads=2)
    for shape in ((1, 1, 21), (31, 53, 21), (7, 2, 21)):
        x = np.random.default_rng(0).normal(size=(1, *shape)).astype(np.float32)
        expect_exact(layer, x, np.asarray(loaded(x)))


def test_numbers_that_are_not_finite() -> None:
    """A NaN or an infinity leaves other rows as they are; rows of one number are the shift."""
    layer = layer_norm(20, affine=True)
    x = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    x[0, 19], x[1, 3], x[2] = np.nan, np.inf, 3.0
    compiled = compile(
        iree.winograd.import_torch(layer, torch.zeros(4, 20)), target="cpu", threads=1, strict=True
    )
    result = np.asarray(iree.winograd.load(compiled, threads=1)(x))
    assert np.isnan(result[:2]).all()
    expect_exact(layer, x[2:], result[2:])
