"""The CPU kernel that sums the pixels of each row of an image."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import for_each_vector, splat, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

_SUMS = 4
"""Running sums side by side: one waits for the addition before it."""


@dataclass(frozen=True)
class RowSumsKernel:
    """The sums of each channel over a row of pixels; a workgroup takes a row."""

    rank: int
    """Of the image's spatial dimensions."""
    channels: int
    target: CpuTarget

    @property
    def name(self) -> str:
        return f"winograd_row_sums_{'x'.join(['any'] * self.rank)}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of all images."""
        return sizes.batch * product(sizes.spatial("input")[:-1]), Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x W x C to N x H... x C."""
        *outer, columns = work.sizes.spatial("input")
        row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        source, target = image.offset([*row, 0, 0]), output.offset([*row, 0])
        width = vector_width_for(self.channels, self.target.vector_width)
        whole = columns // _SUMS * _SUMS

        def add(channel: Index) -> None:
            def pixel(column: Index) -> ir.Value:
                return image.load(source + column * self.channels + channel, width)

            zeros = [splat(0.0, width, image.computed)] * _SUMS
            sums = loop_carried(
                whole,
                _SUMS,
                zeros,
                lambda column, sums: [
                    arith.addf(each, pixel(column + place)) for place, each in enumerate(sums)
                ],
                "column",
            )
            total = arith.addf(arith.addf(sums[0], sums[1]), arith.addf(sums[2], sums[3]))
            (total,) = loop_carried(
                columns - whole,
                1,
                [total],
                lambda column, sums: [arith.addf(sums[0], pixel(whole + column))],
                "rest",
            )
            output.store(total, target + channel)

        for_each_vector(self.channels, width, add, "channel")
