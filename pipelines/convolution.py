"""What a kernel generator is told: the convolution as the ops state it, with its sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.decomposition import Decomposition


@dataclass(frozen=True)
class ConvolutionShape:
    """One decomposed convolution: `N x H... x C` (*) filter -> `N x OH... x K`, channels last.

    `batch` is None where it is known only at run time. All other sizes are in elements.
    """

    batch: int | None
    input_size: tuple[int, ...]
    output_size: tuple[int, ...]
    input_channels: int
    output_channels: int
    groups: int
    padding_low: tuple[int, ...]
    decomposition: Decomposition

    @property
    def group_inputs(self) -> int:
        """Input channels of one group."""
        return self.input_channels // self.groups

    @property
    def group_outputs(self) -> int:
        """Output channels of one group."""
        return self.output_channels // self.groups

    @property
    def output_rows(self) -> int:
        """Lines of outputs along the last spatial dimension, of one image."""
        return prod(self.output_size[:-1])

    @property
    def views_by_tap(self) -> list[int]:
        """The views of a direct convolution in row-major order of the taps that they hold."""
        views = self.decomposition.views
        return sorted(range(len(views)), key=lambda number: views[number])

    @property
    def tiles_per_image(self) -> tuple[int, ...]:
        return self.decomposition.tiles(self.output_size)

    @property
    def tiles(self) -> int | None:
        """T, the rows of the batched matrix product; None where the batch is dynamic."""
        return None if self.batch is None else self.batch * prod(self.tiles_per_image)

    @property
    def transform_size(self) -> int:
        """A, the products of the Winograd domain per tile and pair of channels."""
        return prod(self.decomposition.alpha)

    @property
    def reduction(self) -> int:
        """The reduction dimension of one product: views times input channels of a group."""
        return len(self.decomposition.views) * self.input_channels // self.groups

    @property
    def pads(self) -> bool:
        """Whether some output needs an element outside of the input."""
        decomposition = self.decomposition
        return any(
            low > 0 or (outputs - 1) * step + (taps - 1) * dilation - low >= size
            for low, outputs, step, taps, dilation, size in zip(
                self.padding_low,
                self.output_size,
                decomposition.step,
                decomposition.kernel_size,
                decomposition.dilation,
                self.input_size,
                strict=True,
            )
        )
