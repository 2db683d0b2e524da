"""Filters for the kernels: packed while compiling, or transformed and packed by a kernel when loading."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.vocabulary import (
    Buffer,
    Index,
    for_each_vector,
    loop,
    splat,
    vector_type,
)

from .depthwise import DepthwiseKernel
from .direct import DirectKernel
from .winograd import WinogradKernel

CpuKernel = WinogradKernel | DirectKernel | DepthwiseKernel


def pack_filters(kernel: CpuKernel, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The transformed filters [A*g, V*C/g, K/g] as `packed_filter_shape`, in the order of reading."""
    shape, blocks = kernel.shape, kernel.blocks
    group_channels = shape.group_inputs
    by_group = transformed.reshape(
        shape.transform_size, shape.groups, len(kernel.view_order), group_channels, -1
    )
    by_view = np.moveaxis(by_group, 1, -2).reshape(*by_group.shape[:1], *by_group.shape[2:4], -1)
    packed = np.empty(kernel.packed_filter_shape, np.float32)
    for number, block in enumerate(packed):
        first = blocks.first(Index(number)).known
        assert first is not None
        ordered = block.reshape(shape.transform_size, len(kernel.view_order), group_channels, blocks.size)
        for position, view in enumerate(kernel.view_order):
            ordered[:, position] = by_view[:, view, :, first : first + blocks.size]
    return packed


def emit_filter_transform(kernel: CpuKernel, block: Index, filters: Buffer, packed: Buffer) -> None:
    """packed[block, a, v*C/g + c, k] = (G g)[a] for view v, in float64 and rounded once as compile time does.

    `filters` is R... x C/g x K, `packed` is `packed_filter_shape`; one workgroup packs one block of channels.
    """
    shape = kernel.shape
    decomposition = shape.decomposition
    group_channels = shape.group_inputs
    recipes = [each.filter for each in decomposition.transforms]
    width = kernel.schedule.vector_width
    double = vector_type(width, ir.F64Type.get())
    first_channel = kernel.blocks.first(block)
    for order, number in enumerate(kernel.view_order):
        parts = product(*map(range, decomposition.part_size))
        taps = dict(zip(parts, decomposition.taps(decomposition.views[number]), strict=True))

        def load(tap: tuple[int, ...] | None, c: Index, k: Index) -> ir.Value:
            if tap is None:
                return splat(0.0, width, ir.F64Type.get())
            return arith.extf(double, filters.load(filters.offset([*tap, c, first_channel + k]), width))

        def transform_vector(
            c: Index, k: Index, taps: dict[tuple[int, ...], tuple[int, ...] | None] = taps, order: int = order
        ) -> None:
            first = packed.offset([block, 0, c + order * group_channels, k])

            def store(position: Position, value: ir.Value) -> None:
                number = flattened(position, decomposition.alpha)
                packed.store(
                    arith.truncf(vector_type(width, packed.element), value), first + number * packed.stride(1)
                )

            emit_unrolled(
                recipes,
                lambda position: load(taps[tuple(i.known or 0 for i in position)], c, k),
                store,
                kernel.target.fused_multiply_add,
            )

        with loop(group_channels, name="c") as c:
            for_each_vector(kernel.schedule.channel_block, width, partial(transform_vector, c), "k")
