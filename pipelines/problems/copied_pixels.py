"""Parts of images, some of their pixels, that kernels copy."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import InputTransformOp, OutputTransformOp
from iree.winograd.passes.match.navigation import readers
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.half_precision import half_type

from .windows import Windows

_LEAST_RANK, _RANK = 3, 4
_TRANSFORMS = {InputTransformOp.OPERATION_NAME, OutputTransformOp.OPERATION_NAME}


def match_copied_pixels(operation: ir.Operation) -> Windows | None:
    """The windows that a part of N x H x W x C, of all images and channels, consists of: its pixels.

    None for another slice, for one without strides, which IREE may read in place, and for one that not only
    transforms read: IREE would read it in place for operations of its own. Elements are of f32, f16 or bf16.
    Images of f32 whose sizes are known only at run time may have one to three dimensions.
    """
    if operation.name != "tensor.extract_slice" or not _is_transformed(operation):
        return None
    image = operation.operands[0]
    part, type_ = match_slice(operation, of_any_size=True), ir.RankedTensorType(image.type)
    is_single = str(type_.element_type) == "f32"
    if part is None or type_.rank < _LEAST_RANK or not (is_single or half_type(image) is not None):
        return None
    batch, *extents, channels = type_.shape
    offsets, sizes, strides = (each[1:-1] for each in (part.offsets, part.sizes, part.strides))
    has_all = (part.offsets[0], part.offsets[-1], part.sizes[0], part.sizes[-1]) == (0, 0, batch, channels)
    if not has_all or is_dynamic(channels) or set(strides) == {1}:
        return None
    is_open = any(map(is_dynamic, (*extents, *sizes)))
    if not (is_single if is_open else type_.rank == _RANK):
        return None
    low = tuple(-offset for offset in offsets)
    one, none = (1,) * len(extents), (0,) * len(extents)
    read, written = (tuple(None if is_dynamic(each) else each for each in of) for of in (extents, sizes))
    return Windows(read, channels, one, strides, low, none, written)


def _is_transformed(slice_: ir.Operation) -> bool:
    users = {user.name for user in readers(slice_.results[0])}
    return bool(users) and users <= _TRANSFORMS
