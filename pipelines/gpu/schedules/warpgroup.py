"""The schedule of products on matrix units that four warps use together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType

from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import OCTET, QUAD
from iree.winograd.pipelines.gpu.device.tensor_map import MAP_ALIGNMENT, MAP_BYTES, MAX_BOX_ROWS
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    registers_of,
)
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import HALF_BYTES, StagedSchedule

COLUMNS = 16
"""What the columns of a block are a multiple of."""
MAX_SUMS = 192
"""A thread's."""
MAX_SHARED_SUMS = 128
"""A thread's where all threads have as many registers: for more those that multiply take some of others."""
MULTIPLYING_REGISTERS: Mapping[int, int] = MappingProxyType({2: 240, 3: 160})
COPYING_REGISTERS: Mapping[int, int] = MappingProxyType({2: 24, 3: 32})
"""Of a thread, where so many warpgroups take some of another one's: of 65536 together."""
BESIDE_GATHERING_REGISTERS, GATHERING_REGISTERS = 208, 88
"""The same where the third one gathers rows, whose addresses it holds."""
BESIDE_SUMS = 26
"""Registers that NVIDIA's assembler asks for beside the sums of an instruction: 12.9 wants 154 for 128."""
STAGE_BARRIERS = 2
"""Of each stage: one says that it is full, one that it is empty."""


