"""The depthwise kernel: one filter per channel, so there is nothing to multiply as matrices."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.sized_shape import product as product_of
from iree.winograd.pipelines.emission.tiles import clamped_element, input_positions, locate_tile
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.gpu.schedules.depthwise import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .transforms import Epilogue, ThreadGrid


@dataclass(frozen=True)
class DepthwiseKernel:
    """output[n, o..., c] = epilogue(sum over taps of image[n, i..., c] * filters[tap, c])."""

    shape: ConvolutionShape
    schedule: GpuDepthwiseSchedule
    layout: FilterLayout | None = None
    """Of filters known only at run time; constants are taps x C."""

    def __post_init__(self) -> None:
        if not is_depthwise(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution")

    @property
    def filter_extents(self) -> tuple[int, int]:
        """taps x C."""
        return (len(self.shape.decomposition.views), self.shape.output_channels)

    @property
    def tap_of_view(self) -> tuple[int, ...]:
        """The row-major number of the one tap that each view holds."""
        decomposition = self.shape.decomposition
        taps = list(product(*map(range, decomposition.kernel_size)))
        return tuple(
            taps.index(tap) for view in decomposition.views for tap in decomposition.taps(view) if tap
        )

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Outputs, channels."""
        return self._grid.workgroups(self._outputs(sizes))

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        """`image` is N x H... x C, `output` is N x OH... x C."""
        number, quad, exists = self._grid.place(work.workgroup, self._outputs(work.sizes))
        shape, channel = self.shape, quad * QUAD

        def compute() -> None:
            sized = SizedShape.of(shape, work.sizes)
            tile = locate_tile(sized, number)
            sum_ = constant_quad(0.0, output.computed)
            for tap, view in zip(self.tap_of_view, shape.decomposition.views, strict=True):
                origin = (Index(0),) * shape.decomposition.spatial_rank
                position, inside = clamped_element(input_positions(sized, tile, view), origin)
                value = image.load(image.offset([tile.image, *position, channel]), QUAD, inside)
                sum_ = vector.fma(value, self._weights(filters, tap, channel), sum_)
            finished = epilogue(sum_, tile.image, tile.first_output, channel)
            offset = output.offset([tile.image, *tile.first_output, channel])
            output.store_first(finished, offset, Index(shape.output_channels) - channel, exists)

        when(exists, compute)

    def _weights(self, filters: GlobalBuffer, number: int, channel: Index) -> ir.Value:
        """A quad of channels of the tap with this row-major number."""
        if self.layout is None:
            return filters.load(channel + number * self.shape.output_channels)
        kernel_size = self.shape.kernel_size
        tap = unflatten(Index(number), kernel_size)
        offset = self.layout.place(filters, kernel_size, tap, (Index(0), channel))
        remaining = Index(self.shape.output_channels) - channel
        return filters.load_first(offset, remaining, Condition(True), self.layout.output_stride(filters))

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(
            ceil_div(self.shape.output_channels, QUAD), self.schedule.threads, self.schedule.quads
        )

    def _outputs(self, sizes: Sizes) -> Index:
        return sizes.batch * product_of(SizedShape.of(self.shape, sizes).output_size)
