"""What schedules of products of two operands have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.problems.schedule import Schedule


@dataclass(frozen=True)
class ProductSchedule(Schedule, ABC):
    """How a workgroup computes blocks of `block_rows` x `block_columns` sums of products.

    Raises ValueError for sizes that are not positive.
    """

    block_rows: int
    block_columns: int

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a workgroup."""

    @property
    @abstractmethod
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""

    @abstractmethod
    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for operands of such types."""
