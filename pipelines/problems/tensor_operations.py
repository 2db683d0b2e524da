"""What lies between convolutions and a kernel may compute, a class for each kind."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.epilogues.finishing import Finishing
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice
from iree.winograd.passes.match.layouts.columns import Columns
from iree.winograd.passes.match.layouts.places import DigitSum, Places, places_of
from iree.winograd.passes.match.layouts.rearrangement import Rearrangement
from iree.winograd.passes.match.normalizations.image_sum import ImageSum
from iree.winograd.passes.match.normalizations.layer_norm import LayerNorm
from iree.winograd.passes.match.pixels.resampling import Resampling
from iree.winograd.passes.match.pixels.selected_pixels import PixelTap
from iree.winograd.passes.match.products.attention import FusedAttention
from iree.winograd.passes.match.products.batch_matmul import BatchMatmul
from iree.winograd.passes.match.slices import match_slice

from .group import ConvolutionGroup
from .schedule import Schedule
from .windows import Windows


@dataclass(frozen=True)
class ChannelsLast:
    """`N x C x H...` as `N x H... x C`. C is static."""

    image: ir.Value
    element: ir.Type | None = None
    """The type of the result, where numbers are widened; None for that of the image."""


@dataclass(frozen=True)
class ChannelsFirst:
    """`N x H... x C` as `N x C x H...`. C is static."""

    image: ir.Value
    is_computed: bool = False
    """Whether IREE computes the image, and would store it so as it does."""


@dataclass(frozen=True)
class ChannelShuffle:
    """`N x groups x channels` as `N x channels x groups`, where N are the pixels of images."""

    image: ir.Value


@dataclass(frozen=True)
class InterleavedChannels:
    """So many `channels` of each part of an image in turns: `pixels x channels x parts`, of static sizes."""

    parts: tuple[ChannelSlice, ...]
    channels: int


@dataclass(frozen=True)
class MaxPooling:
    """The maxima of windows of `N x H... x C`, of which C is static."""

    image: ir.Value
    windows: Windows
    like: ir.Value
    """A tensor of the sizes that the maxima have."""
    half: ir.Type | None = None
    """The type of half precision that image and maxima have; None for f32."""


@dataclass(frozen=True)
class WindowSums:
    """Sums of windows of `N x H... x C`, of which C is static, around which there are zeros."""

    image: ir.Value
    windows: Windows
    finishing: Finishing
    """What is computed of each sum, and of where it is."""
    like: ir.Value
    """A tensor of the sizes that the sums have."""
    half: ir.Type | None = None
    """The type of half precision that what is computed is rounded to, and stored in; None for f32."""


@dataclass(frozen=True)
class PixelSelection:
    """Weighted sums of pixels of `N x H... x C` at positions along its spatial dimensions. C is static."""

    image: ir.Value
    taps: tuple[tuple[PixelTap, ...], ...]
    """Those of each spatial dimension, the first summed first; all of one without."""
    like: ir.Value
    """A tensor of the sizes that the selected ones have."""
    destination: ChannelSlice | None = None
    """The channels of a larger tensor, empty as yet, that they are written to; None for one of their own."""
    makes_first: bool = False
    """Whether the result is `N x C x H...`; without a destination."""
    rounded: ir.Type | None = None
    """The type of half precision, if any, that each product with a weight, and each sum, is rounded to."""
    half: ir.Type | None = None
    """The type of half precision that the selected ones are stored in; None for f32."""

    @property
    def is_weighted(self) -> tuple[tuple[bool, ...], ...]:
        """For each tap of each spatial dimension whether it has weights."""
        return tuple(tuple(tap.weights is not None for tap in taps) for taps in self.taps)


@dataclass(frozen=True)
class ResampledImage:
    """An image with some of its dimensions resampled, at positions known at compile time, of static sizes."""

    resampling: Resampling
    result: ir.Value
    """A tensor of the sizes that it has then."""
    half: ir.Type | None = None
    """The type of half precision that it is rounded to, and stored in; None for f32."""
    destination: ChannelSlice | None = None
    """The channels of a larger tensor that it is written to; None for a tensor of its own."""


@dataclass(frozen=True)
class RowSums:
    """Sums of `N x H... x W x C` over W, or over as many `dimensions` before C. C is static.

    They are divided by `divisors`, integers, one after the other, and rounded to `half` precision then.
    """

    image: ir.Value
    divisors: tuple[ir.Value, ...] = ()
    dimensions: int = 1
    half: ir.Type | None = None
    element: ir.Type | None = None
    """The type of the result, f32 unless it is the one that is rounded to."""


@dataclass(frozen=True)
class RowSoftmax:
    """Softmax of the rows of `N x ...`, which are `length` neighbours each. Only N may be dynamic.

    Of a row of nothing but minus infinity it is NaN, or zero where it is `safe`.
    """

    rows: ir.Value
    length: int
    safe: bool
    half: ir.Type | None = None
    """The type of half precision that results are rounded to, and stored in; None for f32."""


@dataclass(frozen=True)
class ColumnSoftmax:
    """Softmax of columns, in the order of their `sizes`. `safe` as for rows."""

    columns: Columns
    safe: bool
    leaves: bool = False
    """Whether the result only leaves the program, in this order: others may be channels last yet."""


@dataclass(frozen=True)
class RowNormalization:
    """Layer normalization of rows. Only the first size may be dynamic."""

    layer_norm: LayerNorm
    rearrangement: Rearrangement | None = None
    """What the rows are read from in another order, which is that of the result, too."""
    half: ir.Type | None = None
    """The type of half precision that results are rounded to, and stored in; None for f32."""


@dataclass(frozen=True)
class BatchedProduct:
    """Products of the matrices of a batch, for so many threads."""

    product: BatchMatmul
    threads: int


@dataclass(frozen=True)
class BatchedAttention:
    """Attention of the matrices of a batch, for so many threads."""

    attention: FusedAttention
    threads: int


@dataclass(frozen=True)
class Sums:
    """Sums of an image, in the order of memory."""

    sums: ImageSum


@dataclass(frozen=True)
class PartialMoments:
    """Means and sums of squared deviations of parts of an image's sums: what `CombinedMoments` are of."""

    sums: ImageSum


