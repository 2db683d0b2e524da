"""Have one kernel compute two pointwise layers in a row."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.unit import origin_of, set_origin
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_with_operands

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..backends.schedules import schedule_of, schedule_ranges_of
from ..problems.group import match_group
from ..problems.tensor_operations import PointwisePair


@register_pass("winograd-lower-pointwise-pairs")
class LowerPointwisePairs:
    """Have one kernel compute two pointwise layers in a row, on GPUs.

    MLPs of ConvNeXt, Swin and ViT are a layer to four times as many channels, an activation, and one back. By
    two kernels what is between them is written to memory and read again, four times an image. Where the
    second layer alone reads the first one's result, and threads have registers for its sums, one kernel keeps
    a chunk of the channels between the layers in registers at a time. Numbers of half precision are rounded
    there as they were stored, those of f32 are split by the scale of a bound, as `winograd-store-split` has
    it. It is taken where it is predicted to take less time than both kernels.

        %v = "winograd.input_transform"(%x) : (tensor<32x56x56x96xf16>) -> tensor<1x100352x96xf32>
        %m = linalg.batch_matmul ins(%v, %f : ..., tensor<1x96x384xf32>)
        %h = "winograd.output_transform"(%m, %bias) ({...}) : (...) -> tensor<32x56x56x384xf16>
        %w = "winograd.input_transform"(%h) : (tensor<32x56x56x384xf16>) -> tensor<1x100352x384xf32>
        %n = linalg.batch_matmul ins(%w, %g : ..., tensor<1x384x96xf32>)
        %y = "winograd.output_transform"(%n, %other, %x) ({...}) : (...) -> tensor<32x56x56x96xf16>
      becomes
        %y = flow.dispatch @winograd_pair_f1x1_1x1_56x56x96_from_384(%x, %filters, %more, %bias, %other, %x)
    """

    def run(self, module: ir.Operation) -> None:
        ends = transforms(module, OutputTransformOp)
        if not ends or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        # From the last one on: a pair erases a transform behind its own.
        rewrite_each("pointwise pair", reversed(ends), lambda each: _lower(each, backend, lowering))


def _lower(transform: OutputTransformOp, backend: Backend, lowering: Lowering) -> None:
    """Replace the layer of a transform and the one that alone reads its result."""
    widening = match_group(transform)
    narrowing = None if isinstance(widening, NoMatch) else widening.only_reader
    if isinstance(widening, NoMatch) or narrowing is None:
        return
    own, other = schedule_of(widening.product), schedule_of(narrowing.product)
    have_several = any(schedule_ranges_of(each.product) for each in (widening, narrowing))
    if own is None or other is None or have_several:
        return
    schedule = backend.pair_schedule(widening, own, narrowing, other)
    if schedule is None:
        return
    operation = PointwisePair(widening, narrowing, schedule)
    last = backend.insertion(narrowing) or narrowing.output_transform.operation
    if widening.product.block != last.block or backend.misfit(operation) is not None:
        return
    with last.location, ir.InsertionPoint(last):
        computed = lowering.compute(operation)
    dispatch, origin = defining_operation(computed), origin_of(widening.product)
    if dispatch is not None and origin is not None:
        set_origin(dispatch, origin)
    last.results[0].replace_all_uses_with(computed)
    erase_with_operands(last)
