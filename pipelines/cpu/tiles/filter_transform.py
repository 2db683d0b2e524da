"""The transform of filters on the CPU, from the layouts that they have in programs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.vectors import LaneMask, splat, vector_type
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class FilterTransform:
    """packed[..., a, c, k] = (G g)[a] for a view, of filters in memory as `layout` says, a vector at a time.

    With `exact` in float64 and rounded once, else in float32.
    """

    shape: ConvolutionShape
    target: CpuTarget
    layout: FilterLayout
    width: int
    exact: bool
    leaves_lanes_out: bool = False
    """Whether the last vector has more output channels than there are."""

    def emit(
        self, view: int, channels: tuple[Index, Index], filters: Buffer, packed: Buffer, place: Index
    ) -> None:
        """Emits the transform of an input channel of a group and the output channels from the second on.

        `packed` is ... x A x channels x channels; `place` is that of the vector there, for the first a.
        """
        decomposition, width = self.shape.decomposition, self.width
        parts = product(*map(range, decomposition.part_size))
        taps = dict(zip(parts, decomposition.taps(decomposition.views[view]), strict=True))
        element = ir.F64Type.get() if self.exact else packed.computed

        def load(position: Position) -> ir.Value:
            tap = taps[tuple(i.known or 0 for i in position)]
            if tap is None:
                return splat(0.0, width, element)
            last = Index(self.shape.output_channels - 1) if self.leaves_lanes_out else None
            value = self._load(filters, tap, channels, last)
            return arith.extf(vector_type(width, element), value) if self.exact else value

        def store(position: Position, value: ir.Value) -> None:
            if self.exact:
                value = arith.truncf(vector_type(width, packed.computed), value)
            packed.store(value, place + flattened(position, decomposition.alpha) * packed.stride(-3))

        recipes = [each.filter for each in decomposition.transforms]
        emit_unrolled(recipes, load, store, self.target.fused_multiply_add)

    def _load(
        self, filters: Buffer, tap: tuple[int, ...], channels: tuple[Index, Index], last_output: Index | None
    ) -> ir.Value:
        """The weights of one tap by an input channel and a vector of output channels.

        What is in the lanes past `last_output`, where it is given, is of no matter.
        """
        width = self.width
        first = self.layout.place(filters, self.shape.kernel_size, tap, channels)
        stride = self.layout.output_stride(filters)
        if last_output is None:
            if stride == 1:
                return filters.load(first, width)
            lanes = [filters.load_scalar(first + lane * stride) for lane in range(width)]
            return vector.from_elements(vector_type(width, filters.computed), lanes)
        last = last_output - channels[1]
        if stride == 1:
            return filters.load_lanes(first, LaneMask.between(0, last + 1, width))
        lanes = [filters.load_scalar(first + Index(lane).minimum(last) * stride) for lane in range(width)]
        return vector.from_elements(vector_type(width, filters.computed), lanes)
