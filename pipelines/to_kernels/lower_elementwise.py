"""Have a kernel of this project compute large images elementwise."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from .elementwise_runs import ends_of_runs, match_run, spread_operation


@register_pass("winograd-lower-elementwise")
class LowerElementwise:
    """Have a kernel of this project compute large images elementwise.

    Group normalization ends with a scale and a shift of each channel, often with an activation behind them,
    and excitation is a scale. IREE computes these vectors anew for each element, divides channels into the
    groups that they were computed by, and transposes with it: at a tenth to two fifths of memory's speed.
    Others, such as normalization by constants, sums and activations that convolutions don't end with, it
    computes at half of memory's speed. Here all elementwise operations in a row are one kernel, which reads
    the vectors from memory, and several quads of a large image at a time. Rewritten are on GPUs images in f32
    of static sizes: of 2^19 elements or more those that IREE would compute what is spread over, of 2^17 or
    more those for which it is in memory, or whose number is no multiple of 128, and of 2^20 or more others,
    unless IREE computes what they are made of, too. What IREE would copy several times before, such as a
    rotated image, is read where it is. Channels-last ones of sizes known only at run time, for which IREE's
    code takes three times as long, are rewritten too, on GPUs with vectors of channels alone, through CUDA
    also in half precision. On CPUs those are, of any size, that compute functions and round to half
    precision, as SiLU does behind a group normalization: so few digits take half of the operations. So are
    those that only scale channels.

        %s = linalg.generic ins(%x, %scale : tensor<1x256x256x64xf32>, tensor<1x64xf32>) { arith.mulf }
        %y = linalg.generic ins(%s, %shift : tensor<1x256x256x64xf32>, tensor<1x64xf32>) { arith.addf }
        %g = linalg.generic ins(%y) { arith.negf, math.exp, arith.addf, arith.divf }
        %z = linalg.generic ins(%y, %g) { arith.mulf }
      becomes
        %z = flow.dispatch @winograd_elementwise_1x256x256x64(%x, %scale, %shift)

        %y = linalg.generic ins(%x, %gate : tensor<1x?x?x64xf32>, tensor<1x64xf32>) { arith.mulf }
      becomes
        %y = flow.dispatch @winograd_elementwise_anyxanyx64(%x, %gate)

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        on_cpu = backend.iree_code.vectorizes_loops
        ends = ends_of_runs(module, takes_half=on_cpu or backend.iree_code.converts_half)
        if on_cpu:
            # IREE's vectors, on CPUs, are as fast as memory where it knows sizes, and rounds nothing.
            ends = [each for each in ends if _is_half(each) or not each.results[0].type.has_static_shape]
        rewrite_each("elementwise operation", ends, lambda each: _lower(each, backend, lowering))


def _is_half(operation: ir.Operation) -> bool:
    """Whether the result is of half precision."""
    return half_type(operation.results[0]) is not None


def _lower(last: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    run = match_run(last)
    if run is None:
        return
    with last.location, ir.InsertionPoint(last):
        merged = run.merged()
        operation = spread_operation(merged, takes_half=backend.iree_code.converts_half or _is_half(last))
        if operation is None or backend.misfit(operation) is not None:
            merged.erase()
            return
        computed = lowering.compute(operation)
    last.results[0].replace_all_uses_with(computed)
    erase_if_unused([merged, last])
