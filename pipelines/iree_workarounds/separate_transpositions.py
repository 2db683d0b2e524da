"""Have images be transposed before convolutions of IREE's read them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.computed_first import compute_first

from ..backends.module_backend import supported_backend

_PADDING = ("tensor.insert_slice", "tensor.pad")
"""What may lie between an image and the convolution that reads it."""


@register_pass("winograd-separate-transpositions")
class SeparateTranspositions:
    """Have images and filters be transposed before convolutions that are left to IREE read them, on CPUs.

    IREE 3.13 fuses a transposition with the convolution behind it, whose loops then follow the order of
    before: a convolution of 56x56x32 bytes takes 13 times as long as one of an image that lies channels last.
    The barrier below is for the compiler: it ends a dispatch. Images of unknown sizes stay: IREE finds no
    sizes behind a barrier.

        %t = linalg.transpose ins(%x : tensor<1x32x58x58xi8>) permutation = [0, 2, 3, 1]
        %y = linalg.conv_2d_nhwc_hwcf ins(%t, %w : tensor<1x58x58x32xi8>, tensor<3x3x32x32xi8>)
      becomes
        %t = linalg.transpose ins(%x : tensor<1x32x58x58xi8>) permutation = [0, 2, 3, 1]
        %read = util.optimization_barrier {winograd.computed_first} %t
        %y = linalg.conv_2d_nhwc_hwcf ins(%read, %w : tensor<1x58x58x32xi8>, tensor<3x3x32x32xi8>)
    """

    def run(self, module: ir.Operation) -> None:
        backend = supported_backend(module)
        if backend is None or not backend.iree_code.vectorizes_loops:
            return
        read = [operand for each in convolutions(module) for operand in list(each.operands)[:2]]
        transpositions = dict.fromkeys(each for each in map(_transposition, read) if each is not None)
        rewrite_each("transposition", list(transpositions), lambda each: compute_first(each.results[0]))


def _transposition(value: ir.Value) -> ir.Operation | None:
    """The one that an operand of a convolution comes from."""
    definition = defining_operation(value)
    while definition is not None and definition.name in _PADDING:
        definition = defining_operation(definition.operands[0])
    if definition is None or definition.name != "linalg.transpose":
        return None
    return None if any(map(is_dynamic, definition.results[0].type.shape)) else definition
