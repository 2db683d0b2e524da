"""What schedules of products on matrix units have in common."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_FACTORS, MATRIX_ROWS, MMA, MatrixUnit
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_ROWS
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product import ProductSchedule

SPLIT_PRODUCTS = 3
"""Products of fp16 for each of numbers that are split into two of these."""
ROUNDED_PRODUCTS = 1
"""The same of numbers that are rounded to fp16."""
MATRIX_TERMS = MATRIX_ROWS
"""Products that matrix units add to a sum at once."""
HALF_BYTES = 2
"""Of a number of half precision."""
HALF_TYPES = MappingProxyType({each.name: each for each in (MATRIX_FACTORS, BF16)})
"""The numbers that matrix units multiply, by their names in MLIR."""
STAGE_ROW_BYTES = HALF_BYTES * MMA.stage_row
"""Those of NVIDIA's matrix units."""


def stored_result_bytes(shape: ConvolutionShape) -> int:
    """Of an element as it is stored, which may be known before it is so."""
    return shape.element_types.result_bytes if shape.rounded_type is None else HALF_BYTES


@dataclass(frozen=True)
class MatrixSchedule(ProductSchedule, ABC):
    """How a workgroup multiplies half precision on matrix units, and what its numbers are of fp32's.

    A workgroup computes blocks of `block_rows` x `block_columns` sums. For each product of fp32's there are
    so many `products`: three of numbers that are split into two, with fp32's accuracy, or one of rounded
    numbers. These are fp16, scaled by powers of two; or of the `multiplied_type`, as they are: bf16, which
    has fp32's exponents, or f16 for numbers that all are. Matrix units truncate when they add: they sum
    `summed_block` large products, all of them by default, and these blocks are added to each other in fp32,
    rounded to nearest.

    Raises ValueError for sizes that are not positive, other numbers of products, blocks that matrix units
    don't sum in whole steps, and for other types than these, split ones or units that don't multiply bf16.
    """

    unit: ClassVar[MatrixUnit] = MMA
    """The matrix units that it is for."""

    products: int = field(default=SPLIT_PRODUCTS, kw_only=True)
    summed_block: int | None = field(default=None, kw_only=True)
    multiplied_type: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multiplied_type is not None:
            takes_halves = self.unit.multiplies_bf16 and self.products == ROUNDED_PRODUCTS
            if self.multiplied_type not in HALF_TYPES or not takes_halves:
                raise ValueError(f"no product of {self.unit.name} units is as {self} has it")
        if self.products not in (ROUNDED_PRODUCTS, SPLIT_PRODUCTS):
            raise ValueError(f"products must be {ROUNDED_PRODUCTS} or {SPLIT_PRODUCTS}, not {self.products}")
        if self.summed_block is not None and self.summed_block % MATRIX_TERMS:
            raise ValueError(f"summed_block {self.summed_block} must be a multiple of {MATRIX_TERMS}")

    @property
    def factors(self) -> Number:
        """What is multiplied."""
        return MATRIX_FACTORS if self.multiplied_type is None else HALF_TYPES[self.multiplied_type]

    @property
    def scales_operands(self) -> bool:
        """Whether numbers are scaled before they are rounded."""
        return self.multiplied_type is None

    @property
    def parts(self) -> int:
        """Numbers of half precision that stand for one of fp32."""
        return 2 if self.products == SPLIT_PRODUCTS else 1

    @property
    def block_reduction(self) -> int:
        """Positions along the reduction dimension of one stage."""
        return self.unit.stage_row // self.parts

    @property
    def matrix_products(self) -> int:
        return self.products

    @property
    def warp_threads(self) -> int:
        """Threads that use a matrix unit together."""
        return self.unit.threads

    @property
    def gathers(self) -> bool:
        """Whether its threads gather stages from images that they can multiply as they are."""
        return False

    @property
    def columns_at_once(self) -> int:
        """That an instruction of four warps multiplies."""
        return self.block_columns

    @property
    def neighbouring_columns(self) -> int:
        """Of a block, those of which a thread has the sums side by side: of every four times as many."""
        return QUAD

    @property
    def finds_rows_once(self) -> bool:
        """Whether threads find the place of a row of results once, not of each that they store of it."""
        return False

    @property
    def warpgroup_rows(self) -> int:
        """Of a block, those of four warps."""
        return WARPGROUP_ROWS

    @property
    def box_rows(self) -> int | None:
        """Rows of a stage that a thread has copied at once, where they are pixels of such images."""
        return None

    @property
    def maps_image(self) -> bool:
        """Whether stages have such rows, for which a kernel makes a map of the image."""
        return self.box_rows is not None

    def maps(self, shape: ConvolutionShape) -> bool:
        """Whether it can do so of the images of a convolution."""
        del shape
        return False

    @property
    def reduction_parts(self) -> int:
        """One workgroup sums all of the reduction."""
        return 1

    @property
    def divided_products(self) -> int | None:
        """The last products of a tile whose reduction is in parts; None for all."""
        return None


@dataclass(frozen=True)
class StagedSchedule(MatrixSchedule, ABC):
    """How a workgroup multiplies operands that a kernel before it left as they lie in shared memory.

    `stages` of them are there: while one is multiplied the others are copied. A multiprocessor should have
    registers for `resident_workgroups`.

    Raises ValueError as `MatrixSchedule` does, for less than two stages, and where matrix units sum parts of
    a stage.
    """

    stages: int = field(kw_only=True)
    resident_workgroups: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages < 2:
            raise ValueError(f"stages must be at least 2, not {self.stages}")
        if self.summed_block is not None and self.summed_block % self.block_reduction:
            raise ValueError(f"summed_block {self.summed_block} must be a multiple of {self.block_reduction}")

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return self.resident_workgroups * self.threads

    @property
    def summed_stages(self) -> int:
        """Stages of a block of sums; one where there are no blocks."""
        return (self.summed_block or self.block_reduction) // self.block_reduction

    @property
    def stage_bytes(self) -> int:
        """Of both operands."""
        return (self.block_rows + self.block_columns) * self.unit.shared_row_bytes

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup; operands of all types become half precision."""
        del types
        return self.stages * self.stage_bytes
