"""Have kernels of this project move channels of arguments and results, and shuffle channels."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.dialect.ops import InputTransformOp, OutputTransformOp
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice, match_extract, match_insert
from iree.winograd.passes.match.layouts.image_layout import (
    is_transposition,
    to_channels_first,
    to_channels_last,
)
from iree.winograd.passes.match.navigation import defining_operation, only_user, readers, walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.match.values.conversions import is_widening, widened_source
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import (
    ChannelsFirst,
    ChannelShuffle,
    ChannelsLast,
    ElementwiseFirst,
    InterleavedChannels,
    TensorOperation,
)
from .elementwise_runs import match_run, spread_operation

_KERNELS = ("flow.dispatch", "winograd.")
_MOVED = ("f32", "f16", "bf16")
_TRANSFORMS = {InputTransformOp.OPERATION_NAME, OutputTransformOp.OPERATION_NAME}
"""Elements of images."""
MIN_SHUFFLED_RANK = 4
"""Of images with groups of channels: images of a single dimension have it."""


@register_pass("winograd-transpose-images")
class TransposeImages:
    """Have kernels of this project move channels of arguments and results, and shuffle channels.

    Arguments that only transforms read become channels last. On CPUs IREE's code relies on arguments being
    aligned to a cache line, so that `load` would have to copy an array that isn't, as those of numpy seldom
    are, for a transposition that reads all of it anyhow. On GPUs its code for images of few pixels takes up
    to five times as long as memory does.

        %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
        %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) permutation = [0, 2, 3, 1]
        %v = "winograd.input_transform"(%t) : (tensor<1x32x32x3xf32>) -> tensor<36x64x3xf32>
      becomes
        %t = flow.dispatch @winograd_channels_last_1024x3(%x)

    Results of kernels that are returned channels first become such a kernel of sizes known only at run time:
    IREE's code takes two to three times as long for these as for known ones, of f16 on CUDA eight times. On
    CPUs those of f16 and bf16 of known sizes do so, too.

        %t = linalg.transpose ins(%y : tensor<1x?x?x4xf32>) permutation = [0, 3, 1, 2]
        %r = hal.tensor.export %t
      becomes
        %t = flow.dispatch @winograd_channels_first_anyx4(%y)

    There results that IREE would compute element by element and store so are computed and made channels first
    by one kernel, or computed by IREE and moved by one, where lines of all channels share sets of L1, or may.

        %y = linalg.generic ins(%x, %scale : tensor<1x?x?x16xf32>, tensor<1x16xf32>) { arith.mulf }
        %t = linalg.transpose ins(%y : tensor<1x?x?x16xf32>) permutation = [0, 3, 1, 2]
        %r = hal.tensor.export %t
      becomes
        %t = flow.dispatch @winograd_elementwise_anyxanyx16_first(%x, %scale)

    Groups of channels that are shuffled, on GPUs, are parts of images whose channels are taken in turns. The
    parts of a concatenation are read where they are, and it isn't written.

        %c = tensor.insert_slice %x into %empty[0, 0, 0, 0] ... into tensor<1x28x28x116xf32>
        %d = tensor.insert_slice %y into %c[0, 0, 0, 58] ... into tensor<1x28x28x116xf32>
        %g = tensor.expand_shape %d [[0], [1], [2], [3, 4]] ... into tensor<1x28x28x2x58xf32>
        %t = linalg.transpose ins(%g) permutation = [0, 1, 2, 4, 3]
      becomes
        %s = flow.dispatch @winograd_interleave_784x2x58(%x, %y) -> tensor<784x58x2xf32>
        %t = tensor.expand_shape %s : tensor<784x58x2xf32> into tensor<1x28x28x58x2xf32>

    Few groups of channels that are shuffled, on CPUs, where IREE moves one element after the other, are the
    channels of as many images as there are pixels.

        %t = linalg.transpose ins(%x : tensor<1x28x28x2x58xf32>) permutation = [0, 1, 2, 4, 3]
      becomes
        %i = tensor.collapse_shape %x : tensor<1x28x28x2x58xf32> into tensor<784x2x58xf32>
        %s = flow.dispatch @winograd_channels_last_58x2(%i)
        %t = tensor.expand_shape %s : tensor<784x58x2xf32> into tensor<1x28x28x58x2xf32>
    """

    def run(self, module: ir.Operation) -> None:
        transpositions = [each for each in walk(module) if each.name == "linalg.transpose"]
        if not transpositions or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("transposition", transpositions, lambda each: _transpose(each, backend, lowering))


def _transpose(transposition: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    image = transposition.operands[0]
    with transposition.location, ir.InsertionPoint(transposition):
        if _shuffles_channels(transposition):
            transposed = _shuffled(image, backend, lowering)
        elif _moves_channels(transposition) and _is_argument_of_transforms(transposition, backend):
            transposed = _computed(_widened(image, backend), backend, lowering)
        elif _returns_channels_first(transposition) and _is_of_kernel(image):
            transposed = _computed(ChannelsFirst(image), backend, lowering)
        elif _returns_channels_first(transposition) and _is_of_loops(image):
            transposed = _computed_first(image, backend, lowering)
            if transposed is None:
                transposed = _computed(ChannelsFirst(image, is_computed=True), backend, lowering)
        else:
            return
    if transposed is None:
        return
    transposition.results[0].replace_all_uses_with(transposed)
    erase_if_unused([transposition])


def _widened(image: ir.Value, backend: Backend) -> ChannelsLast:
    """An image with channels last; one that is widened before is widened as it is moved, on CUDA."""
    source = widened_source(image) if backend.iree_code.converts_half else None
    return ChannelsLast(image) if source is None else ChannelsLast(source, ir.F32Type.get())


def _computed(operation: TensorOperation, backend: Backend, lowering: Lowering) -> ir.Value | None:
    """The result of an operation by its kernel; None where there is none."""
    return lowering.compute(operation) if backend.misfit(operation) is None else None


def _computed_first(image: ir.Value, backend: Backend, lowering: Lowering) -> ir.Value | None:
    """An image channels first by the kernel that computes it elementwise; None where there is none."""
    run = match_run(image.owner.operation)
    if run is None or only_user(image) is None:
        return None
    merged = run.merged()
    computed = spread_operation(merged, takes_half=False)
    transposed = None if computed is None else _computed(ElementwiseFirst(computed), backend, lowering)
    erase_if_unused([merged])
    return transposed


def _shuffles_channels(transposition: ir.Operation) -> bool:
    """Whether it shuffles groups of an image's channels, of f32 and static size.

    Filters whose outputs and inputs change places look alike. They are known before the program runs.
    """
    image = transposition.operands[0]
    type_ = ir.RankedTensorType(image.type)
    if type_.rank < MIN_SHUFFLED_RANK:
        return False
    *outer, groups, channels = range(type_.rank)
    return (
        list(transposition.attributes["permutation"]) == [*outer, channels, groups]
        and str(type_.element_type) == "f32"
        and not any(map(is_dynamic, type_.shape))
        and not is_known_at_load(image)
    )


def _shuffled(image: ir.Value, backend: Backend, lowering: Lowering) -> ir.Value | None:
    """Build `N x H... x groups x channels` as `N x H... x channels x groups`; None where IREE is to."""
    *pixels, groups, channels = ir.RankedTensorType(image.type).shape
    last = len(pixels)
    reassociation = [[*range(last)], [last], [last + 1]]
    element = ir.RankedTensorType(image.type).element_type
    shuffled = _interleaved(image, backend, lowering)
    if shuffled is None:
        images = ir.RankedTensorType.get([prod(pixels), groups, channels], element)
        collapsed = tensor.collapse_shape(images, image, reassociation)
        shuffled = _computed(ChannelShuffle(collapsed), backend, lowering)
        if shuffled is None:
            erase_if_unused([collapsed.owner.operation])
            return None
    shape = [*pixels, channels, groups]
    return tensor.expand_shape(ir.RankedTensorType.get(shape, element), shuffled, reassociation, [], shape)


def _interleaved(image: ir.Value, backend: Backend, lowering: Lowering) -> ir.Value | None:
    """Build `pixels x channels x groups` of the groups where they are; None where there is no such kernel."""
    *pixels, groups, channels = ir.RankedTensorType(image.type).shape
    parts = _concatenated(image)
    joined = None if parts is None else _computed(InterleavedChannels(parts, channels), backend, lowering)
    if joined is not None:
        return joined
    last = len(pixels)
    rows = ir.RankedTensorType.get(
        [prod(pixels), groups * channels], ir.RankedTensorType(image.type).element_type
    )
    whole = tensor.collapse_shape(rows, image, [[*range(last)], [last, last + 1]])
    slices = tuple(ChannelSlice(whole, group * channels) for group in range(groups))
    interleaved = _computed(InterleavedChannels(slices, channels), backend, lowering)
    if interleaved is None:
        erase_if_unused([whole.owner.operation])
    return interleaved


def _concatenated(image: ir.Value) -> tuple[ChannelSlice, ...] | None:
    """The groups of an image that nothing else reads, where each is a part of a concatenation."""
    *_, groups, channels = ir.RankedTensorType(image.type).shape
    expansion = defining_operation(image)
    if expansion is None or expansion.name != "tensor.expand_shape" or only_user(image) is None:
        return None
    value = expansion.operands[0]
    parts: dict[int, ir.Value] = {}
    while (insertion := defining_operation(value)) is not None and only_user(value) is not None:
        destination = match_insert(insertion)
        if destination is None:
            break
        parts.setdefault(destination.first, insertion.operands[0])
        value = destination.whole
    firsts = [group * channels for group in range(groups)]
    if sorted(parts) != firsts or any(part.type.shape[-1] != channels for part in parts.values()):
        return None
    return tuple(match_extract(parts[first]) for first in firsts)


def _moves_channels(transposition: ir.Operation) -> bool:
    """Whether it makes images of f32, f16 or bf16, of static channels, channels last."""
    image = ir.RankedTensorType(transposition.operands[0].type)
    return (
        is_transposition(transposition, to_channels_last(image.rank))
        and str(image.element_type) in _MOVED
        and not is_dynamic(image.shape[1])
    )


def _returns_channels_first(transposition: ir.Operation) -> bool:
    """Whether it makes results channels first to be returned."""
    type_ = ir.RankedTensorType(transposition.operands[0].type)
    channels = type_.shape[-1]
    users = {use.owner.operation.name for use in transposition.results[0].uses}
    return (
        is_transposition(transposition, to_channels_first(type_.rank))
        and str(type_.element_type) in _MOVED
        and not is_dynamic(channels)
        and users == {"hal.tensor.export"}
    )


def _is_of_kernel(image: ir.Value) -> bool:
    kernel = defining_operation(image)
    return kernel is not None and kernel.name.startswith(_KERNELS)


def _is_of_loops(image: ir.Value) -> bool:
    """Whether IREE computes rows of f32 element by element, of images and of what there is of each channel.

    It may join loops over pixels that are one dimension with sums, those over pixels with what it computes of
    all channels, and both with what it concatenates.
    """
    elementwise = _elementwise(image)
    type_ = ir.RankedTensorType(image.type)
    if elementwise is None or type_.rank < 4 or not isinstance(type_.element_type, ir.F32Type):
        return False
    identity = ir.AffineMap.get_identity(type_.rank)
    return all(
        _is_whole(value) if map_ == identity else _loops(map_) <= {0, type_.rank - 1}
        for value, map_ in elementwise.reads
    )


def _is_whole(image: ir.Value) -> bool:
    """Whether something else than such loops computes an image, or they compute it of whole ones."""
    if _elementwise(image) is not None:
        return _is_of_loops(image)
    operation = defining_operation(image)
    return operation is None or operation.name not in ("tensor.concat", "tensor.insert_slice")


def _elementwise(image: ir.Value) -> Elementwise | None:
    operation = defining_operation(image)
    elementwise = None if operation is None else match_elementwise(operation)
    return elementwise if isinstance(elementwise, Elementwise) and elementwise.is_pure else None


def _loops(map_: ir.AffineMap) -> set[int]:
    """The loops of which dimensions are, of an operation that is elementwise."""
    return {each.position for each in map_.results if isinstance(each, ir.AffineDimExpr)}


def _is_argument_of_transforms(transposition: ir.Operation, backend: Backend) -> bool:
    """Whether it moves channels of an argument, and nothing but transforms reads what it gives, one of inputs
    among them.

    IREE would join others with it. On GPUs images of unknown sizes may be widened before, and added only: in
    one dispatch with that, too, IREE's code takes as long as for what it transposes alone.
    """
    image = transposition.operands[0]
    is_slow = not backend.uses_host_memory and any(map(is_dynamic, ir.RankedTensorType(image.type).shape))
    operation = defining_operation(image)
    if is_slow and operation is not None and is_widening(operation):
        operation = defining_operation(operation.operands[0])
    users = {user.name for user in readers(transposition.results[0])}
    is_read = InputTransformOp.OPERATION_NAME in users or (is_slow and bool(users))
    return (
        operation is not None and operation.name == "hal.tensor.import" and is_read and users <= _TRANSFORMS
    )
