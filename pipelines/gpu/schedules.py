"""The schedules of the GPU kernels as data, and whether one suits a convolution and a target."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.element_types import F32, ElementTypes
from iree.winograd.pipelines.specification.schedule import Schedule
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .memory import QUAD, QUAD_BYTES
from .target import GpuTarget

DYNAMIC_BATCH = 64
"""What a batch known only at run time counts as."""

RESIDENT_THREADS = 512
"""Threads per multiprocessor that hide each other's latency."""

WARP_THREADS = 32
SPLIT_PRODUCTS = 3
"""Products of fp16 for each of split numbers."""
SPLIT_STAGE = 32
"""Positions along the reduction dimension that split operands are copied by."""
STAGE_ROW_BYTES = 2 * 2 * SPLIT_STAGE
"""Of a row of a stage: high parts and low parts, of fp16."""
MATRIX_ROWS = 16
"""Rows, and columns in two halves, of what matrix units multiply at once."""
NEIGHBOURING_ROWS = 8
"""Blocks of four rows that neighbouring threads load: a quarter of a warp stores to all banks at once."""
NEIGHBOURING_QUADS = 4
"""Of columns, side by side while products are exchanged: eight threads store two rows of them at once."""


@dataclass(frozen=True)
class GemmSchedule(Schedule):
    """How a workgroup multiplies: a block of the product each, a smaller one per thread in registers.

    A workgroup computes `block_rows` x `block_columns` sums over blocks of `block_reduction`, which it keeps
    in shared memory twice: one block is multiplied while the next one is loaded. A thread keeps
    `thread_rows` x `thread_columns` sums. With several `reduction_parts` as many workgroups each sum a part
    of the reduction, and the kernel of the output transform adds the parts.

    Raises ValueError for sizes that are not positive, blocks that don't divide into such parts, and those
    that the threads can't load in equal shares.
    """

    kind = "gemm"

    block_rows: int
    block_columns: int
    block_reduction: int
    thread_rows: int = 8
    thread_columns: int = 8
    reduction_parts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for block, part in (("block_rows", "thread_rows"), ("block_columns", "thread_columns")):
            if getattr(self, part) % QUAD or getattr(self, block) % getattr(self, part):
                raise ValueError(
                    f"{block} {getattr(self, block)} must be a multiple of {part} {getattr(self, part)}, "
                    f"and that a multiple of {QUAD}"
                )
        if self.block_reduction % QUAD:
            raise ValueError(f"block_reduction {self.block_reduction} must be a multiple of {QUAD}")
        if self.block_rows % (QUAD * NEIGHBOURING_ROWS):
            raise ValueError(
                f"block_rows {self.block_rows} must be a multiple of {QUAD * NEIGHBOURING_ROWS}, "
                "which neighbouring threads load"
            )
        if self.left_blocks % self.left_threads or self.right_quads % self.right_threads:
            raise ValueError(f"{self.threads} threads can't share the loads of {self} equally")

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return (self.block_rows // self.thread_rows) * (self.block_columns // self.thread_columns)

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for operands of such types."""
        row, column = types.input_bytes, types.filter_bytes
        return 2 * self.block_reduction * (self.block_rows * row + self.block_columns * column)

    @property
    def left_blocks(self) -> int:
        """The left operand is loaded, and transposed, in blocks of four rows and four columns."""
        return self.block_rows * self.block_reduction // QUAD**2

    @property
    def right_quads(self) -> int:
        """The right operand is loaded in quads."""
        return self.block_columns * self.block_reduction // QUAD

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return RESIDENT_THREADS

    @property
    def splits_loads(self) -> bool:
        """Whether one half of the threads loads the left operand, the other half the right one."""
        return self.left_blocks == self.threads // 2

    @property
    def left_threads(self) -> int:
        """The threads that load the left operand, from the first on."""
        return self.threads // 2 if self.splits_loads else self.threads

    @property
    def right_threads(self) -> int:
        """The threads that load the right operand, up to the last."""
        return self.threads // 2 if self.splits_loads else self.threads


@dataclass(frozen=True)
class SplitSchedule(Schedule):
    """How a workgroup multiplies on matrix units numbers that are split into two fp16 each.

    A workgroup computes `block_rows` x `block_columns` sums, each of its warps `warp_rows` x `warp_columns`.
    Of the operands `stages` of 32 positions along the reduction dimension lie in shared memory: while one is
    multiplied the others are copied. A multiprocessor should have registers for `resident_workgroups`.

    Raises ValueError for sizes that are not positive, blocks that don't divide into such parts, less than two
    stages, and those that the threads can't copy in equal shares.
    """

    kind = "split"

    block_rows: int
    block_columns: int
    warp_rows: int
    warp_columns: int
    stages: int
    resident_workgroups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for block, part in (("block_rows", "warp_rows"), ("block_columns", "warp_columns")):
            if getattr(self, part) % MATRIX_ROWS or getattr(self, block) % getattr(self, part):
                raise ValueError(
                    f"{block} {getattr(self, block)} must be a multiple of {part} {getattr(self, part)}, "
                    f"and that a multiple of {MATRIX_ROWS}"
                )
        if self.stages < 2:
            raise ValueError(f"stages must be at least 2, not {self.stages}")
        for rows in (self.block_rows, self.block_columns):
            if rows * STAGE_ROW_BYTES // QUAD_BYTES % self.threads:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    @property
    def block_reduction(self) -> int:
        """Positions along the reduction dimension of one stage."""
        return SPLIT_STAGE

    @property
    def splits_products(self) -> bool:
        return True

    @property
    def reduction_parts(self) -> int:
        """One workgroup sums all of the reduction."""
        return 1

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return WARP_THREADS * (self.block_rows // self.warp_rows) * (self.block_columns // self.warp_columns)

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return self.resident_workgroups * self.threads

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup; operands of all types are split into fp16."""
        del types
        return self.stages * (self.block_rows + self.block_columns) * STAGE_ROW_BYTES


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
        return rows * (self.tile_stride * types.input_bytes + self.block_columns * types.filter_bytes)

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return RESIDENT_THREADS if self.sums <= 64 else RESIDENT_THREADS // 2


@dataclass(frozen=True)
class GpuDepthwiseSchedule(Schedule):
    """How a workgroup computes depthwise: `threads`, each a quad of channels of one output.

    Neighbouring threads take neighbouring quads, up to `quads` of them, then neighbouring outputs.

    Raises ValueError for sizes that are not positive, and for quads that are no power of two or that the
    threads aren't a multiple of.
    """

    kind = "gpu-depthwise"

    threads: int = 128
    quads: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quads & (self.quads - 1) or self.threads % self.quads:
            raise ValueError(f"quads {self.quads} must be a power of two that divides threads {self.threads}")

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """None, whatever the types."""
        del types
        return 0


TRANSFORM_THREADS = 128
WORKGROUP_QUADS = 16
"""Neighbouring quads of channels that a workgroup of a transform takes: 256 bytes, whole cache lines."""

GpuSchedule = GemmSchedule | SplitSchedule | FusedSchedule | GpuDepthwiseSchedule


def fits(schedule: GpuSchedule, target: GpuTarget, types: ElementTypes = F32) -> bool:
    """Whether the schedule keeps the target's limits for operands of these types."""
    return (
        schedule.threads <= target.max_threads
        and schedule.shared_memory_bytes(types) <= target.shared_memory_bytes
    )


def is_depthwise(shape: ConvolutionShape) -> bool:
    """Whether this is a direct convolution of one input and one output channel per group."""
    return shape.transform_size == 1 and shape.groups == shape.input_channels == shape.output_channels


def refusal(shape: ConvolutionShape, target: GpuTarget, schedule: object) -> str | None:
    """Why the kernels don't compute a convolution by `schedule`, or None where they do."""
    if shape.input_channels_first or shape.output_channels_first:
        return "kernels for GPUs take channels-last images only"
    if not isinstance(schedule, GpuSchedule) or not fits(schedule, target, shape.element_types):
        return f"{schedule} is no schedule for this convolution within the limits of {target}"
    if isinstance(schedule, GpuDepthwiseSchedule) != is_depthwise(shape):
        kind = "a depthwise convolution" if is_depthwise(shape) else "one that is not depthwise"
        return f"{schedule} is no schedule for {kind}"
    if isinstance(schedule, SplitSchedule) and not target.has_matrix_units:
        return f"the target has no matrix units for {schedule}"
    if isinstance(schedule, FusedSchedule) and schedule.products != shape.transform_size:
        products = f"a schedule for {schedule.products} products"
        return f"{products} doesn't suit a convolution that has {shape.transform_size}"
    return None
