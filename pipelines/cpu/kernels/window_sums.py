"""The CPU kernel that sums windows of an image in place, without a padded copy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as product_of

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.windows import Windows

from .pooling import window_places


@dataclass(frozen=True)
class WindowSumsKernel:
    """The sums of windows, and what is computed of each; a workgroup takes a row of them.

    Elements outside of the image are zero.
    """

    windows: Windows
    finish: tuple[VectorFunction, ...]
    """Functions of a sum, one after the other."""
    target: CpuTarget

    @property
    def name(self) -> str:
        outputs = "x".join("any" if each is None else str(each) for each in self.windows.outputs)
        size = "x".join(map(str, self.windows.size))
        return f"winograd_window_sum_{size}_{outputs}x{self.windows.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of windows of all images."""
        return sizes.batch * product(sizes.spatial("output")[:-1]), Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x C to N x OH... x C."""
        windows = self.windows
        width = vector_width_for(windows.channels, self.target.vector_width)
        (*outer, columns), extents = work.sizes.spatial("output"), work.sizes.spatial("input")
        number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        with named("row"):
            rows = [window_places(windows, each, extents[d], d) for d, each in enumerate(row)]
        with loop(columns, name="column") as column:
            last = window_places(windows, column, extents[-1], len(outer))
            elements: list[tuple[Index, Condition]] = []
            for place in product_of(*rows, last):
                with named("element"):
                    offset = image.offset([number, *(each.index for each in place), 0])
                    elements.append((offset, all_of([each.exists for each in place])))
            target = output.offset([number, *row, column, 0])

            def add(
                channel: Index,
                elements: list[tuple[Index, Condition]] = elements,
                target: Index = target,
            ) -> None:
                first, *others = (image.load(offset + channel, width, exists) for offset, exists in elements)
                output.store(self._finished(first, others), target + channel)

            for_each_vector(windows.channels, width, add, "channel")

    def _finished(self, total: ir.Value, others: list[ir.Value]) -> ir.Value:
        with named("sum"):
            for each in others:
                total = arith.addf(total, each)
        for function in self.finish:
            total = function.emit([total], self.target.fused_multiply_add)
        return total
