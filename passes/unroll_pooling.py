"""Write sums over short windows as sums of slices."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.generic import build_sum
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused

MAX_WINDOW = 9
"""Elements up to which the sum of a window is written out."""
_SUMS = ("linalg.pooling_nhwc_sum", "linalg.pooling_ndhwc_sum")


PASS_NAME = "winograd-unroll-pooling"


@register_pass(PASS_NAME)
class UnrollPooling:
    """Write sums over short windows as sums of slices.

    Local response normalization across channels arrives as pooling over windows of one dimension, of images
    whose own channels are a dimension of size 1. IREE vectorizes pooling along channels, so these loops, and
    the powers and quotients that it fuses with them, would be scalar. As sums of slices all of it is
    elementwise. Rewritten are sums over windows of at most 9 neighbours along one dimension, of static shape,
    with one channel, and of floating-point numbers that are added as they are.

        %r = linalg.pooling_ndhwc_sum ins(%x, %w : tensor<1x98x54x54x1xf32>, tensor<3x1x1xf32>) outs(%zeros)
      becomes
        %0 = tensor.extract_slice %x[0, 0, 0, 0, 0] [1, 96, 54, 54, 1] [1, 1, 1, 1, 1]
        %1 = tensor.extract_slice %x[0, 1, 0, 0, 0] [1, 96, 54, 54, 1] [1, 1, 1, 1, 1]
        %2 = tensor.extract_slice %x[0, 2, 0, 0, 0] [1, 96, 54, 54, 1] [1, 1, 1, 1, 1]
        %r = linalg.generic ins(%0, %1, %2) { arith.addf, arith.addf }
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("pooling", [each for each in walk(module) if each.name in _SUMS], _unroll)


def _match_window(operation: ir.Operation) -> int | NoMatch | None:
    """The dimension of the input along which a sum that is to be rewritten goes.

    None for sums of images with several channels, which IREE vectorizes.
    """
    source, window, init = operation.operands
    result_shape = list(ir.RankedTensorType(init.type).shape)
    if result_shape[-1] != 1:
        return None
    body = [view.operation.name for view in operation.regions[0].blocks[0].operations]
    if body != ["arith.addf", "linalg.yield"]:
        return NoMatch(operation, "it does more than to add floating-point numbers")
    if any(map(is_dynamic, (*source.type.shape, *result_shape))):
        return NoMatch(operation, "its sizes are known only at run time")
    spacings = [*operation.attributes["strides"], *operation.attributes["dilations"]]
    if {int(spacing) for spacing in spacings} != {1}:
        return NoMatch(operation, "its strides and dilations are not all 1")
    if not is_zero(init):
        return NoMatch(operation, "it adds to something else than zeros")
    long = [dimension for dimension, size in enumerate(window.type.shape) if size > 1]
    if len(long) != 1:
        return NoMatch(operation, f"its window spans {len(long)} dimensions")
    if window.type.shape[long[0]] > MAX_WINDOW:
        return NoMatch(operation, f"its window holds more than {MAX_WINDOW} elements")
    return 1 + long[0]


def _unroll(operation: ir.Operation) -> None:
    dimension = _match_window(operation)
    if isinstance(dimension, NoMatch):
        remark_left(PASS_NAME, dimension)
    if not isinstance(dimension, int):
        return
    source, window, _ = operation.operands
    result_type = ir.RankedTensorType(operation.results[0].type)
    shape = list(result_type.shape)
    with operation.location, ir.InsertionPoint(operation):
        parts = []
        for position in range(window.type.shape[dimension - 1]):
            offsets = [0] * len(shape)
            offsets[dimension] = position
            parts.append(extracted(source, offsets, shape))
        total = build_sum(parts)
    operation.results[0].replace_all_uses_with(total)
    erase_if_unused([operation])
