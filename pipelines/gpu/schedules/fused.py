"""The schedule of the fused kernel."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import RESIDENT_THREADS
from iree.winograd.pipelines.problems.schedule import Schedule

NEIGHBOURING_QUADS = 4
"""Of columns, side by side while products are exchanged: eight threads store two rows of them at once."""


@dataclass(frozen=True)
class FusedSchedule(Schedule):
    """How a workgroup of the fused kernel computes a block of tiles and output channels.

    A workgroup keeps `products` x `block_tiles` x `block_columns` sums in registers while it walks over
    blocks of `block_reduction` input channels, whose transformed inputs and filters it keeps in shared
    memory, `buffers` times: in one buffer, or in two of which one is multiplied while the other is filled. A
    thread keeps `thread_tiles` x `thread_columns` sums of each of `thread_products` products.

    Raises ValueError for sizes that are not positive, blocks that don't divide into such parts, and those
    that the threads can't load in equal shares.
    """

    kind = "fused"

    products: int
    block_tiles: int
    block_columns: int
    block_reduction: int
    thread_products: int
    thread_tiles: int = 8
    thread_columns: int = 8
    buffers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for whole, part in (
            ("products", "thread_products"),
            ("block_tiles", "thread_tiles"),
            ("block_columns", "thread_columns"),
        ):
            if getattr(self, whole) % getattr(self, part):
                raise ValueError(
                    f"{whole} {getattr(self, whole)} must be a multiple of {part} {getattr(self, part)}"
                )
        for name in ("thread_tiles", "thread_columns", "block_reduction"):
            if getattr(self, name) % QUAD:
                raise ValueError(f"{name} {getattr(self, name)} must be a multiple of {QUAD}")
        if self.buffers not in (1, 2):
            raise ValueError(f"buffers must be 1 or 2, not {self.buffers}")
        if self.filter_quads % self.threads:
            raise ValueError(f"{self.threads} threads can't share the loads of {self} equally")
        if self.threads_across % self.neighbouring_quads:
            raise ValueError(
                f"the {self.threads_across} threads along the columns of {self} must be at most "
                f"{NEIGHBOURING_QUADS} or a multiple of it"
            )
        if self.output_rows == 0:
            raise ValueError(f"the products of {self} don't fit in the memory of its filters")

    @property
    def product_threads(self) -> int:
        """Threads that share one product."""
        return self.threads_down * self.threads_across

    @property
    def threads_down(self) -> int:
        """Threads along the tiles of a block."""
        return self.block_tiles // self.thread_tiles

    @property
    def threads_across(self) -> int:
        """Threads along the columns of a block."""
        return self.block_columns // self.thread_columns

    @property
    def neighbouring_quads(self) -> int:
        """Quads of columns that lie side by side when products are exchanged."""
        return min(NEIGHBOURING_QUADS, self.threads_across)

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.products // self.thread_products * self.product_threads

    @property
    def sums(self) -> int:
        """Sums that a thread keeps in registers."""
        return self.thread_products * self.thread_tiles * self.thread_columns

    @property
    def inputs(self) -> int:
        """Tiles of one channel that a workgroup transforms per block of the reduction."""
        return self.block_tiles * self.block_reduction

    @property
    def filter_quads(self) -> int:
        """Quads of transformed filters per block of the reduction."""
        return self.products * self.block_reduction * self.block_columns // QUAD

    @property
    def tile_stride(self) -> int:
        """Elements between rows of transformed inputs: neighbouring threads store to different banks."""
        return self.block_tiles + QUAD

    @property
    def output_rows(self) -> int:
        """Of the rows of each thread, those whose products of one quad of columns fit in shared memory."""
        quads = self.products * self.product_threads
        rows = min(self.thread_tiles, self.buffers * self.filter_quads // quads)
        return max(
            (part for part in (1, 2, 4, 8, 16) if part <= rows and self.thread_tiles % part == 0), default=0
        )

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for operands of such types."""
        rows = self.buffers * self.products * self.block_reduction
        return rows * types.domain_bytes * (self.tile_stride + self.block_columns)

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return RESIDENT_THREADS if self.sums <= 64 else RESIDENT_THREADS // 2
