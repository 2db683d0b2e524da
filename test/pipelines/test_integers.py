"""Conversions to short integers and shifts that LLVM leaves undefined, as torch and ONNX define them."""

from __future__ import annotations

import iree.winograd as winograd
import numpy as np

TYPES = ("i8", "i8", "i16", "i8", "i8", "i8")
TENSORS = ", ".join(f"tensor<160x{each}>" for each in TYPES)
IDENTITY = "affine_map<(i) -> (i)>"
PROGRAM = f"""\
func.func @main(%x: tensor<160xf32>, %half: tensor<160xf16>, %bits: tensor<160xi8>, %y: tensor<160xi8>)
    -> ({TENSORS}) {{
  %byte = tensor.empty() : tensor<160xi8>
  %short = tensor.empty() : tensor<160xi16>
  %r:6 = linalg.generic {{
    indexing_maps = [{", ".join([IDENTITY] * 10)}], iterator_types = ["parallel"]
  }} ins(%x, %half, %bits, %y : tensor<160xf32>, tensor<160xf16>, tensor<160xi8>, tensor<160xi8>)
    outs(%byte, %byte, %short, %byte, %byte, %byte : {TENSORS}) {{
  ^bb0(%p: f32, %q: f16, %n: i8, %z: i8, %0: i8, %1: i8, %2: i16, %3: i8, %4: i8, %5: i8):
    %a = arith.fptosi %p : f32 to i8
    %b = arith.fptosi %q : f16 to i8
    %wide = arith.extf %q : f16 to f64
    %c = arith.fptosi %wide : f64 to i16
    %d = arith.shli %z, %n : i8
    %e = arith.shrui %z, %n : i8
    %f = arith.shrsi %z, %n : i8
    linalg.yield %a, %b, %c, %d, %e, %f : {", ".join(TYPES)}
  }} -> ({TENSORS})
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5 : {TENSORS}
}}
"""


def test_bytes_without_a_sign_and_shifts_by_any_number_of_bits() -> None:
    vmfb = winograd.compile(PROGRAM, target="cpu:haswell", threads=1)
    program = winograd.load(vmfb, device="local-sync")
    half = (np.arange(160) * 409.5).astype(np.float16)
    x = np.linspace(-128, 255, 160).astype(np.float32)
    bits = np.arange(-80, 80).astype(np.int8)
    y = (np.arange(160) * 37 % 256).astype(np.uint8)
    found = [np.asarray(result) for result in program(x, half, bits, y.view(np.int8))]
    inside = (bits >= 0) & (bits < 8)
    amounts = np.where(inside, bits, 0)
    expected = [
        x.astype(np.int64),
        half.astype(np.int64),
        half.astype(np.int64),
        np.where(inside, y.astype(np.int64) << amounts, 0),
        np.where(inside, y.astype(np.int64) >> amounts, 0),
        y.view(np.int8).astype(np.int64) >> np.where(inside, bits, 7),
    ]
    for actual, exact in zip(found, expected, strict=True):
        np.testing.assert_array_equal(actual, exact.astype(actual.dtype))
