"""Schedules of gradients of filters on a GPU, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    STAGE_TILES,
    GpuWeightGradientSchedule,
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .gemm_schedules import GEMM_SCHEDULES
from .representative import representative

TILE_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""That the tiles of all images are summed in."""
MATRIX_GRADIENT_BLOCKS = ((64, 64, 32, 32), (32, 32, 16, 16))
"""Rows and columns of a workgroup and of a warp, for gradients of filters on matrix units: larger ones, with
more sums of a thread or fewer workgroups on a multiprocessor, took 1.1 to 1.6 times as long on an H200."""
HALF_GRADIENT_BLOCKS = ((128, 128, 64, 32, 1), (128, 64, 32, 32, 2), (64, 64, 32, 32, 3))
"""Rows and columns of a workgroup and of a warp, and the workgroups that have registers, for those of half
precision. Larger ones read images less often."""


def weight_gradient_schedules(
    shape: WeightGradientShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[GpuWeightGradientSchedule]:
    """The schedules of a gradient of a filter that the target and its machine are for.

    Tiles are summed in blocks of about equal size.
    """
    tiles = representative(shape).tiles
    assert tiles is not None
    for gemm in GEMM_SCHEDULES:
        for block in _tile_blocks(tiles, gemm.block_reduction):
            multiplied = MultiplyAddWeightGradientSchedule(
                gemm.block_rows,
                gemm.block_columns,
                block,
                gemm.block_reduction,
                gemm.thread_rows,
                gemm.thread_columns,
            )
            if kernel_misfit(shape, target, multiplied) is None:
                yield multiplied
    if machine.matrix_flops is None:
        return
    for rows, columns, warp_rows, warp_columns in MATRIX_GRADIENT_BLOCKS:
        for block in _tile_blocks(tiles, STAGE_TILES):
            on_matrix_units = MatrixWeightGradientSchedule(rows, columns, block, warp_rows, warp_columns)
            if kernel_misfit(shape, target, on_matrix_units) is None:
                yield on_matrix_units
    if shape.exact_type is None:
        return
    for rows, columns, warp_rows, warp_columns, resident in HALF_GRADIENT_BLOCKS:
        for block in _tile_blocks(tiles, STAGE_TILES):
            of_halves = HalfWeightGradientSchedule(
                rows,
                columns,
                block,
                warp_rows,
                warp_columns,
                resident_workgroups=resident,
                multiplied_type=shape.exact_type,
            )
            if kernel_misfit(shape, target, of_halves) is None:
                yield of_halves


def _tile_blocks(tiles: int, multiple: int) -> list[int]:
    """Sizes of blocks of tiles, multiples of a number, that leave each at least four of it."""
    steps = ceil_div(tiles, multiple)
    sizes = {ceil_div(steps, count) for count in TILE_BLOCKS if count == 1 or 4 * count <= steps}
    return [size * multiple for size in sorted(sizes, reverse=True)]
