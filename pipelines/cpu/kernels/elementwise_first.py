"""The CPU kernel that computes an image elementwise, and makes its channels first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.transposition import Span
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes, Work

from .elementwise import ElementwiseKernel
from .image_transposition import ImageTransposition


@dataclass(frozen=True)
class ElementwiseFirstKernel:
    """What `elementwise` computes, `N x H... x C`, as `N x C x H...`: registers hold it in between.

    Pixels of an image are numbered, so what is read of them is of all or of none of its dimensions.
    """

    elementwise: ElementwiseKernel
    transposition: ImageTransposition

    @property
    def name(self) -> str:
        return f"{self.elementwise.name}_first"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels of all images."""
        return self.transposition.workgroups(sizes)

    def emit(self, work: Work, *operands_and_output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        *buffers, output = operands_and_output

        def pixel_lines(number: Index, pixel: Index) -> _ComputedPixels:
            return _ComputedPixels(self.elementwise, buffers, number, pixel)

        self.transposition.emit_computed(work, pixel_lines, output)


@dataclass(frozen=True)
class _ComputedPixels:
    """The pixels of an image from `first` on, whose channels are computed."""

    elementwise: ElementwiseKernel
    buffers: Sequence[Buffer]
    image: Index
    first: Index

    def load(
        self, line: Index, element: Index, extents: tuple[int, int], span: Span | None
    ) -> list[ir.Value]:
        count, width = extents
        lanes = None if span is None else span.mask(element, width)
        outer = [Index(0)] * (len(self.elementwise.sizes) - 1)
        return [
            self.elementwise.computed(
                self.buffers, [self.image, *outer, self.first + line + i, element], width, lanes
            )
            for i in range(count)
        ]
