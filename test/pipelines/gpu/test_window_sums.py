"""Average pooling by a kernel on Vulkan, against float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from checked_programs import compile_rewritten
from iree import winograd
from iree.winograd.pipelines.gpu.kernels.images import windows
from wide import sampled

Array = npt.NDArray[np.float32]
Exact = npt.NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-24
_NAMES = {1: "nwc", 2: "nhwc", 3: "ndhwc"}
_CHANNELS_FIRST = (0, 3, 1, 2)


@dataclass(frozen=True)
class Average:
    """Of windows of 2 x `size` x `channels`, zeros around it."""

    size: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    channels: int = 8
    counts: bool = False
    """Whether sums are divided by the number of elements of the image, and channels come first then."""
    dynamic: bool = False
    """Whether the number of images is known only at run time."""

    @property
    def padded(self) -> list[int]:
        return [sum(sizes) for sizes in zip(self.size, self.low, self.high, strict=True)]

    @property
    def outputs(self) -> list[int]:
        sizes = zip(self.padded, self.window, self.strides, strict=True)
        return [(whole - part) // stride + 1 for whole, part, stride in sizes]

    @property
    def text(self) -> str:
        batch, size = ("?", "%n") if self.dynamic else ("2", "")
        rank = len(self.size)
        image, padded, sums = (
            f"tensor<{batch}x{'x'.join(map(str, sizes))}x{self.channels}xf32>"
            for sizes in (self.size, self.padded, self.outputs)
        )
        low, high = (", ".join(map(str, (0, *amounts, 0))) for amounts in (self.low, self.high))
        window = f"tensor<{'x'.join(map(str, self.window))}xf32>"
        arguments = ", ".join(f"%i{number}: index" for number in range(rank + 2))
        finished, computed = (self._counted if self.counts else self._scaled)(sums)
        return f"""