@dataclass(frozen=True)
class CombinedMoments:
    """Means or sums of squared deviations in the order of memory, with what is computed of each of them."""

    partial: ir.Value
    sums: ImageSum
    """Those of the squares, or of the elements."""
    deviations: bool
    """Not means, of which nothing is computed."""


@dataclass(frozen=True)
class MomentFactors:
    """Factors and addends of the channels of groups, by the moments of these: `2 x N x groups x channels`."""

    partial: ir.Value
    sums: ImageSum
    """Those of the squares, with what is computed of each of them."""
    weight: ir.Value
    bias: ir.Value
    """Both have an element for each channel of all groups, and one dimension."""


@dataclass(frozen=True)
class Rearranged:
    """The elements of a tensor in another order, of static sizes."""

    rearrangement: Rearrangement
    half: ir.Type | None = None
    """The type of half precision that all of them have, and are stored in; None for that of the program."""


@dataclass(frozen=True)
class InsertedPart:
    """The elements of a tensor copied to their places in a larger one, of static sizes."""

    insertion: ir.Operation
    """What inserts them: a `tensor.insert_slice`."""

    @property
    def places(self) -> Places | None:
        """Of the elements in the larger tensor; None where they aren't known at compile time."""
        slice_ = match_slice(self.insertion)
        if slice_ is None:
            return None
        bounds = zip(places_of(slice_.sizes), slice_.strides, slice_.offsets, strict=True)
        indices = [index.times(stride) + DigitSum((), offset) for index, stride, offset in bounds]
        shape = ir.RankedTensorType(self.insertion.operands[1].type).shape
        return Places.of(prod(slice_.sizes), indices, shape)


@dataclass(frozen=True)
class SpreadElementwise:
    """An elementwise operation, whose operands may be smaller than its result."""

    elementwise: Elementwise
    operands: tuple[EpilogueOperand, ...]
    """All that it reads."""


@dataclass(frozen=True)
class ElementwiseFirst:
    """The same of an image `N x H... x C`, of which C is static, as `N x C x H...`."""

    computed: SpreadElementwise


@dataclass(frozen=True)
class NormalizedOperands:
    """Which of an elementwise operation's operands are what: by their numbers."""

    image: int
    factors: int
    """Of each channel, what it is multiplied by: the inverse of its group's deviation, times its weight."""
    addends: int
    """What is added to it: its bias, less the mean of its group times the factor."""

    @property
    def all(self) -> tuple[int, int, int]:
        return self.image, self.factors, self.addends


@dataclass(frozen=True)
class GroupNormalization:
    """An elementwise operation on an image, and on factors and addends that are made of its moments."""

    sums: ImageSum
    """As of `MomentFactors`; so are weight and bias."""
    weight: ir.Value
    bias: ir.Value
    computed: SpreadElementwise
    roles: NormalizedOperands


@dataclass(frozen=True)
class GatedProduct:
    """An elementwise operation on the halves of the channels of a product's results, one of each half."""

    group: ConvolutionGroup
    schedule: Schedule
    computed: Elementwise
    halves: tuple[int, ...]
    """For each operand of the operation the half that it is, 0 or 1."""


@dataclass(frozen=True)
class PointwisePair:
    """Two pointwise convolutions, the second of which alone reads the first one's result."""

    widening: ConvolutionGroup
    narrowing: ConvolutionGroup
    schedule: Hashable
    """The backend's, of the kernel that computes both."""


TensorOperation: TypeAlias = (
    ChannelsLast
    | ChannelsFirst
    | ChannelShuffle
    | InterleavedChannels
    | MaxPooling
    | WindowSums
    | PixelSelection
    | ResampledImage
    | RowSums
    | RowSoftmax
    | ColumnSoftmax
    | RowNormalization
    | Rearranged
    | InsertedPart
    | BatchedProduct
    | BatchedAttention
    | Sums
    | PartialMoments
    | CombinedMoments
    | MomentFactors
    | SpreadElementwise
    | ElementwiseFirst
    | GroupNormalization
    | GatedProduct
    | PointwisePair
)
"""All of them are of f32, but for what says otherwise."""
