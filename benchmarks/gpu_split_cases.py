"""What `benchmarks.gpu_split` checks and times: convolutions by a schedule each, layers, batched products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.gpu_programs import RESNET
from benchmarks.square_layer import SquareLayer

LAYERS = (
    *(layer for layer in RESNET if layer.batch in (1, 32, 128)),
    *(
        SquareLayer(32, size, inputs, outputs, 1, network="resnet")
        for size, inputs, outputs in ((56, 64, 256), (28, 512, 128), (14, 1024, 256), (7, 512, 2048))
    ),
)
PRODUCTS = (
    SquareLayer(32, 56, 128, 128, network="products"),
    SquareLayer(32, 32, 256, 256, network="products"),
    SquareLayer(32, 64, 512, 512, network="products"),
)
"""Layers whose 36 products of 6272, 2048 and 8192 rows are timed."""
PRODUCT_TILE = 4

_3X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"
_1X1 = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups"
_STRIDED = "kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups 1 f32"
_5X5 = "kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32"
_STEM = "kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32"
_1X7 = "kernel 1x7 stride 1x1 dilation 1x1 padding 0x3 0x3 groups 1 f32"


@dataclass(frozen=True)
class Case:
    """A convolution in the words of `ConvolutionProblem`, its tiles and parts, and a schedule's record."""

    problem: str
    output_tile: tuple[int, ...]
    part_size: tuple[int, ...]
    schedule: Mapping[str, int | str]


def split(rows: int = 64, columns: int = 64, stages: int = 2, **fields: int) -> dict[str, int | str]:
    """By warps, 32 rows and columns each where the block has as many."""
    sizes = {"block_rows": rows, "block_columns": columns, "warp_rows": 32, "warp_columns": 32}
    return {"kind": "split", **sizes, "stages": stages, **fields}


def warpgroup(rows: int = 64, columns: int = 64, stages: int = 4, **fields: int) -> dict[str, int | str]:
    return {"kind": "warpgroup", "block_rows": rows, "block_columns": columns, "stages": stages, **fields}


def implicit_gemm(columns: int = 64, **fields: int) -> dict[str, int | str]:
    sizes = {"block_rows": 64, "block_columns": columns, "warpgroups": 3, "walking_workgroups": 132}
    return {"kind": "implicit-gemm", **sizes, **fields}


