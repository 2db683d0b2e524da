"""The schedules of products on matrix units that a warp uses by itself: one for each kind of them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.gpu.device.matrix_unit import (
    COOPERATIVE,
    MATRIX_ROWS,
    MFMA,
    MMA,
    WMMA,
    WMMA_RDNA4,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES

from .matrix import StagedSchedule
from .warps import require_whole_warps, warp_count


@dataclass(frozen=True)
class WarpSchedule(StagedSchedule):
    """How the warps of a workgroup multiply on matrix units: `warp_rows` x `warp_columns` sums each.

    Raises ValueError as `StagedSchedule` does, for blocks that don't divide into such parts, and for those
    that the threads can't copy in equal shares.
    """

    warp_rows: int
    warp_columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_warps(self)
        for rows in (self.block_rows, self.block_columns):
            if rows * self.unit.row_chunks % self.threads or self.threads % self.unit.row_chunks:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    @property
    def joins_sums(self) -> bool:
        return self.unit.joins_sums and self.parts == 2

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.unit.threads * warp_count(self)


@dataclass(frozen=True)
class SplitSchedule(WarpSchedule):
    """On NVIDIA's matrix units through CUDA, from sm_80 on."""

    kind = "split"
    unit = MMA


@dataclass(frozen=True)
class CooperativeSchedule(WarpSchedule):
    """On cooperative matrices of Vulkan.

    Raises ValueError as `WarpSchedule` does, and where stages have no room for the sums of 16 rows of each
    warp, which change hands there.
    """

    kind = "cooperative"
    unit = COOPERATIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sums_quads * QUAD_BYTES > self.stages * self.stage_bytes:
            raise ValueError(f"{self.stages} stages have no room for 16 rows of sums of each warp of {self}")

    @property
    def sums_quads(self) -> int:
        """Of 16 rows of sums of all warps, a quad more from row to row."""
        return self.threads // self.unit.threads * MATRIX_ROWS * (self.warp_columns // QUAD + 1)


@dataclass(frozen=True)
class MfmaSchedule(WarpSchedule):
    """On matrix units of AMD's CDNA, whose warps have 64 threads.

    An instruction multiplies `terms` positions along the reduction: 16, on CDNA 4 also 32 in as many cycles.

    Raises ValueError as `WarpSchedule` does, and for other terms.
    """

    kind = "mfma"
    unit = MFMA
    terms: int = MATRIX_ROWS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.terms not in (MATRIX_ROWS, 2 * MATRIX_ROWS):
            raise ValueError(f"terms must be {MATRIX_ROWS} or {2 * MATRIX_ROWS}, not {self.terms}")


@dataclass(frozen=True)
class WmmaSchedule(WarpSchedule):
    """On matrix units of AMD's RDNA 3."""

    kind = "wmma"
    unit = WMMA


@dataclass(frozen=True)
class WmmaRdna4Schedule(WarpSchedule):
    """On matrix units of AMD's RDNA 4."""

    kind = "wmma-rdna4"
    unit = WMMA_RDNA4
