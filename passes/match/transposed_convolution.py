"""Transposed convolutions, recognised by the zeros between the elements of their input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.constants import is_zero
from iree.winograd.passes.match.convolution import Convolution, match_convolution
from iree.winograd.passes.match.groups import merged_layout, split_source
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.slices import match_slice


@dataclass(frozen=True)
class DimensionPhase:
    """The outputs `stride*q + index` of one spatial dimension, for q < outputs."""

    index: int
    outputs: int
    offset: int
    """Of the first tap's element from the output q: negative ones are padding."""
    first_tap: int
    tap_step: int
    taps: int
    dilation: int

    @property
    def read_end(self) -> int:
        """One past the last element of the image that is read."""
        return self.offset + self.outputs + self.dilation * (self.taps - 1)


@dataclass(frozen=True)
class TransposedConvolution:
    """A unit-stride convolution of `image`, whose elements were spread apart, zeros between them.

    Its element `i` is at position `starts + strides*i` of the convolution's input, which may be outside.
    """

    convolution: Convolution
    image: ir.Value
    strides: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def phases(self) -> list[tuple[DimensionPhase, ...]]:
        """Those with a tap that meets an element of the image."""
        phases = product(*(self._dimension_phases(d) for d in range(self.convolution.spatial_rank)))
        return [phase for phase in phases if all(dimension.taps for dimension in phase)]

    @property
    def covers_output(self) -> bool:
        """Whether every output belongs to one of the `phases`."""
        dimensions = range(self.convolution.spatial_rank)
        return all(phase.taps for d in dimensions for phase in self._dimension_phases(d))

    def _dimension_phases(self, dimension: int) -> list[DimensionPhase]:
        stride, start = self.strides[dimension], self.starts[dimension]
        spread = self.convolution.dilations[dimension]
        outputs = self.convolution.output_size[dimension]
        layout = merged_layout(self.convolution.input_layout)
        size = self.image.type.shape[layout.index(str(dimension))]
        phases = []
        for index in range(min(stride, outputs)):
            met = [
                tap
                for tap in range(self.convolution.kernel_size[dimension])
                if (index + spread * tap - start) % stride == 0
            ]
            step = met[1] - met[0] if len(met) > 1 else 1
            first = met[0] if met else 0
            phase = DimensionPhase(
                index=index,
                outputs=ceil_div(outputs - index, stride),
                offset=(index + spread * first - start) // stride,
                first_tap=first,
                tap_step=step,
                taps=len(met),
                dilation=spread * step // stride if len(met) > 1 else 1,
            )
            if phase.offset >= size or phase.read_end <= 0:
                # It reads nothing but padding.
                phase = replace(phase, taps=0)
            phases.append(phase)
        return phases


def match_transposed(operation: ir.Operation) -> TransposedConvolution | NoMatch | None:
    """Describe a convolution of an image inserted into zeros with strides; None for any other."""
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or convolution.unknown_sizes:
        return None
    layout = merged_layout(convolution.input_layout)
    spread: ir.Value | None = convolution.input
    if layout != convolution.input_layout:
        spread = split_source(spread, layout.index("g"))
    if spread is None:
        return None
    cropped, definition = _spreading_operations(spread)
    if definition is None:
        return None
    if set(convolution.strides) != {1}:
        return NoMatch(operation, f"it has strides {convolution.strides}, and its input zeros in between")
    if merged_layout(convolution.output_layout).count("f") + layout.count("g") != 1:
        return NoMatch(operation, "groups and channels are apart in its operands")
    first = [0] * len(layout) if cropped is None else _cropped_start(cropped, len(layout))
    if isinstance(first, NoMatch):
        return first
    image, spread_out = definition.operands[0], match_slice(definition)
    if spread_out is None or len(spread_out.sizes) != len(layout):
        return NoMatch(definition, "where it inserts is known only at run time")
    if list(spread_out.sizes) != list(image.type.shape):
        return NoMatch(definition, "it adds dimensions")
    start = [before + offset for before, offset in zip(first, spread_out.offsets, strict=True)]
    for dimension, letter in enumerate(layout):
        placed = start[dimension], spread_out.strides[dimension], spread_out.sizes[dimension]
        if not letter.isdigit() and placed != (0, 1, spread.type.shape[dimension]):
            return NoMatch(definition, "it spreads or crops the batch or channels")
    spatial = [layout.index(str(d)) for d in range(convolution.spatial_rank)]
    return TransposedConvolution(
        convolution, image, tuple(spread_out.strides[d] for d in spatial), tuple(start[d] for d in spatial)
    )


def _spreading_operations(spread: ir.Value) -> tuple[ir.Operation | None, ir.Operation | None]:
    """The slice that crops, if any, and the insertion into zeros, others in between, if it is one."""
    definition, cropped = defining_operation(spread), None
    if definition is not None and definition.name == "tensor.extract_slice":
        cropped, definition = definition, defining_operation(definition.operands[0])
    if definition is None or definition.name != "tensor.insert_slice" or not is_zero(definition.operands[1]):
        return cropped, None
    return cropped, definition if set(definition.attributes["static_strides"]) != {1} else None


def _cropped_start(cropped: ir.Operation, rank: int) -> list[int] | NoMatch:
    """Where the first element of what is cropped lies: before the others, so that it isn't positive."""
    crop = match_slice(cropped)
    if crop is None or set(crop.strides) != {1} or len(crop.sizes) != rank:
        return NoMatch(cropped, "it doesn't take neighbours known at compile time")
    return [-offset for offset in crop.offsets]
