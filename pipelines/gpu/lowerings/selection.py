"""From selected pixels to dispatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.layouts import image_layout
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.passes.match.pixels.position_arithmetic import (
    PositionArithmetic,
    match_position_arithmetic,
)
from iree.winograd.passes.match.pixels.selected_pixels import PixelTap
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
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
from iree.winograd.pipelines.gpu.kernels.images.selection import (
    SELECTION_THREADS,
    SelectionKernel,
    integer_of,
)
from iree.winograd.pipelines.gpu.lowerings.image_arguments import channels_of, image_array, image_in_place
from iree.winograd.pipelines.gpu.lowerings.in_place import holds_channels
from iree.winograd.pipelines.problems.tensor_operations import PixelSelection


def lowered_selection(launcher: Launcher, operation: PixelSelection) -> ir.Value:
    """Emits the dispatch of an operation: its result, or a larger tensor with these channels."""
    channels = ir.RankedTensorType(operation.image.type).shape[-1]
    arithmetic = computed_taps(operation)
    rounded = None if operation.rounded is None else str(operation.rounded)
    kernel = SelectionKernel(Selection(operation.is_weighted, channels, rounded), arithmetic)
    operands = [image_in_place(operation.image, channels, by_quads=channels % QUAD == 0)]
    if arithmetic is None:
        for dimension, taps in enumerate(operation.taps):
            operands += [_table(table, dimension) for table in _tables(taps)]
    updated, result = None, _result(operation, channels)
    if (to := operation.destination) is not None:
        whole = ir.RankedTensorType(to.whole.type)
        by_quads = channels % QUAD == 0 and holds_channels(whole, to.first, channels)
        updated, result = channels_of(to, by_quads, "output")
        updated = None if is_empty(updated) else updated
    threads = WorkgroupThreads(SELECTION_THREADS)
    sizes = {**_sizes(operation), **_integers(arithmetic or ())}
    return launcher.launch(kernel, kernel.name, threads, operands, result, sizes, updated)


def _result(operation: PixelSelection, channels: int) -> TensorArgument:
    """What is written, as an array N x OH... x C."""
    like = ir.RankedTensorType(operation.like.type)
    element = like.element_type if operation.half is None else operation.half
    if not operation.makes_first:
        argument = image_array(operation.like, "output", channels % QUAD == 0, channels_first=False)
        return replace(argument, element=str(element))
    shape = [like.shape[dimension] for dimension in image_layout.to_channels_first(like.rank)]
    tensor = image_tensor(ir.RankedTensorType.get(shape, element), "output", channels_first=True)
    argument = TensorArgument.of(operation.like, by_quads=False, tensor=tensor)
    return argument.permuted(image_layout.to_channels_last(like.rank))


def computed_taps(operation: PixelSelection) -> tuple[PositionArithmetic | None, ...] | None:
    """How positions and weights are computed, by dimension, of which some have none; None if in memory."""
    found = [match_position_arithmetic(_tables(taps)) if taps else None for taps in operation.taps]
    is_all = all(each is not None for each, taps in zip(found, operation.taps, strict=True) if taps)
    return tuple(found) if is_all else None


def _tables(taps: Sequence[PixelTap]) -> list[ir.Value]:
    """The positions of each tap, its weights, if it has some, next to them."""
    return [table for tap in taps for table in tap.tables]


def _integers(arithmetic: Sequence[PositionArithmetic | None]) -> LaunchSizes:
    """Those that positions along each dimension are computed of."""
    index = ir.IndexType.get()
    return {
        integer_of(dimension, number): value if value.type == index else arith.index_cast(index, value)
        for dimension, each in enumerate(arithmetic)
        for number, value in enumerate(() if each is None else each.integers)
    }


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
