"""From the ops of a filter's gradient to dispatches of GPU kernels."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.dispatch import kernel_name
from iree.winograd.pipelines.emission.work import BATCH
from iree.winograd.pipelines.gpu.device.launch import (
    LaunchedKernel,
    Launcher,
    Operand,
    TensorArgument,
    WorkgroupThreads,
)
from iree.winograd.pipelines.gpu.image_arguments import image_operand
from iree.winograd.pipelines.gpu.kernels.tile_product import TileProductKernel
from iree.winograd.pipelines.gpu.kernels.transforms import TRANSFORM_THREADS
from iree.winograd.pipelines.gpu.kernels.weight_gradient import (
    FilterGradientKernel,
    GradientTileKernel,
    ImageTileKernel,
    TotalKernel,
)
from iree.winograd.pipelines.problems.weight_gradient_group import WeightGradientGroup

_TRANSFORMING = WorkgroupThreads(TRANSFORM_THREADS)


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
            packed = TensorArgument(packing.image_extents, types.domain, True)
            images = self._stage(ImageTileKernel(packing), "images", [images], packed)
        gradients = image_operand(self.group.gradient_transform, by_quads)
        if not packing.gradients_are_packed:
            packed = TensorArgument(packing.gradient_extents, types.domain, True)
            gradients = self._stage(GradientTileKernel(packing), "gradients", [gradients], packed)
        threads = WorkgroupThreads(packing.schedule.threads, packing.schedule.resident_threads)
        blocks = TensorArgument(packing.product_extents(packing.tile_blocks), types.accumulator, True)
        products = self._stage(self.product, "products", [images, gradients], blocks, threads)
        if packing.tile_blocks > 1 and not packing.adds_blocks_last:
            total = TensorArgument(packing.product_extents(1), types.accumulator, True)
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
        shape = self.group.shape
        assert shape.batch is not None, "gradients of filters need a static batch"
        name = kernel_name(shape, stage)
        return self.launcher.launch(kernel, name, threads, operands, result, {BATCH: shape.batch}), result
