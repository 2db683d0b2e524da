"""Pooling and softmax that read and write half precision through CUDA: their text is run here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest
import torch
from checked_programs import compile_rewritten
from iree.winograd.pipelines.gpu.device.memory import OCTET
from iree.winograd.pipelines.gpu.kernels.images import windows
from iree.winograd.pipelines.gpu.kernels.reductions.rows import SharedRows
from iree.winograd.pipelines.gpu.kernels.reductions.short_rows import SHORT_ROW_THREADS, ShortRowSoftmaxKernel
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from softmax_program import program
from torch.nn import functional
from wide import wide, wide_combinations

Array = npt.NDArray[Any]

ARCHITECTURE = "sm_90a"
UNIT_ROUNDOFF = 2.0**-24
ROUNDOFFS: Mapping[str, float] = {"f16": 2.0**-11, "bf16": 2.0**-8}
TYPES: Mapping[str, torch.dtype] = {"f16": torch.float16, "bf16": torch.bfloat16}
LEAST = 2.0**-25
"""Half of the distance between the smallest numbers of f16."""


@dataclass(frozen=True)
class Pooling:
    """Of windows of 3 x 3 beside each other of 2 images, with a pixel around these."""

    kind: str
    """`max` or `sum`, of which there is the mean."""
    size: tuple[int, int]
    channels: int
    stride: int
    type: str

    @property
    def outputs(self) -> tuple[int, int]:
        rows, columns = ((size - 1) // self.stride + 1 for size in self.size)
        return rows, columns

    @property
    def text(self) -> str:
        """Sums are rounded, and their quotients: as torch-mlir has means in half precision."""
        (rows, columns), (height, width) = self.outputs, self.size
        image, half = (f"tensor<2x{height}x{width}x{self.channels}x{each}>" for each in ("f32", self.type))
        padded = f"tensor<2x{height + 2}x{width + 2}x{self.channels}xf32>"
        pooled, rounded = (
            f"tensor<2x{rows}x{columns}x{self.channels}x{each}>" for each in ("f32", self.type)
        )
        same = "affine_map<(n, h, w, c) -> (n, h, w, c)>"
        kinds = ", ".join(['"parallel"'] * 4)
        loops = f"indexing_maps = [{same}, {same}], iterator_types = [{kinds}]"
        first = "0xFF800000" if self.kind == "max" else "0.0"
        result = "%q" if self.kind == "sum" else "%s"
        return f"""
func.func @main(%x: {half}) -> {rounded} {{
  %first = arith.constant {first} : f32
  %nine = arith.constant 9.0 : f32
  %e = tensor.empty() : {image}
  %w = linalg.generic {{{loops}}} ins(%x : {half}) outs(%e : {image}) {{
  ^bb0(%in: {self.type}, %out: f32):
    %number = arith.extf %in : {self.type} to f32
    linalg.yield %number : f32
  }} -> {image}
  %p = tensor.pad %w low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i: index, %h: index, %j: index, %c: index):
    tensor.yield %first : f32
  }} : {image} to {padded}
  %window = tensor.empty() : tensor<3x3xf32>
  %empty = tensor.empty() : {pooled}
  %init = linalg.fill ins(%first : f32) outs(%empty : {pooled}) -> {pooled}
  %s = linalg.pooling_nhwc_{self.kind} {{
    dilations = dense<1> : tensor<2xi64>, strides = dense<{self.stride}> : tensor<2xi64>
  }} ins(%p, %window : {padded}, tensor<3x3xf32>) outs(%init : {pooled}) -> {pooled}
  %d = linalg.generic {{{loops}}} ins(%s : {pooled}) outs(%empty : {pooled}) {{
  ^bb0(%in: f32, %out: f32):
    %half = arith.truncf %in : f32 to {self.type}
    %sum = arith.extf %half : {self.type} to f32
    linalg.yield %sum : f32
  }} -> {pooled}
  %q = linalg.generic {{{loops}}} ins(%d : {pooled}) outs(%empty : {pooled}) {{
  ^bb0(%sum: f32, %out: f32):
    %mean = arith.divf %sum, %nine : f32
    %half = arith.truncf %mean : f32 to {self.type}
    %number = arith.extf %half : {self.type} to f32
    linalg.yield %number : f32
  }} -> {pooled}
  %he = tensor.empty() : {rounded}
  %r = linalg.generic {{{loops}}} ins({result} : {pooled}) outs(%he : {rounded}) {{
  ^bb0(%in: f32, %out: {self.type}):
    %half = arith.truncf %in : f32 to {self.type}
    linalg.yield %half : {self.type}
  }} -> {rounded}
  return %r : {rounded}
}}
"""


def text_of(text: str, folder: Path) -> str:
    """What a program's only dispatch is, which takes nothing but its argument, and has no stack."""
    compile_rewritten(text, f"cuda:{ARCHITECTURE}", [f"--iree-hal-dump-executable-files-to={folder}"])
    assert set(spilled_bytes(folder, ARCHITECTURE).values()) == {0}
    (found,) = (path.read_text() for path in folder.glob("*.ptx"))
    assert found.count(".entry ") == 1
    # Sixteen bytes at once.
    assert {"ld.global.nc.v4.b32", "st.global.v4.b32"} <= set(re.findall(r"(?:ld|st)\.global[.\w]+", found))
    return found


