"""Have scales of channels that are computed by groups be known before what they scale."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import transforms, walk
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.rewrite.computed_first import compute_first

from ..backends.module_backend import supported_backend


@register_pass("winograd-compute-scales-first")
class ComputeScalesFirst:
    """Have scales of channels that are computed by groups be known before what they scale, on CPUs.

    A group normalization multiplies each channel of an image by a scale of which a part, the deviation, is
    that of its group. IREE fuses both, and so that they do divides the channels of the image in groups, too:
    vectors have as many lanes as a group has channels. A vector that is merged from groups and channels, and
    read for each pixel of something larger, is computed in a dispatch before. The barrier below is for the
    compiler: it ends a dispatch.

        %s = tensor.collapse_shape %scales [[0], [1, 2]] : tensor<1x8x4xf32> into tensor<1x32xf32>
        %y = linalg.generic ins(%x, %s : tensor<1x9x9x32xf32>, tensor<1x32xf32>) { arith.mulf }
      becomes
        %s = tensor.collapse_shape %scales [[0], [1, 2]] : tensor<1x8x4xf32> into tensor<1x32xf32>
        %read = util.optimization_barrier {winograd.computed_first} %s
        %y = linalg.generic ins(%x, %read : tensor<1x9x9x32xf32>, tensor<1x32xf32>) { arith.mulf }

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp):
            return
        backend = supported_backend(module)
        if backend is None or not backend.iree_code.vectorizes_loops:
            return
        merged = [each for each in walk(module) if each.name == "tensor.collapse_shape"]
        rewrite_each("merged vector", merged, _compute_first)


def _compute_first(merged: ir.Operation) -> None:
    vector = merged.results[0]
    if not is_known_at_load(vector) and _merges_vector(merged) and _is_spread(vector):
        compute_first(vector)


def _merges_vector(merged: ir.Operation) -> bool:
    """Whether one dimension of its result has several elements, and several of its operand's do."""
    operand, result = (
        [size for size in ir.RankedTensorType(value.type).shape if size != 1]
        for value in (merged.operands[0], merged.results[0])
    )
    return len(result) == 1 < len(operand)


def _is_spread(vector: ir.Value) -> bool:
    """Whether an elementwise operation reads `vector`, reshaped or not, for something of more dimensions."""
    for use in vector.uses:
        user = use.owner.operation
        if user.name == "tensor.expand_shape" and _is_spread(user.results[0]):
            return True
        elementwise = match_elementwise(user)
        if isinstance(elementwise, Elementwise):
            sizes = [size for size in ir.RankedTensorType(elementwise.result.type).shape if size != 1]
            if len(sizes) > 1:
                return True
    return False
