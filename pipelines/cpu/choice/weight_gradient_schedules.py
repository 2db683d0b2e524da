"""The schedules of a weight gradient: those that its default one is predicted from, and worth measuring."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.fit import misfit
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.emission.vocabulary import vector_width_for
from iree.winograd.pipelines.specification.shape import ConvolutionShape

TILE_BLOCKS = (64, 128)
REGISTER_VECTORS = (1, 2, 4)
REGISTER_ROWS = (3, 4, 6, 8)
"""Beside as many as registers hold: the input channels of a filter are seldom a multiple of these."""
BLOCKS = (1, 2, 4, 8, 16)
"""Register blocks along one side of what a workgroup computes."""


def weight_gradient_schedules(shape: ConvolutionShape, target: CpuTarget) -> Iterator[WeightGradientSchedule]:
    """Those that fit; none where the batch is known only at run time."""
    if shape.tiles is None:
        return
    width = vector_width_for(shape.group_outputs, target.vector_width)
    for vectors in REGISTER_VECTORS:
        most = min(shape.group_inputs, RegisterBlock.most_rows(vectors, target))
        for rows in sorted({most, *(each for each in REGISTER_ROWS if each < most)}):
            for row_blocks in BLOCKS:
                for channel_blocks in BLOCKS:
                    for tile_block in sorted({min(each, shape.tiles) for each in TILE_BLOCKS}):
                        schedule = WeightGradientSchedule(
                            vector_width=width,
                            tile_block=tile_block,
                            row_block=rows * row_blocks,
                            channel_block=vectors * width * channel_blocks,
                            register_rows=rows,
                            register_vectors=vectors,
                        )
                        if misfit(schedule, shape, target) is None:
                            yield schedule
