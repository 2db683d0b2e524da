"""Have kernels of this project copy the strided parts of images that only they read."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.copied_pixels import match_copied_pixels
from ..problems.tensor_operations import MaxPooling


@register_pass("winograd-copy-parts")
class CopyParts:
    """Have kernels of this project copy the strided parts of images that only they read.

    Where `winograd-move-strides` leaves pixels out, what is added to the others is a part of an image. IREE
    copies it in a dispatch of its own between ours, before and after which all threads wait. As the maxima of
    windows of one pixel it is one of ours, which `winograd-chain-kernels` joins with the others. Images of
    half precision are copied so. On GPUs it is images whose sizes are known only at run time: IREE's code
    took an H200 two to three times as long as of known ones.

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
    image = slice_.operands[0]
    if (pixels := match_copied_pixels(slice_)) is None:
        return
    pooling = MaxPooling(image, pixels, slice_.results[0], half_type(image))
    if backend.misfit(pooling) is not None:
        return
    with slice_.location, ir.InsertionPoint(slice_):
        copied = lowering.compute(pooling)
    slice_.results[0].replace_all_uses_with(copied)
    erase_if_unused([slice_])
