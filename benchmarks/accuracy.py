"""Measures the rounding errors of compiled layers against float64, beside other tools and predictions.

    python -m benchmarks.accuracy --output benchmarks/results/accuracy.json

Errors are those of convolutions without padding, bias or activation, in single precision: the sum of all
absolute errors over the sum of all magnitudes, and the largest error over the largest magnitude. A Markdown
table follows the measurements.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.numerics import predicted_error
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from benchmarks.compiled import bind_program, compile_ours, compile_plain
from benchmarks.convolutions import Array

Distribution = Literal["normal", "uniform"]

DISTRIBUTIONS: tuple[Distribution, ...] = ("normal", "uniform")
ALGORITHMS = {3: ((2, 3), (3, 3), (4, 3), (5, 3), (6, 3)), 5: ((2, 5), (4, 5), (2, 3), (4, 3), (6, 3))}
"""Output tile and part size of the algorithms, by kernel size: parts shorter than the kernel decompose it."""
OUTPUT_SIZE = 28
OUTPUT_CHANNELS = 64
DIRECT = ("torch-nchw", "torch-nhwc", "iree", "onnxruntime", "openvino")


@dataclass(frozen=True)
class Layer:
    """A convolution of one image, `taps` x `taps`, to 28 x 28 outputs of 64 channels."""

    taps: int
    channels: int
    distribution: Distribution

    @property
    def name(self) -> str:
        return f"{self.taps}x{self.taps}, {self.channels} channels, {self.distribution}"

    @property
    def size(self) -> int:
        return OUTPUT_SIZE + self.taps - 1

    def operands(self, seed: int = 0) -> tuple[Array, Array]:
        """Image 1 x H x W x C and filter R x S x C x K, normal or uniform in (-1, 1)."""
        random = np.random.default_rng(seed)
        shapes = (
            (1, self.size, self.size, self.channels),
            (self.taps, self.taps, self.channels, OUTPUT_CHANNELS),
        )
        image, filters = (
            random.standard_normal(shape, np.float32)
            if self.distribution == "normal"
            else random.uniform(-1, 1, shape).astype(np.float32)
            for shape in shapes
        )
        return image, filters


@dataclass(frozen=True)
class Error:
    """Relative to float64: |error|_1 / |exact|_1 and max |error| / max |exact|."""

    relative: float
    maximum: float


def main() -> None:
    options = _parse_arguments()
    # Read by OpenMP when torch is loaded.
    os.environ["OMP_NUM_THREADS"] = "1"
    records = []
    for taps in options.taps:
        for channels in options.channels:
            for distribution in DISTRIBUTIONS:
                records.append(measure(Layer(taps, channels, distribution)))
                print(records[-1]["layer"], file=sys.stderr, flush=True)
    if options.output is not None:
        report = {"machine": platform.processor() or platform.machine(), "accuracy": records}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    print("\n".join(accuracy_table(records)))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--taps", nargs="+", type=int, choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--channels", nargs="+", type=int, default=[64, 128, 256, 512])
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/accuracy.json")
    return parser.parse_args()


def measure(layer: Layer) -> dict[str, Any]:
    """The errors of every direct convolution and, with their predictions, of every algorithm of ours."""
    image, filters = layer.operands()
    exact = convolution(image.astype(np.float64), filters.astype(np.float64))
    direct: dict[str, Callable[[], Array]] = {
        "torch-nchw": lambda: _torch(image, filters, channels_last=False),
        "torch-nhwc": lambda: _torch(image, filters, channels_last=True),
        "iree": lambda: _run(compile_plain(convolution_program(image, filters)), image),
        "onnxruntime": lambda: _onnxruntime(image, filters),
        "openvino": lambda: _openvino(image, filters),
    }
    winograd = []
    for output_tile, part_size in ALGORITHMS[layer.taps]:
        error = winograd_error(image, filters, exact, output_tile, part_size)
        predicted = predicted_layer_error(layer, output_tile, part_size)
        winograd.append(
            {
                "output_tile": output_tile,
                "part_size": part_size,
                **asdict(error),
                "predicted": predicted,
                "predicted_by_measured": predicted / error.relative,
            }
        )
    return {
        "layer": layer.name,
        **asdict(layer),
        "direct": {name: asdict(error_of(output(), exact)) for name, output in direct.items()},
        "winograd": winograd,
    }


def winograd_error(
    image: Array, filters: Array, exact: npt.NDArray[np.float64], output_tile: int, part_size: int
) -> Error:
    """The error of F(output_tile, part_size), compiled for this machine.

    Raises CompilationError where the layer would have been compiled without our kernels.
    """
    program = compile_ours(convolution_program(image, filters, (output_tile, part_size)))
    return error_of(_run(program, image), exact)


def predicted_layer_error(layer: Layer, output_tile: int, part_size: int) -> float:
    """`predicted_error` of the sums that the kernel for AVX-512 takes."""
    both = (output_tile, output_tile), (part_size, part_size)
    decomposition = decompose((layer.taps, layer.taps), both[0], part_size=both[1])
    problem = ConvolutionProblem(
        batch=1,
        input_size=(layer.size, layer.size),
        padding_low=(0, 0),
        padding_high=(0, 0),
        kernel_size=(layer.taps, layer.taps),
        strides=(1, 1),
        dilations=(1, 1),
        groups=1,
        input_channels=layer.channels,
        output_channels=OUTPUT_CHANNELS,
    )
    shape = ConvolutionShape.decomposed(problem, decomposition)
    schedule = CpuBackend(CpuTarget.of("znver5", "+avx512f")).search_space().default_schedule(shape)
    assert isinstance(schedule, WinogradSchedule)
    return predicted_error(
        *both,
        layer.channels,
        views=len(decomposition.views),
        reduction_block=schedule.summed_block,
    )


def error_of(output: Array, exact: npt.NDArray[np.float64]) -> Error:
    """The error of an output; raises ValueError if it has another shape than `exact`."""
    if output.shape != exact.shape:
        raise ValueError(f"shapes differ: {output.shape} and {exact.shape}")
    error = np.abs(output - exact)
    return Error(float(error.sum() / np.abs(exact).sum()), float(error.max() / np.abs(exact).max()))


def convolution_program(image: Array, filters: Array, algorithm: tuple[int, int] | None = None) -> str:
    """The convolution as MLIR, annotated with the output tile and part size if they are given."""
    size, (taps, _, channels, outputs) = image.shape[1], filters.shape
    extent = size - taps + 1
    annotation = ""
    if algorithm is not None:
        tile, part = algorithm
        annotation = (
            f"{{winograd.algorithm = {{output_tile = array<i64: {tile}, {tile}>, "
            f"part_size = array<i64: {part}, {part}>}}}}"
        )
    image_type = f"tensor<1x{size}x{size}x{channels}xf32>"
    filter_type = f"tensor<{taps}x{taps}x{channels}x{outputs}xf32>"
    output_type = f"tensor<1x{extent}x{extent}x{outputs}xf32>"
    values = (4).to_bytes(4, "little").hex() + filters.tobytes().hex()
    return f"""
