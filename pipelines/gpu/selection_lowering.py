"""From selected pixels to dispatches."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.pipelines.emission.selection import Selection
from iree.winograd.pipelines.emission.signature import DispatchTensor
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import (
    Launcher,
    LaunchSizes,
    Operand,
    TensorArgument,
    WorkgroupThreads,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.image_arguments import channels_of, image_array, image_in_place
from iree.winograd.pipelines.gpu.in_place import holds_channels
from iree.winograd.pipelines.gpu.kernels.selection import SELECTION_THREADS, SelectionKernel
from iree.winograd.pipelines.problems.tensor_operations import PixelSelection


def lowered_selection(launcher: Launcher, operation: PixelSelection) -> ir.Value:
    """Emits the dispatch of an operation: `N x OH... x C`, or a larger tensor with these channels."""
    channels = ir.RankedTensorType(operation.image.type).shape[-1]
    kernel = SelectionKernel(Selection(operation.is_weighted, channels))
    operands = [image_in_place(operation.image, channels, by_quads=channels % QUAD == 0)]
    for dimension, taps in enumerate(operation.taps):
        for tap in taps:
            operands += [
                _table(table, dimension) for table in (tap.positions, tap.weights) if table is not None
            ]
    updated, result = None, image_array(operation.like, "output", channels % QUAD == 0, channels_first=False)
    if (to := operation.destination) is not None:
        whole = ir.RankedTensorType(to.whole.type)
        by_quads = channels % QUAD == 0 and holds_channels(whole, to.first, channels)
        updated, result = channels_of(to, by_quads, "output")
        updated = None if is_empty(updated) else updated
    threads = WorkgroupThreads(SELECTION_THREADS)
    return launcher.launch(kernel, kernel.name, threads, operands, result, _sizes(operation), updated)


def _table(table: ir.Value, dimension: int) -> Operand:
    """What is told of each place along a dimension of the result."""
    type_ = ir.RankedTensorType(table.type)
    sizes = (Size("output", dimension),) if type_.is_dynamic_dim(0) else ()
    return table, TensorArgument.of(table, by_quads=False, tensor=DispatchTensor(type_, sizes))


def _sizes(operation: PixelSelection) -> LaunchSizes:
    """Those of image and result."""
    sizes: dict[Size, int | ir.Value] = {BATCH: size_of(operation.image, 0)}
    for of, value in (("input", operation.image), ("output", operation.like)):
        sizes |= {Size(of, d): size_of(value, 1 + d) for d in range(len(operation.taps))}
    return sizes
