"""What `winograd-select-algorithm` decides of a convolution, and the attribute that says so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from iree.winograd.dialect.attributes import sizes_attribute, sizes_of
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition, decompose
from iree.winograd.passes.infrastructure.registry import PassError
from iree.winograd.passes.infrastructure.unit import ORIGIN_ATTRIBUTE_NAME
from iree.winograd.passes.match.unknown_sizes.expected_size import (
    EXPECTED_BATCH_ATTRIBUTE_NAME,
    EXPECTED_SIZE_ATTRIBUTE_NAME,
)

ATTRIBUTE_NAME = "winograd.algorithm"
SCHEDULE_ATTRIBUTE_NAME = "winograd.schedule"
"""How the target's kernels work through the algorithm; a convolution hands it to the product it becomes."""
SCHEDULE_RANGES_ATTRIBUTE_NAME = "winograd.schedule_ranges"
"""Those for images of other sizes beside it, where these are known only at run time: each with its algorithm,
if that is another one."""
KEEPS_FILTER_ATTRIBUTE_NAME = "winograd.keeps_filter"
"""On what has a schedule that rounds filters, by which its own isn't: scaled, it would be."""
TAKES_FILTER_ATTRIBUTE_NAME = "winograd.takes_filter"
"""On what has a schedule whose kernel transforms filters in each call, or kernels of several algorithms: they
stay as they are until then."""

_HANDED_OVER = (
    SCHEDULE_ATTRIBUTE_NAME,
    SCHEDULE_RANGES_ATTRIBUTE_NAME,
    ORIGIN_ATTRIBUTE_NAME,
    KEEPS_FILTER_ATTRIBUTE_NAME,
    TAKES_FILTER_ATTRIBUTE_NAME,
    EXPECTED_SIZE_ATTRIBUTE_NAME,
    EXPECTED_BATCH_ATTRIBUTE_NAME,
)


class Windowed(Protocol):
    """What an algorithm needs to know of a convolution: sizes per spatial dimension."""

    @property
    def kernel_size(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dilations(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Algorithm:
    """F(output_tile, part_size), one size per spatial dimension of each."""

    output_tile: tuple[int, ...]
    part_size: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = (*self.output_tile, *self.part_size)
        if len(self.output_tile) != len(self.part_size) or min(sizes, default=0) < 1:
            raise ValueError(
                f"output_tile {self.output_tile} and part_size {self.part_size} must be sizes of one rank"
            )

    def __str__(self) -> str:
        if self.is_direct:
            return "a direct convolution"
        return f"F({'x'.join(map(str, self.output_tile))}, {'x'.join(map(str, self.part_size))})"

    @property
    def is_direct(self) -> bool:
        """Whether nothing is transformed: every output is computed by itself, as convolution is defined."""
        return set(self.output_tile) == set(self.part_size) == {1}

    def decompose(self, convolution: Windowed) -> Decomposition:
        """How the algorithm computes `convolution`. Raises ValueError when their ranks differ."""
        return _decompose(
            convolution.kernel_size,
            self.output_tile,
            convolution.strides,
            convolution.dilations,
            self.part_size,
        )


@cache
def _decompose(
    kernel_size: tuple[int, ...],
    output_tile: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    part_size: tuple[int, ...],
) -> Decomposition:
    # Networks repeat their convolutions, and each considers many algorithms.
    return decompose(kernel_size, output_tile, strides=strides, dilations=dilations, part_size=part_size)


def set_algorithm(operation: ir.Operation, algorithm: Algorithm) -> None:
    """Annotate a convolution."""
    operation.attributes[ATTRIBUTE_NAME] = algorithm_attribute(algorithm)


def algorithm_attribute(algorithm: Algorithm) -> ir.DictAttr:
    """What says so of an operation."""
    return ir.DictAttr.get(
        {
            "output_tile": sizes_attribute(algorithm.output_tile),
            "part_size": sizes_attribute(algorithm.part_size),
        }
    )


def algorithm_of(operation: ir.Operation) -> Algorithm | None:
    """The annotation of a convolution. Raises ValueError when it is malformed."""
    if ATTRIBUTE_NAME not in operation.attributes:
        return None
    return algorithm_from_attribute(operation.attributes[ATTRIBUTE_NAME])


def algorithm_from_attribute(attribute: ir.Attribute) -> Algorithm:
    """What an attribute says. Raises ValueError when it is malformed."""
    if not isinstance(attribute, ir.DictAttr) or {entry.name for entry in attribute} != {
        "output_tile",
        "part_size",
    }:
        raise ValueError(f"expected a dictionary of output_tile and part_size, got {attribute}")
    return Algorithm(sizes_of(attribute["output_tile"]), sizes_of(attribute["part_size"]))


def annotated_algorithm(operation: ir.Operation) -> Algorithm | None:
    """As `algorithm_of`. Raises `PassError`, after a diagnostic, when the annotation is malformed."""
    try:
        return algorithm_of(operation)
    except ValueError as error:
        operation.location.emit_error(f"{ATTRIBUTE_NAME}: {error}")
        raise PassError from None


def copy_annotations(operation: ir.Operation, replacement: ir.Operation) -> None:
    """Give what replaces a convolution the annotations that the convolution has."""
    for name in (ATTRIBUTE_NAME, *_HANDED_OVER):
        if name in operation.attributes:
            replacement.attributes[name] = operation.attributes[name]


def hand_over_schedule(operation: ir.Operation, product: ir.Operation) -> None:
    """Give the product that a convolution becomes its schedule, the sizes that are expected, and what says
    which unit selected it."""
    for name in _HANDED_OVER:
        if name in operation.attributes:
            product.attributes[name] = operation.attributes[name]
