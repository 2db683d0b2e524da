"""Gates and shifts of images whose sizes are known only at run time, of integers, which are exact."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from wide import wide

IMAGE, GATE, SHIFT = "tensor<?x?x?xCxf32>", "tensor<?xCxf32>", "tensor<?x1x?x1xf32>"
PROGRAM = f"""
    func.func @main(%x: {IMAGE}, %gate: {GATE}, %shift: {SHIFT}) -> ({IMAGE}, {IMAGE}) {{
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %n = tensor.dim %x, %c0 : {IMAGE}
      %h = tensor.dim %x, %c1 : {IMAGE}
      %w = tensor.dim %x, %c2 : {IMAGE}
      %f = arith.constant dense<"0xUNIT"> : tensor<1x1xCxCxf32>
      %e = tensor.empty(%n, %h, %w) : {IMAGE}
      %z = linalg.fill ins(%zero : f32) outs(%e : {IMAGE}) -> {IMAGE}
      %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f : {IMAGE}, tensor<1x1xCxCxf32>) outs(%z : {IMAGE}) -> {IMAGE}
      %r = linalg.generic {{
        indexing_maps = [affine_map<(n, h, w, c) -> (n, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>,
          affine_map<(n, h, w, c) -> (n, 0, w, 0)>, affine_map<(n, h, w, c) -> (n, h, w, c)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%gate, %c, %shift : {GATE}, {IMAGE}, {SHIFT}) outs(%e : {IMAGE}) {{
      ^bb0(%by: f32, %element: f32, %added: f32, %old: f32):
        %scaled = arith.mulf %by, %element : f32
        %shifted = arith.addf %scaled, %added : f32
        linalg.yield %shifted : f32
      }} -> {IMAGE}
      %s = linalg.generic {{
        indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>,
          affine_map<(n, h, w, c) -> (n, h, w, c)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%r, %c : {IMAGE}, {IMAGE}) outs(%e : {IMAGE}) {{
      ^bb0(%a: f32, %b: f32, %old: f32):
        %difference = arith.subf %b, %a : f32
        linalg.yield %difference : f32
      }} -> {IMAGE}
      return %c, %s : {IMAGE}, {IMAGE}
    }}"""


@pytest.mark.parametrize("channels", [21, *wide([3, 32])])
def test_gates_images_of_any_size(channels: int) -> None:
    unit = np.eye(channels, dtype=np.float32).tobytes().hex().upper()
    program = PROGRAM.replace("xC", f"x{channels}").replace("UNIT", unit)
    compiled = iree.winograd.compile(program, threads=1, strict=True)
    assert b"winograd_elementwise_anyxanyx%d" % channels in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    random = np.random.default_rng(0)
    for size in [(1, 1, 1), (2, 1, 13), (3, 5, 40), (1, 2, 1025), (1, 4, 0), (0, 2, 2), (1, 0, 4)]:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        gate = random.integers(-100, 100, (size[0], channels)).astype(np.float32)
        shift = random.integers(-100, 100, (size[0], 1, size[2], 1)).astype(np.float32)
        expected = image - (image * gate[:, None, None] + shift)
        _, result = run(image, gate, shift)
        np.testing.assert_array_equal(np.asarray(result), expected)
