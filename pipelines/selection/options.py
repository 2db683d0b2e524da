"""What a user may ask of the whole pass pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from iree.winograd.passes.infrastructure.option import check_options, is_positive, option

from .precision import Precision, given_error, is_layer_precision

MAX_OUTPUT_TILE = 8
SIZE_LIMIT = 2**31
"""Sizes that are told or expected are below it: numbers of elements are counted in 64 bits."""


@dataclass(frozen=True)
class WinogradOptions:
    """Options of `compile_pipeline`: keywords of the Python API, and flags of `iree-compile`.

    A pass that takes one of them has it as `same_option`. Layers, convolutions and products of rows and a
    matrix, are named by patterns. A number (or a range of them, `4-7`) is that of a convolution, counted from
    0 in program order; any other pattern is a shell-style glob that has to match one of the names in a
    layer's location (`layer1.*`, `*/conv1`). A layer is considered when `allow` is empty or one of its
    patterns matches, and no pattern of `deny` does.

    Raises ValueError when a field is out of range.
    """

    output_tile: int | None = option(
        None,
        f"1 to {MAX_OUTPUT_TILE}",
        "outputs per tile and dimension",
        auto="a choice per layer",
        flag="iree-winograd-output-tile",
        accepts=lambda tile: 1 <= tile <= MAX_OUTPUT_TILE,
    )
    fold_filters: Literal["auto", "compile", "load"] = option(
        "auto",
        purpose="transform constant filters when compiling, or when loading (a smaller file), as `auto` does "
        "where they grow by more than 256 MiB",
        flag="iree-winograd-fold-filters",
    )
    remarks: bool = option(
        False,
        purpose="say of each layer what it became, or why it was left",
        flag="iree-winograd-remarks",
    )
    allow: tuple[str, ...] = option(
        (),
        "patterns",
        "rewrite only layers that one of them matches",
        flag="iree-winograd-allow-layers",
        accepts=all,
    )
    deny: tuple[str, ...] = option(
        (),
        "patterns",
        "leave layers that one of them matches",
        flag="iree-winograd-deny-layers",
        accepts=all,
    )
    precision: Precision = option(
        "as-written",
        purpose="let layers have errors as of products in this type, where no error is given",
        flag="iree-winograd-precision",
    )
    layer_precisions: tuple[str, ...] = option(
        (),
        "patterns with a precision each",
        "let layers have a precision of their own, as in conv1=f32: that of the first pattern that matches",
        flag="iree-winograd-layer-precisions",
        accepts=lambda texts: all(map(is_layer_precision, texts)),
    )
    max_relative_error: float | None = option(
        None,
        "a positive number",
        "give no layer an algorithm with a larger predicted error, relative to its output",
        auto="the target's limit",
        flag="iree-winograd-max-relative-error",
        accepts=is_positive,
    )
    filter_memory_price: float | None = option(
        None,
        "a number of at least 0",
        "microseconds that a layer may take longer for each MiB that its filters take less",
        auto="what a CPU takes to read one from memory, 0 on a GPU",
        flag="iree-winograd-filter-memory-price",
        accepts=lambda price: 0 <= price < inf,
    )
    threads: int | None = option(
        None,
        "a positive integer",
        "threads that the program is going to run on, on a CPU",
        auto="one per core",
        flag="iree-winograd-threads",
        accepts=is_positive,
    )
    machine: str | None = option(
        None,
        "a file",
        "predict times for this machine instead of the one that was calibrated",
        flag="iree-winograd-machine",
        accepts=bool,
    )
    tuning_database: str | None = option(
        None,
        "a file",
        "take what was measured to be fastest, where it was measured, instead of predictions",
        flag="iree-winograd-tuning-database",
        accepts=bool,
    )
    ptxas: str | None = option(
        None,
        "a program",
        "have this assembler make machine code of kernels for CUDA; one that is installed does for sm_90a",
        flag="iree-winograd-ptxas",
        accepts=bool,
    )
    size_hint: tuple[int, ...] = option(
        (),
        f"positive integers below {SIZE_LIMIT}",
        "sizes expected of images whose sizes are known only when the program runs, height before width, and "
        "before these the batch, if it is one",
        flag="iree-winograd-size-hint",
        accepts=lambda sizes: all(is_positive(each) and each < SIZE_LIMIT for each in sizes),
    )
    strict: bool = option(
        False,
        purpose="make every failure of our passes an error",
        flag="iree-winograd-strict",
    )

    @property
    def error_limit(self) -> float | None:
        """What `max_relative_error` is, or else what the precision allows; None for the target's limit."""
        return given_error(self.precision, self.max_relative_error)

    def __post_init__(self) -> None:
        check_options(self)