_DIRECT = (1, 1), (1, 1)
CASES = (
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3), split()) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), split(128, 64, 3)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), split(stages=4, resident_workgroups=4)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3), split()),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3), split()),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), split()),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", (1, 1), (1, 1), split()),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), split(stages=3)),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", (1, 1), (1, 1), split()),
    Case(f"4x28x28x64->64 {_STRIDED}", (4, 4), (2, 2), split()),
    Case(f"4x20x20x16->16 {_5X5}", (4, 4), (3, 3), split()),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,), split()),
    Case(f"4x17x17x64->64 {_1X7}", (1, 4), (1, 7), split()),
    Case(
        f"4x14x14x96->80 {_3X3} 1 f32", (4, 4), (3, 3), split(32, 64, 4, warp_rows=16, resident_workgroups=4)
    ),
    Case(f"4x14x14x300->70 {_3X3} 1 f32", (2, 2), (3, 3), split(32, 32, 4, warp_rows=16, warp_columns=16)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), split(products=1)),
    Case(f"4x14x14x64->64 {_3X3} 1 f32", (2, 2), (3, 3), split(products=1)),
    *(Case(f"4x14x14x64->64 {_3X3} 1 f32", (m, m), (3, 3), warpgroup()) for m in (2, 4, 6)),
    Case(f"4x28x28x128->192 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(128, 64, 3)),
    Case(f"4x28x28x256->192 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(128, 128, 6, walking_workgroups=132)),
    Case(
        f"4x14x14x200->136 {_1X1} 1 f32",
        (1, 1),
        (1, 1),
        warpgroup(128, 112, 7, summed_block=64, walking_workgroups=3),
    ),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(resident_workgroups=3)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(64, 128, walking_workgroups=7)),
    Case(f"4x11x9x13->19 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(64, 16)),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(walking_workgroups=7, summed_block=32)),
    *(
        Case(f"4x14x14x{channels}->72 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(rows, summed_block=64))
        for channels, rows in ((40, 64), (128, 192), (200, 64))
    ),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), split(summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), warpgroup(stages=3, summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), split(stages=3, summed_block=32)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), warpgroup(products=1, summed_block=64)),
    Case(f"4x14x14x64->64 {_3X3} 2 f32", (4, 4), (3, 3), warpgroup(walking_workgroups=5)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(walking_workgroups=396)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup()),
    Case(f"4x14x14x64->128 {_1X1} 1 f32", (1, 1), (1, 1), warpgroup(walking_workgroups=3)),
    Case(f"4x5x5x1100->64 {_1X1} 1 f32", (1, 1), (1, 1), warpgroup(stages=3)),
    *(
        Case(f"1x14x14x1100->100 {_1X1} 1 f32", (1, 1), (1, 1), warpgroup(**fields, reduction_parts=5))
        for fields in ({"summed_block": 64}, {"stages": 12, "summed_block": 64, "walking_workgroups": 7})
    ),
    Case(f"1x14x14x200->72 {_3X3} 1 f32", (2, 2), (3, 3), warpgroup(summed_block=64, reduction_parts=2)),
    Case(f"4x14x14x32->48 {_3X3} 1 f32", (1, 1), (1, 1), warpgroup()),
    Case(f"4x28x28x64->64 {_STRIDED}", (4, 4), (2, 2), warpgroup(walking_workgroups=396)),
    Case("4x50x32->48 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", (6,), (3,), warpgroup()),
    Case(f"4x14x14x200->72 {_3X3} 1 f32", (4, 4), (3, 3), warpgroup(products=1)),
    Case(
        f"4x14x14x200->300 {_3X3} 1 f32",
        (2, 2),
        (3, 3),
        warpgroup(64, 256, products=1, walking_workgroups=132),
    ),
    Case(
        f"4x14x14x64->300 {_1X1} 1 f32",
        (1, 1),
        (1, 1),
        warpgroup(128, 256, products=1, walking_workgroups=132),
    ),
    Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm()),
    Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm(channel_blocks=2)),
    *(
        Case(f"2x14x14x64->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm(summed_block=block, channel_blocks=2))
        for block in (32, 80)
    ),
    Case(
        f"2x14x14x128->128 {_3X3} 1 f32", *_DIRECT, implicit_gemm(warpgroups=2, products=1, summed_block=64)
    ),
    Case(f"2x14x14x512->128 {_1X1} 1 f32", *_DIRECT, implicit_gemm(channel_blocks=8, summed_block=64)),
    Case(f"2x56x56x3->64 {_STEM}", *_DIRECT, implicit_gemm(summed_block=64)),
    Case(f"2x24x20x64->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm(walking_workgroups=7)),
    Case(f"2x14x14x128->128 {_3X3} 1 f32", *_DIRECT, implicit_gemm(warpgroups=2, products=1)),
    Case(f"?x14x14x64->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm()),
    Case(f"4x11x9x16->20 {_3X3} 1 f32", *_DIRECT, implicit_gemm(32)),
    Case(f"1x80x80x64->80 {_3X3} 1 f32", *_DIRECT, implicit_gemm(summed_block=64, walking_workgroups=66)),
    Case(f"2x28x28x24->24 {_3X3} 1 f32", *_DIRECT, implicit_gemm(32)),
    Case(f"4x11x9x13->20 {_3X3} 1 f32", *_DIRECT, implicit_gemm(32)),
    Case(f"2x14x14x88->64 {_1X1} 1 f32", *_DIRECT, implicit_gemm(channel_blocks=2)),
    Case(f"2x28x28x32->48 {_STRIDED}", *_DIRECT, implicit_gemm(48)),
    Case(f"2x28x28x64->48 {_STRIDED}", *_DIRECT, implicit_gemm(48, channel_blocks=4, warpgroups=2)),
    Case(f"4x20x20x16->16 {_5X5}", *_DIRECT, implicit_gemm(16, warpgroups=4)),
    Case(f"2x14x14x512->128 {_1X1} 1 f32", *_DIRECT, implicit_gemm(channel_blocks=8)),
    Case(f"2x14x14x64->256 {_1X1} 1 f32", *_DIRECT, implicit_gemm(256, warpgroups=2, products=1)),
    Case(f"2x56x56x3->64 {_STEM}", *_DIRECT, implicit_gemm()),
    Case(f"2x24x24x3->64 {_3X3} 1 f32", *_DIRECT, implicit_gemm()),
    Case(f"2x24x24x4->20 {_5X5}", *_DIRECT, implicit_gemm(32, products=1)),
)