func.func @main(%x: {image}) -> {finished} {{
  %first = arith.constant 0 : index
  %n = tensor.dim %x, %first : {image}
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[{low}] high[{high}] {{
  ^bb0({arguments}):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %window = tensor.empty() : {window}
  %empty = tensor.empty({size}) : {sums}
  %init = linalg.fill ins(%zero : f32) outs(%empty : {sums}) -> {sums}
  %s = linalg.pooling_{_NAMES[rank]}_sum {{
    dilations = dense<1> : tensor<{rank}xi64>, strides = dense<{list(self.strides)}> : tensor<{rank}xi64>
  }} ins(%p, %window : {padded}, {window}) outs(%init : {sums}) -> {sums}
{computed}
  return %r : {finished}
}}
"""

    def _scaled(self, sums: str) -> tuple[str, str]:
        """A quotient by the number of a window's elements, with the type of the result."""
        loops = ", ".join(f"d{number}" for number in range(len(self.size) + 2))
        same, parallel = f"affine_map<({loops}) -> ({loops})>", ["parallel"] * (len(self.size) + 2)
        kinds = ", ".join(f'"{kind}"' for kind in parallel)
        return (
            sums,
            f"""
  %r = linalg.generic {{indexing_maps = [{same}, {same}], iterator_types = [{kinds}]}}
      ins(%s : {sums}) outs(%empty : {sums}) {{
  ^bb0(%sum: f32, %out: f32):
    %elements = arith.constant {float(np.prod(self.window))} : f32
    %mean = arith.divf %sum, %elements : f32
    linalg.yield %mean : f32
  }} -> {sums}""",
        )

    def _counted(self, sums: str) -> tuple[str, str]:
        """A quotient as torch-mlir has it of a window's elements inside of the image, transposed."""
        finished = f"tensor<2x{self.channels}x{'x'.join(map(str, self.outputs))}xf32>"
        last, first = "(d0, d2, d3, d1)", "(d0, d1, d2, d3)"
        counts = "\n".join(self._count(dimension) for dimension in range(2))
        return (
            finished,
            f"""
  %zeros = arith.constant 0 : i64
  %result = tensor.empty() : {finished}
  %r = linalg.generic {{
    indexing_maps = [affine_map<{first} -> {last}>, affine_map<{first} -> {first}>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel"]
  }} ins(%s : {sums}) outs(%result : {finished}) {{
  ^bb0(%sum: f32, %out: f32):
    {counts}
    %count = arith.muli %count0, %count1 : i64
    %elements = arith.sitofp %count : i64 to f32
    %mean = arith.divf %sum, %elements : f32
    linalg.yield %mean : f32
  }} -> {finished}""",
        )

    def _count(self, dimension: int) -> str:
        d, sizes = dimension, (self.strides, self.low, self.window, self.size)
        stride, low, window, size = (each[dimension] for each in sizes)
        return f"""
    %index{d} = linalg.index {d + 2} : index
    %window{d} = arith.index_cast %index{d} : index to i64
    %stride{d} = arith.constant {stride} : i64
    %low{d} = arith.constant {low} : i64
    %elements{d} = arith.constant {window} : i64
    %size{d} = arith.constant {size} : i64
    %first{d} = arith.muli %window{d}, %stride{d} : i64
    %begin{d} = arith.subi %first{d}, %low{d} : i64
    %behind{d} = arith.addi %begin{d}, %elements{d} : i64
    %end{d} = arith.minsi %behind{d}, %size{d} : i64
    %inside{d} = arith.maxsi %begin{d}, %zeros : i64
    %count{d} = arith.subi %end{d}, %inside{d} : i64"""

    def averaged(self, image: Array) -> tuple[Exact, Exact]:
        """In float64, and the bound of the error in float32."""
        sums, inside = (self._summed(each) for each in (image.astype(np.float64), np.ones_like(image)))
        magnitudes = self._summed(np.abs(image.astype(np.float64)))
        elements = inside if self.counts else np.prod(self.window)
        # A sum of n numbers has n roundings, with the zero that it begins with. Vulkan's quotient is within
        # 2.5 units of the last place, two roundings each; a factor in its place within one and a half.
        roundings = float(np.prod(self.window)) + 5
        order = _CHANNELS_FIRST if self.counts else range(image.ndim)
        bound = 1.01 * UNIT_ROUNDOFF * roundings * magnitudes / elements
        return (sums / elements).transpose(order), bound.transpose(order)

    def _summed(self, image: npt.NDArray[np.floating]) -> Exact:
        pads = [(0, 0), *zip(self.low, self.high, strict=True), (0, 0)]
        padded = np.pad(image.astype(np.float64), pads)
        total = np.zeros((image.shape[0], *self.outputs, self.channels))
        for element in product(*map(range, self.window)):
            steps = (
                slice(begin, begin + (count - 1) * stride + 1, stride)
                for begin, count, stride in zip(element, self.outputs, self.strides, strict=True)
            )
            total += padded[(slice(None), *steps)]
        return total


INCEPTION = Average((9, 11), (3, 3), (1, 1), (1, 1), (1, 1))
AVERAGES = [
    INCEPTION,
    replace(INCEPTION, counts=True, channels=6),
    Average((8, 10), (2, 2), (2, 2), (0, 0), (0, 0), dynamic=True),
    Average((7, 12), (3, 2), (2, 3), (0, 1), (2, 1), counts=True),
    # Rows of windows are a loop; columns that a window leaves out; a row that a thread has alone.
    Average((12, 12), (8, 5), (1, 1), (3, 2), (4, 2), channels=12),
    Average((9, 25), (2, 9), (3, 10), (0, 3), (0, 2)),
    Average((13,), (5,), (1,), (2,), (2,)),
    Average((4, 6, 5), (2, 3, 2), (2, 1, 1), (0, 1, 0), (0, 1, 1)),
]


@pytest.mark.parametrize("average", sampled(AVERAGES, AVERAGES[1:2]), ids=str)
def test_averages_are_those_of_float64(
    average: Average, gpu_target: str, gpu_device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Images are small: threads have several windows nevertheless.
    monkeypatch.setattr(windows, "_MANY_THREADS", 1)
    image = np.random.default_rng(0).standard_normal((2, *average.size, average.channels), np.float32)
    compiled = compile_rewritten(average.text, gpu_target)
    assert b"winograd_window_sum_" in bytes(compiled)
    expected, bound = average.averaged(image)
    result = np.asarray(winograd.load(compiled, gpu_device)(image))
    assert (np.abs(result - expected) <= bound).all()


def test_long_windows_are_left(gpu_target: str) -> None:
    long = Average((20, 20), (20, 20), (1, 1), (0, 0), (0, 0))
    assert b"winograd_window_sum_" not in bytes(compile_rewritten(long.text, gpu_target))
