"""Resample images in loops that IREE vectorizes: over repetitions, or one dimension after the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.resampling import repeated, resampled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.pixels.resampling import Axis, Resampling, match_resampling
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_LANES = 16
"""Elements of the innermost dimension that vectors are to hold all of."""


@register_pass("winograd-separate-resampling")
class SeparateResampling:
    """Resample images in loops that IREE vectorizes: over repetitions, or one dimension after the other.

    IREE vectorizes along the innermost dimension, if it is read as it is. Where vectors of 16 don't divide
    it, as with the 19 channels of segmented streets, or where it is resampled itself, as in channels-first
    images, rows are resampled in an operation of their own, and blended by another, whose innermost
    dimension is all that lies behind the rows. An image that grows has its rows resampled while it is
    small. Where pixels are only repeated, loops over the repetitions take the place of tables: IREE makes
    one loop of all dimensions otherwise, elementwise operations that follow included, and reads
    single elements.

        %r = linalg.generic { tensor.extract %x[%n, %i, %j, %c], ... } : tensor<1x256x512x19xf32>
      becomes
        %a = tensor.collapse_shape %x : tensor<1x32x64x19xf32> into tensor<32x64x19xf32>
        %b = linalg.generic { tensor.extract %a[%r, %j, %c], ... } : tensor<32x512x19xf32>
        %c = tensor.expand_shape (tensor.collapse_shape %b) : ... into tensor<1x32x9728xf32>
        %d = linalg.generic { tensor.extract %c[%n, %i, %e], ... } : tensor<1x256x9728xf32>
        %r = tensor.expand_shape (tensor.collapse_shape %d) : ... into tensor<1x256x512x19xf32>

        %r = linalg.generic { tensor.extract %x[%n, %rows[%i], %columns[%j], %c] } : tensor<1x56x56x72xf32>
      becomes
        %a = linalg.generic ins(%x: (n, i, s, j, t, c) -> (n, i, j, c)) : tensor<1x28x2x28x2x72xf32>
        %r = tensor.collapse_shape %a : ... into tensor<1x56x56x72xf32>
    """

    def run(self, module: ir.Operation) -> None:
        subjects = [each for each in walk(module) if each.name == "linalg.generic"]
        rewrite_each("operation", subjects, _separate)


def _separate(operation: ir.Operation) -> None:
    match = match_resampling(operation)
    if not isinstance(match, Resampling):
        return
    times = match.repetitions if match.repeats_pixels else None
    if times is None and not _is_slow(match):
        return
    result = operation.results[0]
    grows = prod(result.type.shape) > prod(match.source.type.shape)
    with operation.location, ir.InsertionPoint(operation):
        value = match.source
        if times is not None:
            value = repeated(value, times)
        else:
            for dimension in sorted(match.axes, reverse=grows):
                value = _resampled_along(value, dimension, match.axes[dimension])
    result.replace_all_uses_with(value)
    erase_if_unused([operation])


def _is_slow(match: Resampling) -> bool:
    shape = ir.RankedTensorType(match.source.type).shape
    innermost = len(shape) - 1
    if innermost in match.axes:
        return len(match.axes) > 1
    return bool(match.axes) and shape[innermost] % _LANES != 0


def _resampled_along(value: ir.Value, dimension: int, axis: Axis) -> ir.Value:
    """Build `value` resampled along one dimension, with all before it as one, and all behind it."""
    shape = list(ir.RankedTensorType(value.type).shape)
    merged = [prod(shape[:dimension]), shape[dimension], prod(shape[dimension + 1 :])]
    result = resampled(_with_shape(value, merged), {1: axis})
    return _with_shape(result, [*shape[:dimension], axis.size, *shape[dimension + 1 :]])


def _with_shape(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Build `value`, of static shape, with its elements in the same order and another shape."""
    source = ir.RankedTensorType(value.type)
    if list(source.shape) == list(shape):
        return value
    flat_type = ir.RankedTensorType.get([prod(shape)], source.element_type)
    flat = tensor.collapse_shape(flat_type, value, [list(range(source.rank))])
    result_type = ir.RankedTensorType.get(list(shape), source.element_type)
    return tensor.expand_shape(result_type, flat, [list(range(len(shape)))], [], list(shape))
