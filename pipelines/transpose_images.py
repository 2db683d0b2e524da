"""Have kernels of this project make images channels last that only they read."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import InputTransformOp
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.match.image_layout import is_transposition, to_channels_last
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from .backends.backend import Lowering
from .backends.module_backend import module_backend, unsupported_target


@register_pass("winograd-transpose-images")
@dataclass(frozen=True)
class TransposeImages:
    """Have kernels of this project make arguments channels last that only they read.

    On CPUs IREE's code relies on arguments being aligned to a cache line, so that `load` would have to copy
    an array that isn't, as those of numpy seldom are, for a transposition that reads all of it anyhow. On
    GPUs its code for images of few pixels takes up to five times as long as memory does.

        %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
        %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) permutation = [0, 2, 3, 1]
        %v = "winograd.input_transform"(%t) : (tensor<1x32x32x3xf32>) -> tensor<36x64x3xf32>
      becomes
        %t = flow.dispatch @winograd_channels_last_1024x3(%x)
    """

    def run(self, module: ir.Operation) -> None:
        transpositions = [each for each in walk(module) if each.name == "linalg.transpose"]
        if not transpositions or unsupported_target(module) is not None:
            return
        lowering = module_backend(module).lowering(module)
        rewrite_each("transposition", transpositions, lambda each: _transpose(each, lowering))


def _transpose(transposition: ir.Operation, lowering: Lowering) -> None:
    image = transposition.operands[0]
    if not (_moves_channels(transposition) and _is_argument(image) and _is_transformed(transposition)):
        return
    with transposition.location, ir.InsertionPoint(transposition):
        transposed = lowering.channels_last(image)
    transposition.results[0].replace_all_uses_with(transposed)
    erase_if_unused([transposition])


def _moves_channels(transposition: ir.Operation) -> bool:
    """Whether it makes images of a static size and of f32 channels last."""
    image = ir.RankedTensorType(transposition.operands[0].type)
    return (
        is_transposition(transposition, to_channels_last(image.rank))
        and str(image.element_type) == "f32"
        and not any(map(is_dynamic, image.shape[1:]))
    )


def _is_argument(value: ir.Value) -> bool:
    operation = defining_operation(value)
    return operation is not None and operation.name == "hal.tensor.import"


def _is_transformed(transposition: ir.Operation) -> bool:
    """Whether nothing but the transforms of inputs reads what it gives: IREE would join others with it."""
    users = [use.owner.operation.name for use in transposition.results[0].uses]
    return bool(users) and set(users) == {InputTransformOp.OPERATION_NAME}
