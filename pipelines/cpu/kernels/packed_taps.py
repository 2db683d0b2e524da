"""Constant filters that workgroups transform in each call: packed while compiling as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.shape import ConvolutionShape


def packed_taps_shape(shape: ConvolutionShape, blocks: ChannelBlocks) -> tuple[int, ...]:
    """channel blocks x C/g x R... x channel_block: the order in which filters are transformed."""
    return (blocks.count, shape.group_inputs, *shape.kernel_size, blocks.size)


def packed_taps_layout(shape: ConvolutionShape) -> FilterLayout:
    """That of one block of them."""
    rank = shape.spatial_rank
    return FilterLayout((*range(1, rank + 1), 0, rank + 1), flipped=False)


def pack_taps(
    filters: npt.NDArray[Any], shape: ConvolutionShape, blocks: ChannelBlocks
) -> npt.NDArray[np.float32]:
    """Filters R... x C/g x K as `packed_taps_shape`."""
    packed = np.empty(packed_taps_shape(shape, blocks), np.float32)
    by_channel = np.moveaxis(filters, -2, 0)
    for number, block in enumerate(packed):
        first = blocks.first(Index(number)).known
        assert first is not None
        block[...] = by_channel[..., first : first + blocks.size]
    return packed
