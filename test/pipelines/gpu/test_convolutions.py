"""GPU kernels on Vulkan against float64, within the a-priori error bound of their algorithm."""

from __future__ import annotations

from dataclasses import replace

import iree.winograd
import numpy as np
import pytest
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.dialect.reference import convolution
from wide import batches, wide

WINOGRAD = [Program((14, 14), 32, 48, (3, 3), (m, m), (3, 3), low=(1, 1), high=(1, 1)) for m in (3, 4, 6)]
EDGES = [
    # Tiles that overhang, images smaller than a tile, asymmetric padding, blocks of tiles that are not full.
    Program((5, 3), 16, 16, (3, 3), (6, 6), (3, 3), low=(1, 1), high=(1, 1)),
    Program((13, 11), 16, 32, (3, 3), (4, 4), (3, 3), low=(0, 2), high=(3, 1)),
    Program((1, 1), 8, 8, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
    Program((30, 30), 20, 68, (3, 3), (2, 2), (3, 3)),
]
CHANNELS = [
    # Channels that are no whole quads, and reductions that are no whole blocks.
    Program((10, 10), channels, outputs, (3, 3), (m, m), (p, p), low=(1, 1), high=(1, 1))
    for m, p, channels, outputs in [
        (4, 3, 1, 1),
        (4, 3, 3, 10),
        (2, 3, 17, 36),
        (1, 1, 36, 7),
        (1, 1, 40, 130),
    ]
]
VIEWS = [
    Program((9, 17), 24, 16, (1, 7), (1, 4), (1, 7), low=(0, 3), high=(0, 3)),
    Program((12, 12), 16, 16, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
    Program((15, 15), 6, 16, (7, 7), (2, 2), (2, 2), strides=(2, 2), low=(3, 3), high=(3, 3)),
    Program((14, 14), 16, 16, (3, 3), (4, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program(
        (19, 17), 8, 16, (3, 3), (2, 2), (2, 3), strides=(2, 1), dilations=(3, 2), low=(3, 2), high=(3, 2)
    ),
]
DIRECT = [
    Program((14, 14), 32, 64, (1, 1), (1, 1), (1, 1)),
    Program((14, 15), 32, 40, (1, 1), (1, 1), (1, 1), strides=(2, 2)),
    Program((21, 21), 3, 64, (7, 7), (1, 1), (1, 1), strides=(2, 2), low=(3, 3), high=(3, 3)),
    Program(
        (14, 14), 16, 17, (3, 3), (1, 1), (1, 1), strides=(2, 3), dilations=(3, 2), low=(3, 2), high=(3, 2)
    ),
]
SPATIAL_RANKS = [
    Program((33,), 16, 24, (3,), (6,), (3,), low=(1,), high=(1,)),
    Program((6, 7, 8), 8, 16, (3, 3, 3), (2, 2, 2), (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)),
]
BATCHES = [
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), batch=20, low=(1, 1), high=(1, 1)),
    Program((9, 9), 16, 16, (3, 3), (4, 4), (3, 3), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
    Program((9, 9), 16, 16, (3, 3), (1, 1), (1, 1), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
]
CHANNELS_FIRST = [program.channels_first for program in (WINOGRAD[0], CHANNELS[1], DIRECT[1], BATCHES[1])]
SAMPLE = [EDGES[2], VIEWS[4], CHANNELS_FIRST[0]]
OTHERS = [
    EDGES[1],
    CHANNELS[2],
    VIEWS[3],
    *SPATIAL_RANKS,
    BATCHES[2],
    CHANNELS_FIRST[1],
]


@pytest.mark.parametrize("programs", batches([*SAMPLE, *OTHERS], SAMPLE))
def test_agrees_with_float64(programs: list[Program], gpu_target: str, gpu_device: str) -> None:
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize("programs", [[EDGES[2]], *wide([[CHANNELS[1], VIEWS[2]]])])
def test_transforms_filters_known_only_at_run_time(
    programs: list[Program], gpu_target: str, gpu_device: str
) -> None:
    known_later = [replace(program, constant_filter=False) for program in programs]
    check_together(known_later, target=gpu_target, devices=[gpu_device])


@pytest.mark.wide
def test_larger_blocks_of_desktop_targets_agree_with_float64(gpu_target: str, gpu_device: str) -> None:
    larger = [replace(program, outputs=136, batch=9) for program in (DIRECT[3], EDGES[1])]
    target = "vulkan:rdna3" if gpu_target == "vulkan" else gpu_target
    check_together(larger, target=target, devices=[gpu_device])


@pytest.mark.wide
def test_filters_that_are_computed_of_constants(gpu_target: str, gpu_device: str) -> None:
    """More than are folded: when the program is loaded. On the host IREE can run no kernel for GPUs."""
    generator = np.random.default_rng(0)
    given = generator.standard_normal((3, 3, 64, 128)).astype(np.float32)
    image = generator.standard_normal((1, 8, 8, 64)).astype(np.float32)
    filters, output = "tensor<3x3x64x128xf32>", "tensor<1x6x6x128xf32>"
    program = f"""
#same = affine_map<(i, j, c, k) -> (i, j, c, k)>
func.func @main(%image: tensor<1x8x8x64xf32>) -> {output} {{
  %given = arith.constant dense<"0x{given.tobytes().hex().upper()}"> : {filters}
  %empty = tensor.empty() : {filters}
  %filters = linalg.generic {{indexing_maps = [#same, #same],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%given : {filters}) outs(%empty : {filters}) {{
  ^bb0(%element: f32, %unused: f32):
    %sine = math.sin %element : f32
    linalg.yield %sine : f32
  }} -> {filters}
  %zero = arith.constant 0.0 : f32
  %sums = tensor.empty() : {output}
  %zeros = linalg.fill ins(%zero : f32) outs(%sums : {output}) -> {output}
  %result = linalg.conv_2d_nhwc_hwcf ins(%image, %filters : tensor<1x8x8x64xf32>, {filters})
      outs(%zeros : {output}) -> {output}
  return %result : {output}
}}
"""
    compiled = iree.winograd.compile(program, target=gpu_target, output_tile=1, strict=True)
    sines = np.sin(given.astype(np.float64))
    result = np.asarray(iree.winograd.load(compiled, gpu_device)(image))
    error = np.abs(result - convolution(image, sines))
    # Two roundings of each sine, and one of each sum, of magnitudes.
    assert np.all(error <= (2 + 9 * 64) * 2.0**-24 * convolution(np.abs(image), np.abs(sines)))
