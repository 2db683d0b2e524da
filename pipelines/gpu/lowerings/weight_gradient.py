"""From the ops of a filter's gradient to dispatches of GPU kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.convolution_signature import spatial_sizes
from iree.winograd.pipelines.emission.dispatch import kernel_name
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import (
    LaunchedKernel,
    Launcher,
    LaunchSizes,
    Operand,
    TensorArgument,
    WorkgroupThreads,
    told,
)
from iree.winograd.pipelines.gpu.kernels.weight_gradients.tile_product import TileProductKernel
from iree.winograd.pipelines.gpu.kernels.weight_gradients.weight_gradient import (
    FilterGradientKernel,
    GradientTileKernel,
    ImageTileKernel,
    TotalKernel,
)
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import TRANSFORM_THREADS
from iree.winograd.pipelines.gpu.lowerings.image_arguments import image_operand
from iree.winograd.pipelines.problems.weight_gradient_group import WeightGradientGroup

_TRANSFORMING = WorkgroupThreads(TRANSFORM_THREADS)
_TILE_BLOCKS = Size("tile_blocks")
"""Of what the kernels pass to each other."""


@dataclass(frozen=True)
class WeightGradientLowering:
    """Kernels that transform both operands, multiply, add what blocks of tiles gave, and transform back."""

    launcher: Launcher
    group: WeightGradientGroup
    product: TileProductKernel

    def lower(self) -> ir.Value:
        """Emits the dispatches at the insertion point; gives the gradients of the taps."""
        packing = self.product.packing
        by_quads, types = packing.output_by_quads, packing.shape.element_types
        images = image_operand(self.group.input_transform, packing.image_by_quads)
        if not packing.images_are_packed:
            packed = self._of_blocks(packing.image_extents, types.domain)
            images = self._stage(ImageTileKernel(packing), "images", [images], packed)
        gradients = image_operand(self.group.gradient_transform, by_quads)
        if not packing.gradients_are_packed:
            packed = self._of_blocks(packing.gradient_extents, types.domain)
            gradients = self._stage(GradientTileKernel(packing), "gradients", [gradients], packed)
        threads = WorkgroupThreads(packing.schedule.threads, packing.schedule.resident_threads)
        blocks = self._of_blocks(packing.product_extents, types.accumulator)
        products = self._stage(self.product, "products", [images, gradients], blocks, threads)
        if blocks.extents[0] != 1 and not packing.adds_blocks_last:
            total = TensorArgument((1, *packing.product_extents), types.accumulator, True)
            products = self._stage(TotalKernel(packing), "total", [products], total)
        order = self.group.filter_gradient.permutation
        result = TensorArgument.of(self.group.filter_gradient.result, by_quads).permuted(order)
        kernel = FilterGradientKernel(packing, order[-1] == len(order) - 1)
        value, _ = self._stage(kernel, "weights", [products], result)
        return value

    def _stage(
        self,
        kernel: LaunchedKernel,
        stage: str,
        operands: list[Operand],
        result: TensorArgument,
        threads: WorkgroupThreads = _TRANSFORMING,
    ) -> Operand:
        """What the dispatch of a stage gives."""
        name = kernel_name(self.group.shape, stage)
        return self.launcher.launch(kernel, name, threads, operands, result, self._sizes), result

    def _of_blocks(self, extents: tuple[int, ...], element: str) -> TensorArgument:
        """A tensor of these extents for each block of tiles."""
        count = self.product.packing.tile_blocks
        blocks = count(told(self._sizes))
        if blocks.known is not None:
            return TensorArgument((blocks.known, *extents), element, True)
        return TensorArgument((None, *extents), element, True, (_TILE_BLOCKS,), count)

    @cached_property
    def _sizes(self) -> LaunchSizes:
        """The sizes that kernels are told: of images, and of the gradients of outputs."""
        shape = self.group.shape
        first = {
            "input": (self.group.input_transform.input, shape.input_channels_first),
            "output": (self.group.gradient_transform.gradient, shape.output_channels_first),
        }
        sizes = {BATCH: size_of(self.group.input_transform.input, 0)}
        for size, _ in spatial_sizes(shape):
            image, is_channels_first = first[size.of]
            sizes[size] = size_of(image, size.dimension + (2 if is_channels_first else 1))
        return sizes
