"""What IREE 3.13's own code for a target does, as far as passes go by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IreeCode:
    """Facts on the code that IREE makes for a target of what isn't ours."""

    vectorizes_loops: bool = False
    """Whether an innermost loop is as fast as its extent fills vectors."""
    attends_slowly: bool = False
    """Whether attention, as one operation, takes longer than products and softmax by kernels."""
    extrema_lose_nan: bool = False
    """Whether `arith.maximumf` and `arith.minimumf` give the other number for a NaN."""
    reads_slices: bool = False
    """Whether it reads some channels of a tensor where they lie as fast as those of one of their own."""
    writes_slices: bool = False
    """Whether it writes them so, in dispatches that hold the insertion."""
    reductions_race: bool = False
    """Whether it reads what other threads reduced without waiting for them."""
    converts_half: bool = False
    """Whether operations on elements read and write half precision in the time that their bytes take."""
    fails_on_uniform_filters: bool = False
    """Whether convolutions of one tap don't compile whose filter is a single number.

    They become products by it, which the compiler fails to distribute."""
