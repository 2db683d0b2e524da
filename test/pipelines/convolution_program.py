"""One convolution as a program, compiled with a given algorithm, and its result in float64."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution

Array = npt.NDArray[Any]

NAMED_OPS = {1: "linalg.conv_1d_nwc_wcf", 2: "linalg.conv_2d_nhwc_hwcf", 3: "linalg.conv_3d_ndhwc_dhwcf"}
RELU_AND_BIAS = """
    %biased = arith.addf %accumulated, %bias_element : f32
    %finished = arith.maximumf %biased, %zero : f32
    linalg.yield %finished : f32"""


@dataclass(frozen=True)
class Program:
    """A padded convolution of N x size... x channels, then bias and ReLU, computed by F(m, p)."""

    size: tuple[int, ...]
    channels: int
    outputs: int
    kernel: tuple[int, ...]
    m: tuple[int, ...]
    p: tuple[int, ...]
    batch: int = 1
    strides: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    low: tuple[int, ...] | None = None
    high: tuple[int, ...] | None = None
    dynamic_batch: bool = False
    constant_filter: bool = True

    def __str__(self) -> str:
        parts = [f"F({'x'.join(map(str, self.m))},{'x'.join(map(str, self.p))})"]
        parts.append("x".join(map(str, (self.batch, *self.size, self.channels))))
        parts.append("x".join(map(str, (*self.kernel, self.channels, self.outputs))))
        for name in ("strides", "dilations", "low", "high"):
            values = getattr(self, name)
            if values is not None:
                parts.append(f"{name}={'x'.join(map(str, values))}")
        return "-".join(parts)

    @property
    def rank(self) -> int:
        return len(self.size)

    def per_dimension(self, name: str, default: int) -> tuple[int, ...]:
        values = getattr(self, name)
        return (default,) * self.rank if values is None else values

    @property
    def padded(self) -> tuple[int, ...]:
        low, high = self.per_dimension("low", 0), self.per_dimension("high", 0)
        return tuple(before + size + after for before, size, after in zip(low, self.size, high, strict=True))

    @property
    def output_size(self) -> tuple[int, ...]:
        strides, dilations = self.per_dimension("strides", 1), self.per_dimension("dilations", 1)
        return tuple(
            (size - dilation * (taps - 1) - 1) // stride + 1
            for size, taps, stride, dilation in zip(self.padded, self.kernel, strides, dilations, strict=True)
        )

    def text(self, filters: Array | None) -> str:
        """The program as MLIR; filters are an argument of it if they aren't given."""
        batch = "?" if self.dynamic_batch else str(self.batch)
        image = _tensor(batch, *self.size, self.channels)
        padded = _tensor(batch, *self.padded, self.channels)
        weights = _tensor(*self.kernel, self.channels, self.outputs)
        output = _tensor(batch, *self.output_size, self.outputs)
        bias = _tensor(self.outputs)
        loops = ", ".join(f"d{i}" for i in range(self.rank + 2))
        identity = f"affine_map<({loops}) -> ({loops})>"
        along_channels = f"affine_map<({loops}) -> (d{self.rank + 1})>"
        parallel = ", ".join(['"parallel"'] * (self.rank + 2))
        arguments = f"%image: {image}, %bias: {bias}" + (
            "" if filters is not None else f", %filter: {weights}"
        )
        constant = (
            "" if filters is None else f"%filter = arith.constant dense<{_hexadecimal(filters)}> : {weights}"
        )
        dynamic = "%batch" if self.dynamic_batch else ""
        attributes = (
            f"{{dilations = {_vector(self.per_dimension('dilations', 1))}, "
            f"strides = {_vector(self.per_dimension('strides', 1))}, winograd.algorithm = {{"
            f"output_tile = {_array(self.m)}, part_size = {_array(self.p)}}}}}"
        )
        low = _padding(self.per_dimension("low", 0))
        high = _padding(self.per_dimension("high", 0))
        pad_arguments = ", ".join(f"%pad_{i}: index" for i in range(self.rank + 2))
        return f"""
func.func @main({arguments}) -> {output} {{
  {constant}
  %first = arith.constant 0 : index
  %batch = tensor.dim %image, %first : {image}
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %image low{low} high{high} {{
  ^bb0({pad_arguments}):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %empty = tensor.empty({dynamic}) : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {output}) -> {output}
  %sums = {NAMED_OPS[self.rank]} {attributes}
    ins(%padded, %filter : {padded}, {weights}) outs(%zeros : {output}) -> {output}
  %result = linalg.generic {{
    indexing_maps = [{identity}, {along_channels}, {identity}], iterator_types = [{parallel}]
  }} ins(%sums, %bias : {output}, {bias}) outs(%empty : {output}) {{
  ^bb0(%accumulated: f32, %bias_element: f32, %unused: f32):{RELU_AND_BIAS}
  }} -> {output}
  return %result : {output}
}}
"""

    def check(self, flags: Sequence[str] = (), device: str = "local-sync", target: str = "cpu") -> None:
        """Compiles and runs the program; its error against float64 has to be within the a-priori bound."""
        generator = np.random.default_rng(0)
        image = generator.uniform(-1, 1, (self.batch, *self.size, self.channels)).astype(np.float32)
        filters = generator.uniform(-1, 1, (*self.kernel, self.channels, self.outputs)).astype(np.float32)
        bias = generator.uniform(-1, 1, self.outputs).astype(np.float32)
        text = self.text(filters if self.constant_filter else None)
        compiled = compile_rewritten(text, target, flags)
        arguments = (image, bias) if self.constant_filter else (image, bias, filters)
        result = np.asarray(iree.winograd.load(compiled, device=device)(*arguments))
        expected = self.expected(image, filters, bias)
        assert result.shape == expected.shape
        assert np.abs(result - expected).max() <= self.bound()
        assert np.abs(expected).max() > 2 * self.bound(), "the bound is too large to tell anything"

    def expected(self, image: Array, filters: Array, bias: Array) -> Array:
        exact = convolution(
            image.astype(np.float64),
            filters.astype(np.float64),
            self.strides,
            self.dilations,
            self.low,
            self.high,
        )
        return np.maximum(exact + bias, 0)

    def bound(self) -> float:
        """For data and filters within [-1, 1]; the epilogue rounds once more."""
        decomposition = decompose(
            self.kernel, self.m, strides=self.strides, dilations=self.dilations, part_size=self.p
        )
        convolution_bound = error_bound(self.m, self.p, self.channels, views=decomposition.view_count)
        largest = prod(self.kernel) * self.channels + 1
        return convolution_bound + 2 * largest * 2.0**-24


def compile_rewritten(text: str, target: str, flags: Sequence[str] = ()) -> Any:
    """The compiled program; raises RewriteWarning when it would run without our kernels and test nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return iree.winograd.compile(text, target=target, flags=flags)


def _tensor(*sizes: object) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def _vector(values: Sequence[int]) -> str:
    return f"dense<[{', '.join(map(str, values))}]> : tensor<{len(values)}xi64>"


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def _padding(values: Sequence[int]) -> str:
    return f"[0, {', '.join(map(str, values))}, 0]"


def _hexadecimal(array: Array) -> str:
    return f'"0x{array.astype("<f4").tobytes().hex().upper()}"'
