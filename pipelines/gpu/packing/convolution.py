"""What the packed layouts of all kernels need to know of a convolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.sized_shape import SizedShape, product
from iree.winograd.pipelines.emission.views import view_offsets
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class ConvolutionPacking(ABC):
    """The channels, views and tiles of a convolution, as the layouts count them."""

    shape: ConvolutionShape

    @property
    def group_channels(self) -> int:
        """Input channels of one group."""
        return self.shape.group_inputs

    @property
    def group_outputs(self) -> int:
        """Output channels of one group."""
        return self.shape.group_outputs

    @property
    def views(self) -> int:
        return len(self.shape.decomposition.views)

    @property
    def image_by_quads(self) -> bool:
        """Whether the channels of each group of the input are whole quads."""
        return self.group_channels % QUAD == 0

    @property
    def output_by_quads(self) -> bool:
        """Whether the channels of each group of the output are whole quads."""
        return self.group_outputs % QUAD == 0

    def tiles(self, sizes: Sizes) -> Index:
        """T, the tiles of all images."""
        return sizes.batch * product(SizedShape.of(self.shape, sizes).tiles_per_image)

    def in_line(self, sizes: Sizes, image: GlobalBuffer) -> SizedShape | None:
        """The shape with all pixels of all images as one row, as they lie in `image`, which it reads.

        None where they don't, where an output is of more than one, or where sizes are known: of these their
        places take few instructions.
        """
        return self.outputs_in_line(sizes, image) if self.shape.is_of_single_pixels else None

    def outputs_in_line(
        self, sizes: Sizes, output: GlobalBuffer, *, of_known_sizes: bool = False
    ) -> SizedShape | None:
        """The shape with all outputs of a direct convolution as one row, as they lie in `output`.

        None where they don't, where tiles are numbered in another order, or where sizes are known, unless
        those count, too.
        """
        shape = self.shape
        is_direct = shape.transform_size == 1 and set(shape.decomposition.phases) == {1}
        is_taken = of_known_sizes or bool(shape.unknown_sizes)
        if not (is_taken and is_direct and output.has_pixels_in_order):
            return None
        size = SizedShape.of(shape, sizes).in_line
        size = (*size[:-1], sizes.batch * size[-1])
        return SizedShape(shape, size, size, Index(1))

    def view_offsets(self, view: Index) -> tuple[Index, ...]:
        """The offset of a view that is known only when the kernel runs."""
        return view_offsets(self.shape.decomposition, view)

    @property
    @abstractmethod
    def padded_channels(self) -> int:
        """Positions along the reduction dimension of one view."""

    @property
    @abstractmethod
    def reduction(self) -> int:
        """The reduction dimension without the padding at its end."""

    def offsets_of(self, row: Index) -> tuple[tuple[Index, ...], Condition]:
        """The offset of the view that a position along the reduction dimension is of, if it is of one."""
        view = (row // self.padded_channels).minimum(self.views - 1)
        return self.view_offsets(view), row.less_than(self.reduction)
