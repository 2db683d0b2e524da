"""Transposed convolutions, recognised by the zeros between the elements of their input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.groups import merged_layout, split_source
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic, is_size_of
from iree.winograd.passes.match.slices import Slice, match_slice
from iree.winograd.passes.match.unknown_sizes.size_expressions import SizeExpressions
from iree.winograd.passes.match.values.constants import is_zero


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

    Its element `i` is at position `starts + strides*i` of the convolution's input, which may be outside. Of
    sizes known only at run time all numbers are for those that are expected: outputs of a phase are by the
    same number more than elements of the image whatever that is, and no phase leaves any of these out.
    """

    convolution: Convolution
    image: ir.Value
    image_size: tuple[int, ...]
    strides: tuple[int, ...]
    starts: tuple[int, ...]

    @property
    def phases(self) -> list[tuple[DimensionPhase, ...]]:
        """Those with a tap that meets an element of the image."""
        phases = product(*(self.dimension_phases(d) for d in range(self.convolution.spatial_rank)))
        return [phase for phase in phases if all(dimension.taps for dimension in phase)]

    @property
    def covers_output(self) -> bool:
        """Whether every output belongs to one of the `phases`."""
        dimensions = range(self.convolution.spatial_rank)
        return all(phase.taps for d in dimensions for phase in self.dimension_phases(d))

    def dimension_phases(self, dimension: int) -> list[DimensionPhase]:
        """Those of one dimension, with or without taps."""
        stride, start = self.strides[dimension], self.starts[dimension]
        spread = self.convolution.dilations[dimension]
        outputs = self.convolution.output_size[dimension]
        size = self.image_size[dimension]
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


def match_transposed(
    operation: ir.Operation, sizes: Callable[[ir.Operation], SizeExpressions] | None = None
) -> TransposedConvolution | NoMatch | None:
    """Describe a convolution of an image inserted into zeros with strides; None for any other.

    Of images of sizes known only at run time None, too, unless `sizes` of a function are given.
    """
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or (convolution.unknown_sizes and sizes is None):
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
    image = definition.operands[0]
    spread_out = _placed_whole(definition)
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
    strides = tuple(spread_out.strides[d] for d in spatial)
    image_size = [image.type.shape[d] for d in spatial]
    for d in convolution.unknown_sizes:
        # The convolution's input has `strides` times as many elements as the image, and so many more.
        more = None
        if sizes is not None and cropped is None:
            more = _more_than(sizes(operation), strides[d], (image, spatial[d]), (spread, spatial[d]))
        if more is None:
            return NoMatch(
                definition, "its sizes aren't known to be a multiple of those of its image and more"
            )
        image_size[d] = (convolution.input_size[d] - more) // strides[d]
    starts = tuple(start[d] for d in spatial)
    transposed = TransposedConvolution(convolution, image, tuple(image_size), strides, starts)
    if any(_leaves_out(transposed, d) for d in convolution.unknown_sizes):
        return NoMatch(operation, "outputs of a phase may read nothing of an image of unknown size")
    return transposed


def _placed_whole(insertion: ir.Operation) -> Slice | None:
    """Where all of an image is inserted; its sizes are known at compile time or not."""
    offsets, sizes, strides = (
        tuple(insertion.attributes[name]) for name in ("static_offsets", "static_sizes", "static_strides")
    )
    if any(map(is_dynamic, (*offsets, *strides))):
        return None
    if sizes and is_dynamic(sizes[0]) and not is_size_of(insertion.operands[2], insertion.operands[1], 0):
        return None
    return Slice(offsets, sizes, strides)


def _more_than(
    sizes: SizeExpressions, times: int, image: tuple[ir.Value, int], spread: tuple[ir.Value, int]
) -> int | None:
    """By how much a tensor's dimension is larger than `times` another one, if that is always the same."""
    of_image, of_spread = sizes.size(*image), sizes.size(*spread)
    if of_image is None or of_spread is None:
        return None
    more = sizes.algebra.sum(of_spread, of_image, -times).known
    return more if isinstance(more, int) else None


def _leaves_out(transposed: TransposedConvolution, dimension: int) -> bool:
    """Whether a phase doesn't read all of an image, or there are phases without outputs."""
    phases = transposed.dimension_phases(dimension)
    size, stride = transposed.image_size[dimension], transposed.strides[dimension]
    return len(phases) < stride or any(
        phase.taps and (phase.offset > 0 or phase.read_end < size) for phase in phases
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
