"""From channels that are taken in turns to dispatches."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.kernels.images.channel_range import ChannelRange
from iree.winograd.pipelines.gpu.kernels.images.interleaving import INTERLEAVING_THREADS, InterleavingKernel
from iree.winograd.pipelines.problems.tensor_operations import InterleavedChannels


@dataclass(frozen=True)
class InterleavingLowering:
    """The kernel of an operation, and the images that it reads."""

    kernel: InterleavingKernel
    images: tuple[ir.Value, ...]

    @staticmethod
    def of(operation: InterleavedChannels) -> InterleavingLowering:
        """Parts of one image that are neighbours are one."""
        parts, channels = operation.parts, operation.channels
        first = parts[0].first
        are_neighbours = all(
            each.whole == parts[0].whole and each.first == first + number * channels
            for number, each in enumerate(parts)
        )
        read = parts[:1] if are_neighbours else parts
        ranges = tuple(map(ChannelRange.of, read))
        pixels = prod(ir.RankedTensorType(parts[0].whole.type).shape[:-1])
        kernel = InterleavingKernel(pixels, channels, len(parts), ranges)
        return InterleavingLowering(kernel, tuple(each.whole for each in read))

    def lower(self, launcher: Launcher) -> ir.Value:
        """Emits the dispatch: `pixels x channels x parts`."""
        kernel = self.kernel
        operands = [(image, TensorArgument.of(image, by_quads=False)) for image in self.images]
        extents = (kernel.pixels, kernel.channels, kernel.parts)
        result = TensorArgument(extents, operands[0][1].element, by_quads=True)
        threads = WorkgroupThreads(INTERLEAVING_THREADS)
        return launcher.launch(kernel, kernel.name, threads, operands, result)