@dataclass(frozen=True)
class WarpgroupSchedule(StagedSchedule):
    """How the warpgroups of a workgroup multiply: four warps each for 64 rows and all columns of its blocks.

    `copying_warps` more copy stages: one has them copied as they lie in memory, several gather them from
    images; or one makes a map of the image, and has boxes of `box_rows` pixels copied by one copy each. With
    `walking_workgroups` at most so many walk over all blocks, and the copies of the next one begin before the
    last one is stored. For more than 128 sums of a thread, those that multiply take
    registers of the others, which only whole warpgroups can give: what is missing of four warps idles. With
    several `reduction_parts` as many workgroups each sum a part of the reduction dimension: of all products
    of a tile, or of the `divided_products` last ones, which wouldn't fill the GPU once more. Results of up to
    `result_bytes` each leave through shared memory, a row of a block by one copy that nobody waits for, where
    rows begin and end at multiples of 16 bytes; others, and all without it, by stores of threads. Of
    `alternating_warpgroups` each multiplies blocks of its own, while others store theirs. With a
    `store_width` of eight a thread has the sums of eight neighbours of every 32 columns, not of four of every
    16: in half precision 16 bytes, which it stores at once, also of each part of numbers that are split.

    Raises ValueError as `StagedSchedule` does, for other copying warps than one, two or four, for rows that
    are no multiple of 64 and columns that are none of 16, for more than 192 sums of a thread, for more
    than 128 but in two warpgroups beside one copying warp, for divided products without parts, for boxes that
    aren't copied by one warp, don't divide the rows, or are of more than 256, for warpgroups that alternate
    without walking, over divided products, with memory for results, or with more than 64 rows of numbers that
    are split or summed in blocks, for other store widths than eight, and for one of parts, or of columns that
    are no multiple of 32.
    """

    kind = "warpgroup"

    walking_workgroups: int | None = None
    copying_warps: int = 1
    reduction_parts: int = 1
    divided_products: int | None = None
    result_bytes: int | None = None
    box_rows: int | None = None
    alternating_warpgroups: int | None = None
    store_width: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copying_warps not in (1, 2, 4):
            raise ValueError(f"copying_warps must be 1, 2 or 4, not {self.copying_warps}")
        if self.divided_products is not None and self.reduction_parts == 1:
            raise ValueError(f"divided_products are those of several reduction_parts, not of {self}")
        for name, multiple in (("block_rows", WARPGROUP_ROWS), ("block_columns", COLUMNS)):
            if getattr(self, name) % multiple:
                raise ValueError(f"{name} {getattr(self, name)} must be a multiple of {multiple}")
        is_plain = self.parts == 1 and self.summed_block is None
        if self.alternating_warpgroups is not None and (
            not (is_plain or self.block_rows == WARPGROUP_ROWS)
            or self.walking_workgroups is None
            or self.divided_products is not None
            or self.result_bytes is not None
        ):
            raise ValueError(f"warpgroups alternate over whole sums that they store, not as {self}")
        if self.sums > MAX_SUMS:
            raise ValueError(f"a thread has at most {MAX_SUMS} sums, not the {self.sums} of {self}")
        if self.sums > MAX_SHARED_SUMS and (self.warpgroups, self.resident_workgroups) != (2, 1):
            raise ValueError(
                f"{self.sums} sums of a thread are for one workgroup of two warpgroups, not {self}"
            )
        if self.box_rows is not None and (
            self.gathers or self.block_rows % self.box_rows or self.box_rows > MAX_BOX_ROWS
        ):
            raise ValueError(f"one warp copies blocks by boxes of up to {MAX_BOX_ROWS} rows, not as {self}")
        if self.sums > MAX_SHARED_SUMS and self.gathers:
            raise ValueError(f"warps that gather have no registers to give: {self}")
        if self.store_width is not None and (
            self.store_width != OCTET or self.reduction_parts > 1 or self.block_columns % self._step_columns
        ):
            raise ValueError(f"threads store {OCTET} neighbours of whole sums of 32 columns, not as {self}")

    @property
    def takes_registers(self) -> bool:
        """Whether threads that multiply take registers of those that don't.

        With 168 for each, threads of 128 sums beside a warpgroup that gathers spilled 72 bytes.
        """
        gathers_by_a_warpgroup = self.gathers and self.copying_threads == WARPGROUP_THREADS
        has_others = self.maps_image or (gathers_by_a_warpgroup and self.warpgroups == 2)
        return self.sums > MAX_SHARED_SUMS or (self._is_alone and has_others)

    @property
    def _is_alone(self) -> bool:
        """Whether it has two or three warpgroups that multiply, and a multiprocessor for itself."""
        return self.warpgroups in MULTIPLYING_REGISTERS and self.resident_workgroups == 1

    def maps(self, shape: ConvolutionShape) -> bool:
        """Whether it can have rows copied from images, of half precision: those of a pointwise layer.

        Results take the place of the map, 128 bytes at a multiple of 64 in a row of any block.
        """
        if not self.maps_image or self.parts > 1 or not shape.is_of_single_pixels:
            return False
        # What a stage has behind the last channel is copied as zeros, but not what is of another group.
        has_own = shape.group_inputs % (self.block_reduction if shape.groups > 1 else COPIED) == 0
        has_place = self._last_columns(shape) * HALF_BYTES >= MAP_BYTES + MAP_ALIGNMENT
        return has_own and has_place and not (shape.input_channels_first or shape.output_channels_first)

    def maps_gated(self, shape: ConvolutionShape) -> bool:
        """Whether half as many results, in a tensor of their own, have such a place as well."""
        widths = [
            columns // 2 * HALF_BYTES
            for columns in (self._last_columns(shape), self.block_columns, shape.group_outputs)
        ]
        return widths[0] >= MAP_BYTES + MAP_ALIGNMENT - gcd(MAP_ALIGNMENT, *widths[1:])

    def stores(self, shape: ConvolutionShape) -> bool:
        """Whether threads finish whole results of a convolution, so many neighbours as they store at once."""
        return shape.transform_size == 1 and shape.group_outputs % self.neighbouring_columns == 0

    def _last_columns(self, shape: ConvolutionShape) -> int:
        """Those that the last block has of a shape's outputs."""
        return shape.group_outputs % self.block_columns or self.block_columns

    @property
    def columns_at_once(self) -> int:
        at_launch = registers_of(self.resident_threads)
        sums = WARPGROUP_ROWS * self.block_columns // WARPGROUP_THREADS
        # What assemblers ask for of an instruction, whatever registers threads take of others.
        return self.block_columns // 2 if sums + BESIDE_SUMS > at_launch else self.block_columns

    @property
    def neighbouring_columns(self) -> int:
        return self.store_width or QUAD

    @property
    def finds_rows_once(self) -> bool:
        return True

    @property
    def _step_columns(self) -> int:
        """Those that the threads of a row have neighbours of."""
        return QUAD * self.neighbouring_columns

    @property
    def warpgroups(self) -> int:
        """Those that multiply."""
        return self.alternating_warpgroups or self.block_rows // WARPGROUP_ROWS

    @property
    def multiplying(self) -> int:
        """Warpgroups that multiply a block together."""
        return 1 if self.alternating_warpgroups else self.warpgroups

    @property
    def warpgroup_rows(self) -> int:
        """Of a block, those of a warpgroup."""
        return self.block_rows // self.multiplying

    @property
    def sums(self) -> int:
        """A thread's, of large products, of a block of these, and of small ones."""
        blocks = 0 if self.summed_block is None else 1
        return (self.parts + blocks) * self.warpgroup_rows * self.block_columns // WARPGROUP_THREADS

    @property
    def registers(self) -> int:
        """Of a thread that multiplies."""
        if not self.takes_registers:
            return registers_of(self.resident_threads)
        return BESIDE_GATHERING_REGISTERS if self.gathers else MULTIPLYING_REGISTERS[self.warpgroups]

    @property
    def copying_registers(self) -> int:
        """Of a thread that doesn't, where others take some of its."""
        return GATHERING_REGISTERS if self.gathers else COPYING_REGISTERS[self.warpgroups]

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        copying = WARPGROUP_THREADS if self.takes_registers else self.copying_threads
        return self.warpgroups * WARPGROUP_THREADS + copying

    @property
    def copying_threads(self) -> int:
        return self.copying_warps * WARP_THREADS

    @property
    def gathers(self) -> bool:
        return self.copying_warps > 1

    @property
    def result_row(self) -> int:
        """Elements from a row of results to the next in shared memory: an odd number of what threads have
        neighbours of.

        So the rows that a warp writes at once lie in other banks.
        """
        step = self._step_columns
        return self.block_columns // (2 * step) * (2 * step) + step

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup."""
        results = self.block_rows * self.result_row * (self.result_bytes or 0)
        maps = 2 * MAP_BYTES if self.maps_image else 0
        turns = (self.alternating_warpgroups or 0) * BARRIER_BYTES
        return (
            super().shared_memory_bytes(types)
            + self.stages * STAGE_BARRIERS * BARRIER_BYTES
            + results
            + maps
            + turns
        )
