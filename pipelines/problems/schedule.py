"""What all schedules have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iree.winograd.dialect.algebra.numerics import summed_block

FILTER_TRANSFORM_STAGE = "filter transform"
"""The name of the stage that transforms a filter which is known only when the program runs."""
LAUNCH_STAGE = "launch"
"""From the ends of a GPU's kernels to the beginnings of those behind them."""


@dataclass(frozen=True)
class Schedule:
    """How kernels work through an algorithm, as data: a frozen dataclass of what a tuner may vary.

    Its fields are numbers and names of types.

    Raises ValueError for numbers that are not positive.
    """

    kind: ClassVar[str]
    """What it is called in annotations and records: the kernel, or the kernels, that it is for."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @property
    def summed_block(self) -> int | None:
        """Products that are summed one after the other, which is what sums round by; None for all of them."""
        return None

    def block_of_sum(self, terms: int, *, of_frames: bool = False) -> int | None:
        """`summed_block` of a sum of so many products, maybe one of the frames of a signal."""
        return self.summed_block

    @property
    def apart_from_sums(self) -> Schedule:
        """What it shares with those that do the same in the same order but for how long sums are."""
        return self

    @property
    def transforms_filters(self) -> bool:
        """Whether the kernel takes filters as they are, and transforms them itself in each call."""
        return False

    @property
    def stored_filter_type(self) -> str | None:
        """The type of half precision that filters are stored in, where it has all of them; None for none."""
        return None

    @property
    def matrix_products(self) -> int:
        """Products of half precision on matrix units for each of single precision: three of numbers that are
        split into two, one of rounded ones; zero where there are none."""
        return 0

    @property
    def joins_sums(self) -> bool:
        """Whether small ones of three such products are added to the sums of large ones."""
        return False

    @property
    def multiplied_type(self) -> str | None:
        """The type that both operands are rounded to before they are multiplied; None where they aren't."""
        return None

    @property
    def left_out_type(self) -> str | None:
        """The type of which both operands have a rest, whose product is left out; None for none."""
        return None

    def rounded_type(self, exact_type: str | None) -> str | None:
        """`multiplied_type`, None for operands whose numbers are all of that type."""
        return None if self.multiplied_type == exact_type else self.multiplied_type

    @property
    def product_type(self) -> str:
        """The type of both factors of a product, f32 for those that are split into parts."""
        if self.multiplied_type is not None:
            return self.multiplied_type
        return "f16" if self.matrix_products == 1 else "f32"

    def keeps_operands(self, exact_type: str | None, *, are_transformed: bool) -> bool:
        """Whether operands lose no accuracy when they are multiplied, whose numbers are all of `exact_type`.

        One product on matrix units is of numbers that are scaled by powers of two and rounded to fp16, which
        changes none of f16 and bf16 that counts: what is 2^-27 of the largest of a row keeps all of f16's 11
        bits, what is 2^-30 of it all of bf16's 8. Transformed ones have more bits.
        """
        if self.rounded_type(exact_type) is not None:
            return False
        return self.matrix_products != 1 or (exact_type is not None and not are_transformed)


@dataclass(frozen=True)
class RunningSumSchedule(Schedule):
    """One of a kernel that adds products one after the other, and in blocks where they are many."""

    def block_of_sum(self, terms: int, *, of_frames: bool = False) -> int | None:
        return summed_block(terms, of_frames=of_frames)
