"""Filters for the kernels: packed while compiling, or transformed and packed by a kernel when loading."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.dialect.reference import copy_matrices
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.vectors import for_each_vector, splat, vector_type

from .depthwise import DepthwiseKernel
from .direct import DirectKernel
from .winograd import WinogradKernel

CpuKernel = WinogradKernel | DirectKernel | DepthwiseKernel

INPUT_CHANNELS = 32
"""Of a workgroup that transforms filters: neighbours of one tap share cache lines in some layouts."""


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
            copy_matrices(by_view[:, view, :, first : first + blocks.size], ordered[:, position])
    return packed


@dataclass(frozen=True)
class FilterTransformKernel:
    """packed[block, a, v*C/g + c, k] = (G g)[a] for view v, of filters in memory as `layout` says.

    With `exact` in float64 and rounded once, as when compiling: for filters that are transformed when the
    program is loaded. Else in float32: for those that a program is called with.
    """

    kernel: CpuKernel
    layout: FilterLayout
    exact: bool

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of output channels, and of the input channels of a group."""
        return (
            Index(self.kernel.blocks.count),
            Index(-(-self.kernel.shape.group_inputs // INPUT_CHANNELS)),
        )

    def emit(self, workgroup: tuple[Index, ...], filters: Buffer, packed: Buffer) -> None:
        """Emits the work of one workgroup: `filters` as `layout` says, `packed` as `packed_filter_shape`."""
        block, width = workgroup[0], self.kernel.schedule.vector_width
        count = min(INPUT_CHANNELS, self.kernel.shape.group_inputs)
        # The last workgroup overlaps its neighbour: both write the same.
        first = (workgroup[1] * INPUT_CHANNELS).minimum(self.kernel.shape.group_inputs - count)
        for position, view in enumerate(self.kernel.view_order):

            def transform_vectors(k: Index, position: int = position, view: int = view) -> None:
                with loop(count, name="c") as c:
                    self._transform((position, view), block, first + c, k, filters, packed)

            for_each_vector(self.kernel.schedule.channel_block, width, transform_vectors, "k")

    def _transform(
        self, view: tuple[int, int], block: Index, c: Index, k: Index, filters: Buffer, packed: Buffer
    ) -> None:
        """Transforms a vector of output channels from `k` on of the block, by one input channel and view."""
        position, number = view
        decomposition, width = self.kernel.shape.decomposition, self.kernel.schedule.vector_width
        parts = product(*map(range, decomposition.part_size))
        taps = dict(zip(parts, decomposition.taps(decomposition.views[number]), strict=True))
        element = ir.F64Type.get() if self.exact else packed.element
        channels = c, self.kernel.blocks.first(block) + k
        first = packed.offset([block, 0, c + position * self.kernel.shape.group_inputs, k])

        def load(place: Position) -> ir.Value:
            tap = taps[tuple(i.known or 0 for i in place)]
            if tap is None:
                return splat(0.0, width, element)
            value = self.layout.load(filters, tap, channels, width)
            return arith.extf(vector_type(width, element), value) if self.exact else value

        def store(place: Position, value: ir.Value) -> None:
            if self.exact:
                value = arith.truncf(vector_type(width, packed.element), value)
            packed.store(value, first + flattened(place, decomposition.alpha) * packed.stride(1))

        recipes = [each.filter for each in decomposition.transforms]
        emit_unrolled(recipes, load, store, self.kernel.target.fused_multiply_add)


@dataclass(frozen=True)
class FilterLayout:
    """How filters lie in memory: dimension `i` of R... x C/g x K is their dimension `permutation[i]`.

    With `flipped` the taps of each dimension R are there from the last to the first.
    """

    permutation: tuple[int, ...]
    flipped: bool

    def load(
        self, filters: Buffer, tap: tuple[int, ...], channels: tuple[Index, Index], width: int
    ) -> ir.Value:
        """The weights of one tap by an input channel and `width` output channels from the second on."""
        *spatial, _, outputs = self.permutation
        if self.flipped:
            tap = tuple(filters.extents[d] - 1 - i for d, i in zip(spatial, tap, strict=True))
        place: list[IndexLike] = [0] * len(self.permutation)
        indices: tuple[IndexLike, ...] = (*tap, *channels)
        for dimension, index in zip(self.permutation, indices, strict=True):
            place[dimension] = index
        first, stride = filters.offset(place), filters.stride(outputs)
        if stride == 1:
            return filters.load(first, width)
        lanes = [filters.load_scalar(first + lane * stride) for lane in range(width)]
        return vector.from_elements(vector_type(width, filters.element), lanes)
