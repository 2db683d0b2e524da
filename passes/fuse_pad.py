"""Move padding with zeros into the input transform."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.layouts.padding import match_paddings
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fuse-pad"


@register_pass(PASS_NAME)
class FusePad:
    """Move padding with zeros into the input transform.

    The transform then reads zeros outside of its input, and the padded copy is never made. Padding of the
    spatial dimensions by sizes known at compile time is moved; any other stays. A tensor inserted into zeros
    is padding, too.

        %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] { ... tensor.yield %zero : f32 }
        %v = "winograd.input_transform"(%p) {padding_low = array<i64: 0, 0>, ...}
      becomes
        %v = "winograd.input_transform"(%x) {padding_low = array<i64: 1, 1>, ...}
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("input transform", transforms(module, ops.InputTransformOp), _fuse)


def _fuse(transform: ops.InputTransformOp) -> None:
    if transform.channels_first:
        return
    padding, stays = match_paddings(transform.input)
    if stays is not None:
        remark_left(PASS_NAME, stays)
    if padding.source == transform.input:
        return
    low = tuple(map(sum, zip(transform.padding_low, padding.low, strict=True)))
    high = tuple(map(sum, zip(transform.padding_high, padding.high, strict=True)))
    with transform.location, ir.InsertionPoint(transform):
        fused = ops.input_transform(padding.source, transform.decomposition, low, high, transform.groups)
    transform.result.replace_all_uses_with(fused.result)
    erase_if_unused([transform.operation])
