"""Convolutions of square images by square kernels, as benchmarks of GPUs name them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div


@dataclass(frozen=True)
class SquareLayer:
    """A convolution of a batch of images, padded so that a stride of one keeps their size."""

    batch: int
    size: int
    channels: int
    filters: int
    taps: int = 3
    stride: int = 1
    network: str = ""
    """That it is a layer of, where that matters."""

    @property
    def name(self) -> str:
        kernel = f"{self.taps}x{self.taps}" + (f" stride {self.stride}" if self.stride > 1 else "")
        network = f"{self.network} " if self.network else ""
        return f"{network}{self.batch}x{self.size}x{self.size} {kernel} {self.channels}->{self.filters}"

    @property
    def output_size(self) -> int:
        """Outputs along each spatial dimension."""
        return ceil_div(self.size, self.stride)

    @property
    def flops(self) -> int:
        """Operations of the direct algorithm, as Castro et al. count effective FLOP/s."""
        return 2 * self.taps**2 * self.batch * self.output_size**2 * self.channels * self.filters
