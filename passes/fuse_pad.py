"""Move padding with zeros into the input transform."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.frame.containment import rewrite_each
from iree.winograd.passes.frame.registry import register_pass
from iree.winograd.passes.frame.remarks import remark_left
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.padding import Padding, match_padding
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fuse-pad"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
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
    low, high = transform.padding_low, transform.padding_high
    source = transform.input
    while isinstance(padding := match_padding(source), Padding):
        source = padding.source
        low = tuple(map(sum, zip(low, padding.low, strict=True)))
        high = tuple(map(sum, zip(high, padding.high, strict=True)))
    if isinstance(padding, NoMatch):
        remark_left(PASS_NAME, padding)
    if source == transform.input:
        return
    with transform.location, ir.InsertionPoint(transform):
        fused = ops.input_transform(source, transform.decomposition, low, high, transform.groups)
    transform.result.replace_all_uses_with(fused.result)
    erase_if_unused([transform.operation])
