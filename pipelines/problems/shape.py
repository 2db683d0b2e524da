"""What a kernel generator is told: a convolution with the decomposition that it is computed by."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any, TypeVar

from iree.winograd.dialect.algebra.numerics import summed_block
from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.passes.match.convolutions.element_types import ElementTypes, element_bytes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.problems.schedule import Schedule

Shape = TypeVar("Shape", bound="ConvolutionShape")


@dataclass(frozen=True)
class ConvolutionShape(ConvolutionProblem):
    """One decomposed convolution: `N x H... x C` (*) filter -> `N x OH... x K`, channels last unless said so.

    What kernels are told reads and writes such images; what is chosen for may have them transposed.

    Raises ValueError as `ConvolutionProblem` does, and for a decomposition of another convolution.
    """

    decomposition: Decomposition = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        taken = self.decomposition
        if (taken.kernel_size, taken.step, taken.dilation) != (
            self.kernel_size,
            self.strides,
            self.dilations,
        ):
            raise ValueError(f"{taken} is no decomposition of {self}")

    @classmethod
    def decomposed(cls: type[Shape], problem: ConvolutionProblem, decomposition: Decomposition) -> Shape:
        """`problem` by `decomposition`."""
        stated = {each.name: getattr(problem, each.name) for each in fields(ConvolutionProblem)}
        return cls(**stated, decomposition=decomposition)

    @property
    def channels_last(self: Shape) -> Shape:
        """The same of images that are channels last."""
        return self.with_layouts(input_channels_first=False, output_channels_first=False)

    def with_layouts(self: Shape, *, input_channels_first: bool, output_channels_first: bool) -> Shape:
        """The same of images of these layouts."""
        layouts = input_channels_first, output_channels_first
        if layouts == (self.input_channels_first, self.output_channels_first):
            return self
        return self._with(
            input_channels_first=input_channels_first, output_channels_first=output_channels_first
        )

    def with_batch(self: Shape, batch: int) -> Shape:
        """The same of so many images."""
        return self if batch == self.batch else self._with(batch=batch)

    def with_element_types(self: Shape, types: ElementTypes) -> Shape:
        """The same of numbers of these types."""
        return self if types == self.element_types else self._with(element_types=types)

    def _with(self: Shape, **changed: Any) -> Shape:
        asked = tuple(changed.items())
        if asked not in self._changed:
            self._changed[asked] = replace(self, **changed)
        return self._changed[asked]

    @cached_property
    def _changed(self: Shape) -> dict[tuple[tuple[str, object], ...], Shape]:
        """The shapes that were asked for: every schedule that is predicted is predicted of them."""
        return {}

    @property
    def images(self) -> int:
        """Those of the batch. Raises ValueError where they are known only at run time."""
        if self.batch is None:
            raise ValueError(f"the batch of {self} is known only at run time")
        return self.batch

    @property
    def is_of_known_sizes(self) -> bool:
        """Whether the batch and all sizes of images are known when compiling."""
        return self.batch is not None and not self.unknown_sizes

    @property
    def output_rows(self) -> int:
        """Lines of outputs along the last spatial dimension, of one image."""
        return prod(self.output_size[:-1])

    @property
    def views_by_tap(self) -> list[int]:
        """The views of a direct convolution in row-major order of the taps that they hold."""
        views = self.decomposition.views
        return sorted(range(len(views)), key=lambda number: views[number])

    @cached_property
    def tiles_per_phase(self) -> tuple[int, ...]:
        return self.decomposition.tiles_per_phase(self.output_size)

    @cached_property
    def tiles_per_image(self) -> tuple[int, ...]:
        return self.decomposition.tiles(self.output_size)

    @property
    def tiles(self) -> int | None:
        """T, the rows of the batched matrix product, of expected sizes; None where the batch is dynamic."""
        return None if self.batch is None else self.batch * prod(self.tiles_per_image)

    @cached_property
    def transform_size(self) -> int:
        """A, the products of the Winograd domain per tile and pair of channels."""
        return prod(self.decomposition.alpha)

    @cached_property
    def reduction(self) -> int:
        """The reduction dimension of one product: views times input channels of a group."""
        return len(self.decomposition.views) * self.input_channels // self.groups

    @property
    def summed_block(self) -> int | None:
        """The block of its sums in kernels that have none of their own; None for sums that aren't divided."""
        return summed_block(self.reduction, of_frames=self.is_of_frames)

    @property
    def tile_products(self) -> int:
        """Those of a tile for an output channel that aren't with zeros: of `contributing_views`."""
        return self.decomposition.product_count * self.group_inputs

    @property
    def image_bytes(self) -> int:
        """One image of the input."""
        return self.element_types.input_bytes * prod(self.input_size) * self.input_channels

    @property
    def result_bytes(self) -> int:
        """One image of the output."""
        return self.element_types.result_bytes * prod(self.output_size) * self.output_channels

    @property
    def filter_bytes(self) -> int:
        """The transformed filters."""
        elements = self.transform_size * self.reduction * self.output_channels
        return self.element_types.domain_bytes * elements

    @property
    def tap_bytes(self) -> int:
        """The filters as they are, by which a kernel of `domain_bytes` transforms them in each call."""
        elements = prod(self.kernel_size) * self.group_inputs * self.output_channels
        return self.element_types.domain_bytes * elements

    def stored_filter_bytes(self, schedule: Schedule) -> int:
        """What the kernel of a schedule reads of filters: transformed ones, or as they are."""
        if schedule.transforms_filters:
            return self.tap_bytes
        stored = schedule.stored_filter_type or self.element_types.domain
        return self.filter_bytes // self.element_types.domain_bytes * element_bytes(stored)

    @property
    def is_of_single_pixels(self) -> bool:
        """Whether each output is of the pixel at its place alone, so that all pixels can be one row."""
        one = (1,) * self.spatial_rank
        is_pointwise = (self.decomposition.output_tile, self.kernel_size, self.strides) == (one, one, one)
        # What is beyond the last output is read by none.
        return is_pointwise and not self.pads and self.output_size == self.input_size

    @property
    def pads(self) -> bool:
        """Whether some output needs an element outside of the input, or may in an image of unknown sizes."""
        if any(self.padding_high[dimension] > 0 for dimension in self.unknown_sizes):
            return True
        return any(
            low > 0 or (outputs - 1) * stride + (taps - 1) * dilation - low >= size
            for low, outputs, stride, taps, dilation, size in zip(
                self.padding_low,
                self.output_size,
                self.strides,
                self.kernel_size,
                self.dilations,
                self.input_size,
                strict=True,
            )
        )


@dataclass(frozen=True)
class WeightGradientShape(ConvolutionShape):
    """The gradient by the filter of a decomposed convolution of these sizes, by its transposed transforms.

    The output whose layout it has is the gradient of the convolution's.
    """

    permutes_filter: bool = field(default=False, kw_only=True)
    """Whether the result is not R... x C/g x K, but has its dimensions in another order."""

    @property
    def tile_products(self) -> int:
        """Those of a tile for an output channel: of all taps of a part, of those that no filter has, too."""
        return self.transform_size * self.reduction
