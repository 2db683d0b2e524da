"""Filters for the kernels: packed while compiling, or transformed and packed by a kernel when loading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.bf16 import bf16_bits
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.reference import copy_matrices
from iree.winograd.passes.match.values.conversions import holds
from iree.winograd.pipelines.cpu.tiles.filter_transform import FilterTransform
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.emission.vectors import for_each_vector
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.schedule import Schedule

if TYPE_CHECKING:
    from .bf16_vectors import Bf16VectorKernel
    from .depthwise import DepthwiseKernel
    from .direct import DirectKernel
    from .half_matrix_unit import HalfMatrixUnitKernel
    from .matrix_unit import MatrixUnitKernel
    from .winograd import WinogradKernel

    CpuKernel = (
        WinogradKernel
        | DirectKernel
        | DepthwiseKernel
        | MatrixUnitKernel
        | HalfMatrixUnitKernel
        | Bf16VectorKernel
    )

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
    packed = np.zeros(kernel.packed_filter_shape, np.float32)
    for number, block in enumerate(packed):
        first = blocks.first(Index(number)).known
        assert first is not None
        ordered = block.reshape(shape.transform_size, len(kernel.view_order), group_channels, blocks.size)
        for position, view in enumerate(kernel.view_order):
            weights = by_view[:, view, :, first : first + blocks.size]
            # Lanes past the last channel stay zero.
            copy_matrices(weights, ordered[:, position, :, : weights.shape[-1]])
    return packed


def stored_filters(packed: npt.NDArray[np.float32], schedule: Schedule) -> npt.NDArray[Any]:
    """Packed filters in the type that they are stored in, if it has all of them; bf16 as its bits, uint16.

    IREE converts no constants of bf16.
    """
    name = schedule.stored_filter_type
    if name is None or not holds(NUMBERS[name].type, packed):
        return packed
    return bf16_bits(packed) if name == BF16.name else packed.astype(np.float16)


@dataclass(frozen=True)
class FilterTransformKernel:
    """packed[block, a, v*C/g + c, k] = (G g)[a] for view v, of filters in memory as `layout` says.

    With `exact` in float64 and rounded once, as when compiling: for filters that are transformed when the
    program is loaded. Else in float32: for those that a program is called with.
    """

    kernel: CpuKernel
    layout: FilterLayout
    exact: bool

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of output channels, and of the input channels of a group."""
        return (
            Index(self.kernel.blocks.count),
            Index(ceil_div(self.kernel.shape.group_inputs, INPUT_CHANNELS)),
        )

    def emit(self, work: Work, filters: Buffer, packed: Buffer) -> None:
        """Emits the work of one workgroup: `filters` as `layout` says, `packed` as `packed_filter_shape`."""
        block, width = work.workgroup[0], self.kernel.schedule.vector_width
        count = min(INPUT_CHANNELS, self.kernel.shape.group_inputs)
        # The last workgroup overlaps its neighbour: both write the same.
        first = (work.workgroup[1] * INPUT_CHANNELS).minimum(self.kernel.shape.group_inputs - count)
        shape, channel_block = self.kernel.shape, self.kernel.schedule.channel_block
        transform = FilterTransform(
            shape,
            self.kernel.target,
            self.layout,
            width,
            self.exact,
            leaves_lanes_out=channel_block > shape.output_channels,
        )
        for position, view in enumerate(self.kernel.view_order):

            def transform_vectors(k: Index, position: int = position, view: int = view) -> None:
                column = position * self.kernel.shape.group_inputs
                with loop(count, name="c") as c:
                    channels = first + c, self.kernel.blocks.first(block) + k
                    place = packed.offset([block, 0, first + c + column, k])
                    transform.emit(view, channels, filters, packed, place)

            for_each_vector(self.kernel.schedule.channel_block, width, transform_vectors, "k")
