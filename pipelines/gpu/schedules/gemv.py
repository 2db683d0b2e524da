"""The schedule of products of a few rows and a constant matrix, which take as long as that takes to read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product import ProductSchedule

GEMV_COLUMNS = WARP_THREADS * COPIED
"""Of a block: each thread of a warp loads 16 bytes of the same row of the matrix."""
GEMV_POSITIONS = 8
"""Along the reduction dimension that a thread loads before it multiplies any."""
MAX_GEMV_ROWS = 8
_FEW_ROWS = 2
"""Rows whose sums leave registers for twice as many threads."""
_FACTORS = {F16.name: F16, BF16.name: BF16}


@dataclass(frozen=True)
class GemvSchedule(ProductSchedule):
    """How a workgroup multiplies up to eight rows by 256 columns of a matrix of `multiplied_type`.

    Each of its `warps` has all of these columns, and every so many-th eight positions along the reduction
    dimension. Its threads load 16 bytes of each of them at once, widen them to f32, and multiply all rows by
    them. At the end warps add their sums, in the order of their numbers. With several `reduction_parts` as
    many workgroups each sum a part of the reduction dimension.

    Raises ValueError for sizes that are not positive, more than eight rows, other columns than 256, and
    other types than f16 and bf16.
    """

    kind = "gemv"

    multiplied_type: str = F16.name
    warps: int = 8
    reduction_parts: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_rows > MAX_GEMV_ROWS:
            raise ValueError(f"block_rows must be at most {MAX_GEMV_ROWS}, not {self.block_rows}")
        if self.block_columns != GEMV_COLUMNS:
            raise ValueError(f"block_columns must be {GEMV_COLUMNS}, not {self.block_columns}")
        if self.multiplied_type not in _FACTORS:
            raise ValueError(f"multiplied_type must be f16 or bf16, not {self.multiplied_type}")

    @staticmethod
    def suits(shape: ConvolutionShape) -> bool:
        """Whether a convolution is such a product, of rows of whole quads."""
        if shape.batch is None or shape.unknown_sizes or shape.groups > 1 or shape.input_channels_first:
            return False
        is_pointwise = prod(shape.kernel_size) == 1 and set(shape.strides) == {1} and not shape.pads
        is_direct = shape.transform_size == 1 and shape.input_channels % QUAD == 0
        return is_direct and is_pointwise and shape.batch * prod(shape.output_size) <= MAX_GEMV_ROWS

    @property
    def factors(self) -> Number:
        """What the matrix holds."""
        return _FACTORS[self.multiplied_type]

    @property
    def block_reduction(self) -> int:
        """Positions along the reduction dimension that warps load at once."""
        return self.warps * GEMV_POSITIONS

    def block_of_sum(self, terms: int, *, of_frames: bool = False) -> int:
        return ceil_div(terms, self.reduction_parts * self.warps)

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
        return 1024 if self.block_rows <= _FEW_ROWS else 512

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for the sums of all warps."""
        del types
        return self.warps * self.block_rows * self.block_columns * F32.bytes
