"""Have kernels of this project copy the strided parts of images that only they read."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import InputTransformOp, OutputTransformOp
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import MaxPooling
from ..problems.windows import Windows

_RANK = 4
_TRANSFORMS = {InputTransformOp.OPERATION_NAME, OutputTransformOp.OPERATION_NAME}


@register_pass("winograd-copy-parts")
class CopyParts:
    """Have kernels of this project copy the strided parts of images that only they read, on CPUs.

    Where `winograd-move-strides` leaves pixels out, what is added to the others is a part of an image. IREE
    copies it in a dispatch of its own between ours, before and after which all threads wait. As the maxima of
    windows of one pixel it is one of ours, which `winograd-chain-kernels` joins with the others.

        %p = tensor.extract_slice %y[0, 0, 0, 0] [1, 28, 28, 64] [1, 2, 2, 1]
               : tensor<1x56x56x64xf32> to tensor<1x28x28x64xf32>
        %r = "winograd.output_transform"(%m, %p) ({ ... arith.addf ... })
      becomes
        %p = flow.dispatch @winograd_max_pool_1x1_28x28x64(%y)
    """

    def run(self, module: ir.Operation) -> None:
        slices = [each for each in walk(module) if each.name == "tensor.extract_slice"]
        if not slices or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("slice", slices, lambda each: _copy(each, backend, lowering))


def _copy(slice_: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    pixels = _pixels(slice_)
    if pixels is None or not _is_transformed(slice_):
        return
    pooling = MaxPooling(slice_.operands[0], pixels, slice_.results[0])
    if backend.misfit(pooling) is not None:
        return
    with slice_.location, ir.InsertionPoint(slice_):
        copied = lowering.compute(pooling)
    slice_.results[0].replace_all_uses_with(copied)
    erase_if_unused([slice_])


def _pixels(operation: ir.Operation) -> Windows | None:
    """The windows that a part of N x H x W x C of f32, of all images and channels, consists of: its pixels.

    None for another slice, and for one without strides, which IREE may read in place.
    """
    part, type_ = match_slice(operation), ir.RankedTensorType(operation.operands[0].type)
    if part is None or type_.rank != _RANK or str(type_.element_type) != "f32":
        return None
    batch, *extents, channels = type_.shape
    offsets, sizes, strides = (each[1:-1] for each in (part.offsets, part.sizes, part.strides))
    has_all = (part.offsets[0], part.offsets[-1], part.sizes[0], part.sizes[-1]) == (0, 0, batch, channels)
    if not has_all or any(map(is_dynamic, (*extents, channels))) or set(strides) == {1}:
        return None
    low = tuple(-offset for offset in offsets)
    one, none = (1,) * len(extents), (0,) * len(extents)
    return Windows(tuple(extents), channels, one, strides, low, none, sizes)


def _is_transformed(slice_: ir.Operation) -> bool:
    """Whether nothing but transforms reads it: IREE would read it in place for operations of its own."""
    users = {use.owner.operation.name for use in slice_.results[0].uses}
    return bool(users) and users <= _TRANSFORMS