func.func @main(%image: {image_type}) -> {output_type} {{
  %filter = arith.constant dense_resource<filter> : {filter_type}
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {output_type}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output_type}) -> {output_type}
  %result = linalg.conv_2d_nhwc_hwcf {annotation} ins(%image, %filter : {image_type}, {filter_type})
    outs(%zeros : {output_type}) -> {output_type}
  return %result : {output_type}
}}
{{-# dialect_resources: {{ builtin: {{ filter: "0x{values}" }} }} #-}}
"""


def accuracy_table(records: Sequence[dict[str, Any]]) -> list[str]:
    """A row per layer and algorithm, direct convolutions first; errors also over channels-last torch's."""
    lines = [
        "| layer | algorithm | relative | maximum | of torch-nhwc | maximum | predicted / measured |",
        "|" + " --- |" * 7,
    ]
    for record in records:
        one_sum = record["direct"]["torch-nhwc"]
        rows = [(f"direct: {name}", errors, "") for name, errors in record["direct"].items()]
        rows += [
            (f"F({each['output_tile']}, {each['part_size']})", each, f"{each['predicted_by_measured']:.2f}")
            for each in record["winograd"]
        ]
        for name, errors, prediction in rows:
            cells = [record["layer"], name]
            cells += [f"{errors[kind]:.2e}" for kind in ("relative", "maximum")]
            cells += [f"{errors[kind] / one_sum[kind]:.2f}" for kind in ("relative", "maximum")]
            lines.append(f"| {' | '.join([*cells, prediction])} |")
    return lines


def _run(program: bytes, image: Array) -> Array:
    _, results = bind_program(program, image, threads=1)
    return results()[0]


def _torch(image: Array, filters: Array, channels_last: bool) -> Array:
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    pixels, weights = (
        torch.from_numpy(each).contiguous(memory_format=layout) for each in (_nchw(image), _fchw(filters))
    )
    with torch.inference_mode():
        return np.asarray(torch.conv2d(pixels, weights).permute(0, 2, 3, 1), np.float32)


def _onnxruntime(image: Array, filters: Array) -> Array:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "filter"], ["result"])],
        "layer",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, _nchw(image).shape)],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(_fchw(filters), "filter")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"image": _nchw(image)})
    return _nhwc(result)


def _openvino(image: Array, filters: Array) -> Array:
    import openvino
    from openvino import opset13 as ops

    parameter = ops.parameter(list(_nchw(image).shape), np.float32)
    convolved = ops.convolution(parameter, ops.constant(_fchw(filters)), [1, 1], [0, 0], [0, 0], [1, 1])
    model = openvino.Core().compile_model(
        openvino.Model([convolved], [parameter]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    return _nhwc(model([_nchw(image)])[0])


def _nchw(image: Array) -> Array:
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2))


def _nhwc(result: npt.ArrayLike) -> Array:
    return np.ascontiguousarray(np.asarray(result, np.float32).transpose(0, 2, 3, 1))


def _fchw(filters: Array) -> Array:
    return np.ascontiguousarray(filters.transpose(3, 2, 0, 1))


if __name__ == "__main__":
    main()
