"""Filters for the fused kernel: packed while compiling, or transformed and packed by a kernel when loading."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emit import Buffer, Index, for_each_vector, loop, splat, vector_type
from iree.winograd.pipelines.emit_recipe import emit_nested

from .fused import FusedKernel


def pack_filters(kernel: FusedKernel, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The transformed filters [A, V*C, K] in the order in which `kernel` reads them, `packed_filter_shape`."""
    packed = np.empty(kernel.packed_filter_shape, np.float32)
    for block in range(kernel.channel_blocks):
        first = kernel.first_channel(block)
        packed[block] = transformed[:, :, first : first + kernel.schedule.channel_block]
    return packed


def emit_filter_transform(kernel: FusedKernel, block: Index, filters: Buffer, packed: Buffer) -> None:
    """packed[block, a, v*C + c, k] = (G g)[a] for view v, in float64 and rounded once as compile time does.

    `filters` is R... x C x K, `packed` is `packed_filter_shape`; one workgroup packs one block of channels.
    """
    shape, schedule = kernel.shape, kernel.schedule
    decomposition = shape.decomposition
    recipes = [
        transforms(m, p).filter
        for m, p in zip(decomposition.output_tile, decomposition.part_size, strict=True)
    ]
    width = schedule.vector_width
    first_channel = (block * schedule.channel_block).minimum(shape.output_channels - schedule.channel_block)
    double = vector_type(width, ir.F64Type.get())
    for number, view in enumerate(decomposition.views):
        taps = dict(
            zip(product(*map(range, decomposition.part_size)), decomposition.taps(view), strict=True)
        )
        with loop(shape.input_channels, name="c") as c:

            def transform_vector(k: Index, c: Index = c, number: int = number, taps: Any = taps) -> None:
                elements = {
                    position: splat(0.0, width, ir.F64Type.get())
                    if tap is None
                    else arith.extf(double, filters.load(filters.offset([*tap, c, first_channel + k]), width))
                    for position, tap in taps.items()
                }
                transformed = emit_nested(recipes, elements, kernel.target.fused_multiply_add)
                row = c + number * shape.input_channels
                for a, position in enumerate(product(*map(range, decomposition.alpha))):
                    value = arith.truncf(vector_type(width), transformed[position])
                    packed.store(value, packed.offset([block, a, row, k]))

            for_each_vector(schedule.channel_block, width, transform_vector, "k")
