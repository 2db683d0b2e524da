"""The schedules of the CPU kernels as data, and the memory that workgroups need for them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.specification.schedule import Schedule
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .product import Product, RegisterBlock
from .target import CpuTarget


@dataclass(frozen=True)
class WinogradSchedule(Schedule):
    """How one workgroup of the Winograd kernel works through its block of tiles.

    `tile_block` tiles are transformed, multiplied and transformed back while they stay in the L2 cache. The
    product keeps `register_tiles` x `register_vectors` accumulators of `vector_width` lanes in registers, and
    adds up channels in blocks of `reduction_block`: sums of sums, which costs little and rounds less than one
    long sum. `interleaved_sums` of each accumulator take channels in turn and are added up at the end of a
    block: shorter sums without more blocks. Filters are fetched `filter_prefetch` channels ahead: the
    hardware's prefetcher stops at every page. `channel_splits` workgroups share a tile block, each computing
    its part of the output channels; the input is then transformed by workgroups of their own, `input_block`
    tiles each, None where it is not.

    Raises ValueError for sizes that are not positive.
    """

    kind = "winograd"

    vector_width: int
    tile_block: int
    register_tiles: int
    register_vectors: int
    reduction_block: int
    interleaved_sums: int = 1
    filter_prefetch: int = 96
    channel_splits: int = 1
    input_block: int | None = None

    @property
    def product(self) -> Product:
        """What multiplies a register block of transformed tiles."""
        return RegisterBlock(
            rows=self.register_tiles,
            vectors=self.register_vectors,
            width=self.vector_width,
            filter_prefetch=self.filter_prefetch,
            interleaved_sums=self.interleaved_sums,
        )

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the transformed tiles."""
        return self.product.channels

    @property
    def summed_block(self) -> int:
        """Products that one of the sums of a block takes."""
        return self.product.summed(self.reduction_block)


@dataclass(frozen=True)
class DirectSchedule(Schedule):
    """How one workgroup of the direct kernel works through its rows of outputs.

    `register_pixels` x `register_vectors` sums of `vector_width` lanes are kept in registers. `row_block`
    rows of `pixel_block` outputs share each block of filters while it is in the L2 cache. `filter_prefetch`
    and `channel_splits` are as in `WinogradSchedule`.

    Raises ValueError for sizes that are not positive.
    """

    kind = "direct"

    vector_width: int
    register_pixels: int
    register_vectors: int
    row_block: int
    pixel_block: int
    filter_prefetch: int = 96
    channel_splits: int = 1

    @property
    def product(self) -> Product:
        """What multiplies a register block of pixels."""
        return RegisterBlock(
            rows=self.register_pixels,
            vectors=self.register_vectors,
            width=self.vector_width,
            filter_prefetch=self.filter_prefetch,
        )

    @property
    def channel_block(self) -> int:
        """Output channels of one pass over the pixels."""
        return self.product.channels


@dataclass(frozen=True)
class DepthwiseSchedule(Schedule):
    """How one workgroup of the depthwise kernel works through its rows of outputs.

    `register_pixels` sums of `vector_width` lanes are kept in registers. `row_block` rows of outputs are
    computed for `vectors_per_pass` vectors of channels before the next ones, so that rows of the input are
    still in the L1 cache when the next row of outputs reads them. `channel_splits` workgroups share a block
    of rows, each computing its part of the channels.

    Raises ValueError for sizes that are not positive.
    """

    kind = "depthwise"

    vector_width: int
    register_pixels: int
    row_block: int
    vectors_per_pass: int
    channel_splits: int = 1

    @property
    def channel_block(self) -> int:
        """Output channels of one block of filters: those of a vector."""
        return self.vector_width


ROW_PADDING = 16
"""f32 elements after each row of transformed tiles: rows a power of two apart would share few cache sets."""


def direct_workgroup_bytes(
    shape: ConvolutionShape, row_block: int, pixel_block: int, target: CpuTarget
) -> int:
    """The most memory of its own that a workgroup of the direct kernel takes: the copy of its input, and a
    register block of sums that wait for an epilogue."""
    sums = target.vector_registers * target.vector_width
    types = shape.element_types
    staged = types.input_bytes * staged_elements(shape, row_block, pixel_block)
    return staged + types.accumulator_bytes * sums


def staged_elements(shape: ConvolutionShape, row_block: int, pixel_block: int) -> int:
    """Elements that a copy of a block's input has at most, a row for each row of outputs and outer tap."""
    rows = row_block * prod(shape.decomposition.kernel_size[:-1])
    return rows * input_columns(shape, pixel_block) * (shape.input_channels + ROW_PADDING)


def input_columns(shape: ConvolutionShape, pixel_block: int) -> int:
    """Elements of the input's last spatial dimension that a row of `pixel_block` outputs spans."""
    decomposition = shape.decomposition
    last_tap = (decomposition.kernel_size[-1] - 1) * decomposition.dilation[-1]
    return (pixel_block - 1) * decomposition.step[-1] + last_tap + 1
