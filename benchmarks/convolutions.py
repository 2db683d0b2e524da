"""The convolution layers that the benchmarks time, and their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

DIFFUSION = (
    (2, 64, 320),
    (2, 32, 640),
    (2, 16, 1280),
    (2, 8, 1280),
    (1, 512, 128),
    (1, 256, 256),
    (1, 128, 512),
)
"""Of Stable Diffusion's U-Net and decoder: images, pixels down and across, and channels of 3 x 3 layers."""


@dataclass(frozen=True)
class ConvolutionLayer:
    """A 3 x 3 unit-stride convolution with one row of zeros around its input, a bias and a ReLU."""

    network: str
    batch: int
    height: int
    width: int
    channels: int
    filters: int

    def __post_init__(self) -> None:
        for name in ("batch", "height", "width", "channels", "filters"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def name(self) -> str:
        return f"{self.network} {self.batch}x{self.height}x{self.width} {self.channels}->{self.filters}"

    @property
    def flops(self) -> int:
        """Operations of the direct algorithm, a multiplication and an addition counted as two."""
        return 2 * 9 * self.batch * self.height * self.width * self.channels * self.filters

    @property
    def necessary_flops(self) -> int:
        """`flops` without those on the zeros around the input, which a direct algorithm may skip."""
        taps = (3 * self.height - 2) * (3 * self.width - 2)
        return 2 * taps * self.batch * self.channels * self.filters

    @property
    def bytes_moved(self) -> int:
        """Bytes of input, filter, bias and output, each touched once, in single precision."""
        activations = self.batch * self.height * self.width * (self.channels + self.filters)
        return 4 * (activations + 9 * self.channels * self.filters + self.filters)

    def random_operands(self, seed: int = 0) -> Operands:
        """Normal data scaled so that outputs have unit variance."""
        random = np.random.default_rng(seed)
        scale = np.float32(1 / np.sqrt(9 * self.channels))
        return Operands(
            image=random.standard_normal((self.batch, self.height, self.width, self.channels), np.float32),
            kernel=scale * random.standard_normal((3, 3, self.channels, self.filters), np.float32),
            bias=random.standard_normal(self.filters, np.float32),
        )


@dataclass(frozen=True)
class Operands:
    """Image N x H x W x C, kernel 3 x 3 x C x K and bias K."""

    image: Array
    kernel: Array
    bias: Array

    @property
    def image_nchw(self) -> Array:
        return np.ascontiguousarray(self.image.transpose(0, 3, 1, 2))

    @property
    def kernel_fchw(self) -> Array:
        return np.ascontiguousarray(self.kernel.transpose(3, 2, 0, 1))


def reference(operands: Operands) -> npt.NDArray[np.float64]:
    """The first image's output, H x W x K, in double precision."""
    padded = np.pad(operands.image[0].astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    kernel = operands.kernel.astype(np.float64)
    height, width, _ = operands.image[0].shape
    total = np.broadcast_to(operands.bias.astype(np.float64), (height, width, kernel.shape[3])).copy()
    for row in range(3):
        for column in range(3):
            total += padded[row : row + height, column : column + width] @ kernel[row, column]
    result: npt.NDArray[np.float64] = np.maximum(total, 0)
    return result


def relative_error(output: Array, exact: npt.NDArray[np.float64]) -> float:
    """The largest absolute difference over the largest magnitude of `exact`."""
    if output.shape != exact.shape:
        raise ValueError(f"shapes differ: {output.shape} and {exact.shape}")
    return float(np.abs(output - exact).max() / np.abs(exact).max())


def resnet_layers(batch: int) -> list[ConvolutionLayer]:
    """The four shapes of 3 x 3 unit-stride layers of ResNet-18/34/50/101/152."""
    shapes = [(56, 64), (28, 128), (14, 256), (7, 512)]
    return [ConvolutionLayer("resnet", batch, size, size, width, width) for size, width in shapes]


def vgg_layers(batch: int) -> list[ConvolutionLayer]:
    """The nine distinct 3 x 3 layers of VGG-16."""
    shapes = [
        (224, 3, 64),
        (224, 64, 64),
        (112, 64, 128),
        (112, 128, 128),
        (56, 128, 256),
        (56, 256, 256),
        (28, 256, 512),
        (28, 512, 512),
        (14, 512, 512),
    ]
    return [ConvolutionLayer("vgg", batch, size, size, c, k) for size, c, k in shapes]
