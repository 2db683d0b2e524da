"""How one convolution is computed: an algorithm, and the schedule of the kernels that compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.pipelines.backends.schedules import IreeSchedule, schedule_from_record, schedule_record
from iree.winograd.pipelines.problems.schedule import Schedule

Arithmetic = tuple[Algorithm, bool, int, str | None, int | None]
"""What results depend on: see `Implementation.arithmetic`."""


@dataclass(frozen=True)
class Implementation:
    """An algorithm and a schedule for it: the direct convolution and `IreeSchedule` for IREE's own code.

    Raises ValueError for `IreeSchedule` with another algorithm.
    """

    algorithm: Algorithm
    schedule: Schedule

    def __post_init__(self) -> None:
        if self.is_left_to_iree and not self.algorithm.is_direct:
            raise ValueError(f"IREE computes a direct convolution, not {self.algorithm}")

    def __str__(self) -> str:
        record = schedule_record(self.schedule)
        kind = record.pop("kind")
        return " ".join([f"{self.algorithm}, {kind}", *(f"{name}={value}" for name, value in record.items())])

    @property
    def is_left_to_iree(self) -> bool:
        """Whether the convolution stays as it is, for IREE to compile."""
        return isinstance(self.schedule, IreeSchedule)

    @property
    def product_type(self) -> str:
        """The type of both factors of its products."""
        return self.schedule.product_type

    @property
    def arithmetic(self) -> Arithmetic:
        """What others of it differ from in time alone, or nearly so.

        The algorithm, whether it is IREE's own, products of halves, and how many of these matrix units sum,
        and what operands are rounded to.
        """
        products = self.schedule.matrix_products
        summed = self.schedule.summed_block if products else None
        return self.algorithm, self.is_left_to_iree, products, self.schedule.multiplied_type, summed


def implementation_record(implementation: Implementation) -> dict[str, Any]:
    """`implementation` in the types of JSON."""
    return {
        "output_tile": list(implementation.algorithm.output_tile),
        "part_size": list(implementation.algorithm.part_size),
        "schedule": schedule_record(implementation.schedule),
    }


def implementation_from_record(record: Mapping[str, Any]) -> Implementation:
    """The implementation of a record. Raises ValueError for a record that is none."""
    try:
        algorithm = Algorithm(tuple(record["output_tile"]), tuple(record["part_size"]))
        return Implementation(algorithm, schedule_from_record(record["schedule"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an implementation of a convolution: {error}") from None
