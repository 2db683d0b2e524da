"""Images that are gated, subtracted and made channels first by one kernel, of integers, which are exact."""

from __future__ import annotations

from collections.abc import Sequence

import iree.winograd
import numpy as np
import pytest
from guarded_call import call_guarded
from wide import lesser, wide

PROGRAM = """
    func.func @main(%x: IMAGE, %gate: GATE) -> (IMAGE, FIRST) {
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %n = tensor.dim %x, %c0 : IMAGE
      %h = tensor.dim %x, %c1 : IMAGE
      %w = tensor.dim %x, %c2 : IMAGE
      %f = arith.constant dense<"0xUNIT"> : tensor<1x1xCxCxf32>
      %e = tensor.empty(EXTENTS) : IMAGE
      %z = linalg.fill ins(%zero : f32) outs(%e : IMAGE) -> IMAGE
      %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f : IMAGE, tensor<1x1xCxCxf32>) outs(%z : IMAGE) -> IMAGE
      %r = linalg.generic {
        indexing_maps = [affine_map<(n, h, w, c) -> (n, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>,
          affine_map<(n, h, w, c) -> (n, h, w, c)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%gate, %c : GATE, IMAGE) outs(%e : IMAGE) {
      ^bb0(%by: f32, %element: f32, %old: f32):
        %scaled = arith.mulf %by, %element : f32
        linalg.yield %scaled : f32
      } -> IMAGE
      %s = linalg.generic {
        indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>,
          affine_map<(n, h, w, c) -> (n, h, w, c)>],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      } ins(%r, %c : IMAGE, IMAGE) outs(%e : IMAGE) {
      ^bb0(%a: f32, %b: f32, %old: f32):
        %difference = arith.subf %b, %a : f32
        linalg.yield %difference : f32
      } -> IMAGE
      %i = tensor.empty(EXTENTS) : FIRST
      %t = linalg.transpose ins(%s : IMAGE) outs(%i : FIRST) permutation = [0, 3, 1, 2]
      return %c, %t : IMAGE, FIRST
    }"""
OPEN_SIZES = [(1, 1, 1), (2, 1, 13), (3, 5, 40), (1, 2, 1025), (1, 4, 0), (0, 2, 2), (1, 0, 4)]


def program_of(channels: int, size: Sequence[int] | None) -> str:
    """For images of this batch, height and width, or of any."""
    extents = "?x?x?" if size is None else "x".join(map(str, size))
    batch, *spatial = extents.split("x")
    replaced = {
        "IMAGE": f"tensor<{extents}x{channels}xf32>",
        "FIRST": f"tensor<{batch}x{channels}x{'x'.join(spatial)}xf32>",
        "GATE": f"tensor<{batch}x{channels}xf32>",
        "EXTENTS": "%n, %h, %w" if size is None else "",
        "xC": f"x{channels}",
        "UNIT": np.eye(channels, dtype=np.float32).tobytes().hex().upper(),
    }
    program = PROGRAM
    for name, text in replaced.items():
        program = program.replace(name, text)
    return program


def expect_gated(compiled: bytes, channels: int, sizes: Sequence[tuple[int, ...]]) -> None:
    run = iree.winograd.load(compiled, threads=2)
    random = np.random.default_rng(0)
    for size in sizes:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        gate = random.integers(-100, 100, (size[0], channels)).astype(np.float32)
        expected = (image - image * gate[:, None, None]).transpose(0, 3, 1, 2)
        for edge in ("start", "end"):
            call = call_guarded(run, [image, gate], edge)
            np.testing.assert_array_equal(call.results[1], expected)
            assert not call.changed and not call.overrun


@pytest.mark.parametrize("processor", ["cpu", *lesser([("cpu:x86-64",), ("cpu:haswell",)])])
@pytest.mark.parametrize("channels", [21, *wide([9, 16, 130])])
def test_gates_images_of_any_size(channels: int, processor: str) -> None:
    compiled = iree.winograd.compile(program_of(channels, None), target=processor, threads=2, strict=True)
    assert b"winograd_elementwise_anyxanyx%d_first" % channels in compiled
    expect_gated(compiled, channels, OPEN_SIZES)


def test_gates_images_whose_lines_share_sets() -> None:
    compiled = iree.winograd.compile(program_of(40, (2, 64, 96)), threads=2, strict=True)
    assert b"winograd_elementwise_64x96x40_first" in compiled
    expect_gated(compiled, 40, [(2, 64, 96)])
