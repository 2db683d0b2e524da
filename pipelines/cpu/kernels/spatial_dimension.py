"""A spatial dimension of a convolution: where taps read an image of a size known or known at run time."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.shape import WeightGradientShape


@dataclass(frozen=True)
class SpatialDimension:
    """A spatial dimension of the convolution."""

    size: Index
    """Of the image, without padding."""
    outputs: Index
    taps: int
    step: int
    dilation: int
    low: int
    """Padding before the image."""

    def read(self, output: Index, tap: Index) -> Index:
        """Where a tap reads for an output: within `size`, or in the padding."""
        return output * self.step + tap * self.dilation - self.low

    def reads_inside(self, place: int) -> bool:
        """Whether what is read there, padding counted, exists in an image of known size."""
        assert self.size.known is not None
        return 0 <= place - self.low < self.size.known

    def outputs_inside(self, tap: Index) -> tuple[Index, Index]:
        """The first output for which a tap reads the image, and the end of these; they may be none."""
        before = tap * self.dilation
        first = ceildiv((Index(self.low) - before).maximum(0), self.step)
        end = ceildiv((self.size + self.low - before).maximum(0), self.step)
        return first, end.minimum(self.outputs)


def image_dimensions(shape: WeightGradientShape, sizes: Sizes | None) -> list[SpatialDimension]:
    """The spatial dimensions of what a filter's gradient sums, two or more: a signal is an image of one row.

    Their sizes are `sizes`, or those that are expected where it is None.
    """
    expected = tuple(map(Index, shape.input_size)), tuple(map(Index, shape.output_size))
    sized = SizedShape(shape, *expected) if sizes is None else SizedShape.of(shape, sizes)
    found = [
        SpatialDimension(*each)
        for each in zip(
            sized.input_size,
            sized.output_size,
            shape.kernel_size,
            shape.strides,
            shape.dilations,
            shape.padding_low,
            strict=True,
        )
    ]
    return found if len(found) > 1 else [SpatialDimension(Index(1), Index(1), 1, 1, 1, 0), *found]
