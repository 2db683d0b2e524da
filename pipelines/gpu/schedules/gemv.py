"""The schedule of products of a few rows and a constant matrix, which take as long as that takes to read."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product import ProductSchedule

GEMV_LOADS = 8
"""Of 16 bytes, that a thread has under way before it multiplies any."""
MAX_GEMV_ROWS = 8
"""Of a block: the columns of a product of NVIDIA's matrix units."""
MAX_GEMV_LAYER_ROWS = 32
"""Of all blocks, each of which reads the matrix."""
MAX_GEMV_HALF_ROWS = 784
"""The same of numbers of half precision: 196 by 112 x 672 and back took an H200 2.1 us a layer, by larger
blocks 3.4, 784 by 40 x 240 1.9 and 2.5, 49 by 368 x 368 1.8 and 3.5, 196 by 256 x 1024 3.2 and 3.6."""
MAX_GEMV_TINY, MAX_GEMV_TINY_ROWS = 1 << 11, 2048
"""Elements of a matrix that a warp or two load at once, and the same of rows by it: 1936 by 32 x 9 and back
took an H200 1.6 us a layer for 2.1, 3136 by 24 x 32 1.6 for 1.5, 4096 by 32 x 12 1.7 for 1.3."""
MAX_GEMV_F32_ROWS, MAX_GEMV_PRODUCTS = 512, 10 << 20
"""The same of numbers of f32, and multiply-adds of these rows: 484 by 128 x 64 took an H200 1.8 us, by larger
blocks 3.2, 256 by 96 x 384 2.7 and 4.0, 484 by that 4.6 and 4.2."""
MAX_GEMV_REREAD = 1 << 18
"""Elements of a matrix that several blocks read: those of squeeze and excitation have fewer."""
_MOST_COLUMNS = 128
"""Of a block of f32: all threads of a warp load 16 bytes of the same row of the matrix."""
_MOST_MATRIX_COLUMNS = 64
"""Of a block on matrix units, whose sums leave registers for 768 threads."""
_FACTORS = {None: F32, F16.name: F16, BF16.name: BF16}


@dataclass(frozen=True)
class GemvSchedule(ProductSchedule):
    """How a workgroup multiplies up to eight rows by a block of columns of a matrix.

    Its threads load eight times 16 bytes of the matrix at once. Numbers of `multiplied_type` are multiplied
    on matrix units, on which the rows are the eight columns of the right operand; without one, numbers of f32
    by multiply-adds. Each of the `warps` has all columns of the block, and every so many-th positions along
    the reduction dimension. At the end warps add their sums, in the order of their numbers. With several
    `reduction_parts` as many workgroups each sum a part of the reduction dimension.

    Raises ValueError for sizes that are not positive, more than eight rows, columns that aren't a power of
    two from 4 to 128 of f32 or 16 to 64 of half precision, and other types than f16 and bf16.
    """

    kind = "gemv"

    multiplied_type: str | None = None
    warps: int = 8
    reduction_parts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_rows > MAX_GEMV_ROWS:
            raise ValueError(f"block_rows must be at most {MAX_GEMV_ROWS}, not {self.block_rows}")
        if self.multiplied_type not in _FACTORS:
            raise ValueError(f"multiplied_type must be f16, bf16 or None, not {self.multiplied_type}")
        known = gemv_columns(self.multiplied_type)
        if self.block_columns not in known:
            raise ValueError(
                f"block_columns must be one of {', '.join(map(str, known))}, not {self.block_columns}"
            )

    @staticmethod
    def suits(shape: ConvolutionShape, multiplied_type: str | None) -> bool:
        """Whether a convolution is such a product: of few rows, or by a small matrix; in f32 of whole quads.

        The rows themselves may be stored in f32, whatever type their numbers are multiplied in.
        """
        if shape.batch is None or shape.groups > 1 or shape.input_channels_first:
            return False
        is_pointwise = prod(shape.kernel_size) == 1 and not shape.pads
        is_direct = shape.transform_size == 1 and (
            shape.input_channels % QUAD == 0 or multiplied_type is not None
        )
        rows, elements = shape.batch * prod(shape.output_size), shape.reduction * shape.group_outputs
        most = MAX_GEMV_ROWS
        if elements <= MAX_GEMV_REREAD:
            most = MAX_GEMV_LAYER_ROWS
            is_small = rows <= MAX_GEMV_F32_ROWS and rows * elements <= MAX_GEMV_PRODUCTS
            if multiplied_type is not None:
                most = MAX_GEMV_HALF_ROWS if elements > MAX_GEMV_TINY else MAX_GEMV_TINY_ROWS
            elif is_small:
                most = MAX_GEMV_F32_ROWS
        return is_direct and is_pointwise and rows <= most

    @property
    def factors(self) -> Number:
        """What the matrix holds."""
        return _FACTORS[self.multiplied_type]

    @property
    def on_matrix_units(self) -> bool:
        return self.multiplied_type is not None

    @property
    def matrix_products(self) -> int:
        return 1 if self.on_matrix_units else 0

    @property
    def loaded_elements(self) -> int:
        """Of the matrix, that a thread loads at once."""
        return QUAD_BYTES // self.factors.bytes

    @property
    def warp_positions(self) -> int:
        """Positions along the reduction dimension that a warp loads before it multiplies any."""
        return GEMV_LOADS * WARP_THREADS * self.loaded_elements // self.block_columns

    @property
    def block_reduction(self) -> int:
        """Positions along the reduction dimension that warps load at once."""
        return self.warps * self.warp_positions

    def block_of_sum(self, terms: int, *, of_frames: bool = False) -> int:
        shared = self.reduction_parts * self.warps
        if self.on_matrix_units:
            return ceil_div(terms, shared)
        # Threads of a warp have sums of their own, which they add by pairs: no blocks are as accurate.
        return max(ceil_div(terms, shared * self.warp_positions // GEMV_LOADS), isqrt(terms))

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.warps * WARP_THREADS

    @property
    def warp_threads(self) -> int:
        return WARP_THREADS

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return 768 if self.on_matrix_units or self.block_rows < MAX_GEMV_ROWS else 512

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for the sums of all warps."""
        del types
        return self.warps * self.block_rows * self.block_columns * F32.bytes


def gemv_columns(multiplied_type: str | None) -> tuple[int, ...]:
    """The columns that a block may have."""
    least, most = (QUAD, _MOST_COLUMNS) if multiplied_type is None else (MATRIX_ROWS, _MOST_MATRIX_COLUMNS)
    return tuple(least << power for power in range((most // least).bit_length()))
