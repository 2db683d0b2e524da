"""Kernels that apply the epilogue of an output transform to what they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue, epilogue_text
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.known import Numbers
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.device.numbers import numbers_for
from iree.winograd.pipelines.gpu.device.target import GpuTarget


class LastKernel(Protocol):
    """The last kernel of a convolution: `emit` gets its own operands, the output and the epilogue."""

    @property
    def workgroups(self) -> Callable[[Sizes], tuple[Index, ...]]:
        """From the sizes that it is told to the extents of its grid."""

    @property
    def emit(self) -> Callable[..., None]:
        """Emits the work of a workgroup."""


@dataclass(frozen=True)
class FinishingKernel:
    """The last kernel of a convolution with its epilogue. Those with equal epilogues emit the same code."""

    kernel: LastKernel
    operands: int
    """How many are its own; the epilogue's follow."""
    transform: OutputTransformOp = field(compare=False)
    epilogue: str
    """What distinguishes the transform's epilogue from others."""
    numbers: Numbers = field(compare=False, repr=False)
    """The target's."""

    @staticmethod
    def of(
        kernel: LastKernel, operands: int, transform: OutputTransformOp, target: GpuTarget
    ) -> FinishingKernel:
        """`kernel`, which has so many operands of its own, with the epilogue of `transform`."""
        return FinishingKernel(kernel, operands, transform, epilogue_text(transform), numbers_for(target))

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        return self.kernel.workgroups(sizes)

    def emit(self, work: Work, *buffers: GlobalBuffer) -> None:
        """Emits the kernel; the buffers are its operands, the epilogue's, and the output."""
        *inputs, output = buffers
        operands = inputs[self.operands :]
        epilogue = VectorEpilogue(self.transform, operands, fused_multiply_add=True, numbers=self.numbers)
        self.kernel.emit(work, *inputs[: self.operands], output, epilogue)