def run(text: str, name: str, x: torch.Tensor, sizes: tuple[int, ...], grid: tuple[int, ...]) -> torch.Tensor:
    """What the kernel of that name makes of one tensor."""
    result = torch.full(sizes, torch.nan, dtype=x.dtype)
    across = ((i, j, 0) for i, j in product(*map(range, grid)))
    Kernel.parsed(text, name).run([each.view(torch.int16).numpy() for each in (x, result)], across)
    return result


POOLINGS = [
    Pooling("max", (9, 12), 16, 2, "f16"),
    *wide(
        [
            Pooling("sum", (7, 6), 16, 1, "f16"),
            Pooling("max", (7, 5), 8, 1, "bf16"),
            Pooling("sum", (8, 7), 24, 2, "bf16"),
        ]
    ),
]


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_windows_are_those_of_float64(
    pooling: Pooling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Images are small: threads have several windows nevertheless.
    monkeypatch.setattr(windows, "_MANY_THREADS", 1)
    text = text_of(pooling.text, tmp_path)
    (name,) = re.findall(r"\.entry (winograd_window_\w+)\(", text)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((2, *pooling.size, pooling.channels), generator=generator).to(TYPES[pooling.type])
    if pooling.kind == "max":
        x[0, 0, 0, 0], x[1, -1, -1, 1], x[1, 3, 3, 2] = -torch.inf, torch.inf, torch.nan
    else:
        # Sums of these have no f16 number, their means have.
        x[0, 2:6, 2:6, 0] = 30000.0
    outputs = pooling.outputs
    # As many workgroups as threads of one window each need, and more than there are of several.
    grid = (2 * outputs[0] * outputs[1], -(-pooling.channels // 64))
    result = run(text, name, x, (2, *outputs, pooling.channels), grid).permute(0, 3, 1, 2)
    exact = x.double().permute(0, 3, 1, 2)
    if pooling.kind == "max":
        expected = functional.max_pool2d(exact, 3, pooling.stride, 1)
        assert torch.equal(result.isnan(), expected.isnan())
        assert torch.equal(result.double().nan_to_num(), expected.nan_to_num())
        return
    expected = functional.avg_pool2d(exact, 3, pooling.stride, 1)
    magnitudes = functional.avg_pool2d(exact.abs(), 3, pooling.stride, 1)
    # Nine sums, the factor, its product; then one rounding.
    of_f32 = 11 * UNIT_ROUNDOFF * magnitudes
    bound = 1.01 * (of_f32 + ROUNDOFFS[pooling.type] * (expected.abs() + of_f32)) + LEAST
    assert ((result.double() - expected).abs() <= bound).all()


def rounded_softmax(rows: int, length: int, type_: str) -> str:
    """Softmax of rows of half precision, in f32, rounded."""
    tensor, half = (f"tensor<{rows}x{length}x{each}>" for each in ("f32", type_))
    same = "affine_map<(a, b) -> (a, b)>"
    loops = f'indexing_maps = [{same}, {same}], iterator_types = ["parallel", "parallel"]'
    widened = f"""
      %xe = tensor.empty() : {tensor}
      %x = linalg.generic {{{loops}}} ins(%given : {half}) outs(%xe : {tensor}) {{
      ^bb0(%a: {type_}, %o: f32):
        %r = arith.extf %a : {type_} to f32
        linalg.yield %r : f32
      }} -> {tensor}"""
    narrowed = f"""
      %he = tensor.empty() : {half}
      %h = linalg.generic {{{loops}}} ins(%y : {tensor}) outs(%he : {half}) {{
      ^bb0(%a: f32, %o: {type_}):
        %r = arith.truncf %a : f32 to {type_}
        linalg.yield %r : {type_}
      }} -> {half}
      return %h : {half}"""
    text = program((str(rows), str(length)))
    text = text.replace(f"(%x: {tensor}) -> {tensor} {{", f"(%given: {half}) -> {half} {{{widened}")
    return re.sub(r"return %y : \S+", lambda _: narrowed.strip(), text)


@pytest.mark.parametrize(
    ("length", "type_"), [(64, "f16"), (21, "f16"), *wide_combinations([(1000, "f16"), (24, "bf16")])]
)
def test_softmax_is_that_of_float64(length: int, type_: str, tmp_path: Path) -> None:
    # Of no whole workgroups, but of whole octets.
    rows = 136
    text = text_of(rounded_softmax(rows, length, type_), tmp_path)
    (name,) = re.findall(r"\.entry (winograd_softmax_\w+)\(", text)
    x = (4 * torch.randn((rows, length), generator=torch.Generator().manual_seed(0))).to(TYPES[type_])
    # What is beside it is far below the least number of half precision.
    x[3, 5], x[4, 0] = 200.0, -torch.inf
    is_short = ShortRowSoftmaxKernel.suits(length)
    together = SHORT_ROW_THREADS if is_short else SharedRows(length, OCTET).rows
    result = run(text, name, x, (rows, length), (-(-rows // together), 1))
    exact = torch.softmax(x.double(), 1)
    # The exponent is rounded twice, and at most 36 where the result isn't below 2^-52; two units of the
    # instruction, a sum of `length` exponentials, its inverse, the product; then one rounding.
    arguments = 2 * 36 * UNIT_ROUNDOFF
    of_f32 = exact * (2 * arguments + (4 + 4 + length + 3) * UNIT_ROUNDOFF) + 2.0**-52
    bound = 1.01 * (of_f32 + ROUNDOFFS[type_] * (exact + of_f32)) + LEAST
    assert ((result.double() - exact).abs() <= bound).all()
