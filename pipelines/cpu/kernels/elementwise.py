"""The CPU kernel of elementwise operations on images, and on what is spread over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.epilogue import load_operand
from iree.winograd.pipelines.emission.index import Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import LaneMask, for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

_PIXELS = 1024
"""Of a row that a workgroup takes: signals have one row."""


@dataclass(frozen=True)
class SpreadOperand:
    """What is read for each element of the result: by its map, as the argument of the function."""

    argument: int
    indexing_map: ir.AffineMap
    """From an output's index `(n, spatial..., k)`."""


@dataclass(frozen=True)
class ElementwiseKernel:
    """`function` of the elements of all operands, at each of `N x H... x C`, of which C is known."""

    sizes: tuple[int | None, ...]
    """Of the image's spatial dimensions, None for those known only at run time."""
    channels: int
    operands: tuple[SpreadOperand, ...]
    function: VectorFunction
    target: CpuTarget

    @property
    def name(self) -> str:
        sizes = "x".join("any" if each is None else str(each) for each in self.sizes)
        return f"winograd_elementwise_{sizes}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of all images, and parts of these."""
        *outer, columns = sizes.spatial("output")
        return sizes.batch * product(tuple(outer)), ceildiv(columns, _PIXELS)

    def emit(self, work: Work, *operands_and_output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        *buffers, output = operands_and_output
        *outer, columns = work.sizes.spatial("output")
        number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        first = work.workgroup[1] * _PIXELS
        width = vector_width_for(self.channels, self.target.vector_width)
        with loop((columns - first).minimum(_PIXELS), name="column") as column:
            pixel = [number, *row, first + column]

            def compute(channel: Index) -> None:
                computed = self.computed(buffers, [*pixel, channel], width)
                output.store(computed, output.offset([*pixel, channel]))

            for_each_vector(self.channels, width, compute, "channel")

    def computed(
        self, buffers: Sequence[Buffer], indices: Sequence[Index], width: int, lanes: LaneMask | None = None
    ) -> ir.Value:
        """The results from an index `(n, spatial..., k)` on, as many or as `lanes` says, of all operands."""
        elements = {
            operand.argument: load_operand(buffer, operand.indexing_map, indices, width, lanes)
            for operand, buffer in zip(self.operands, buffers, strict=True)
        }
        in_order = [elements[argument] for argument in sorted(elements)]
        return self.function.emit(in_order, self.target.fused_multiply_add, self.target.numbers)
