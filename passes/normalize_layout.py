"""Bring convolutions, and what lies between them, to channels-last layout."""

from __future__ import annotations

from collections.abc import Callable

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.weight_gradient import weight_gradients
from iree.winograd.passes.match.layouts.image_layout import to_channels_first
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.rewrite import channels_last
from iree.winograd.passes.rewrite.channel_shuffle import rewrite_channel_shuffle
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import rewrite_grouped
from iree.winograd.passes.rewrite.merged_pixels import rewrite_merged_pixels, rewrite_split_pixels
from iree.winograd.passes.rewrite.pixel_shuffle import rewrite_pixel_shuffle
from iree.winograd.passes.rewrite.resampling import rewrite_resampling
from iree.winograd.passes.rewrite.selected_pixels import rewrite_selected_pixels
from iree.winograd.passes.rewrite.weight_gradient import rewrite_weight_gradient


@register_pass("winograd-normalize-layout")
class NormalizeLayout:
    """Bring convolutions, and what lies between them, to channels-last layout.

    Convolutions get channels-last operands, also those that stay convolutions, as quantized ones do: IREE
    computes bytes 1.2 to 30 times faster in this layout. It spreads from their results to whatever consumes
    them: elementwise operations, pads, pooling, resizing, slices, concatenations, channel and pixel
    shuffles, reductions and pixels that become tokens. Where it meets a convolution again there is nothing to
    transpose, so that transpositions are left only where the layout enters, and where something else needs
    the former one. Gradients of filters read such images, too.

        %r = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x16x16xf32>, ...)
        %s = linalg.generic ins(%r : tensor<1x4x14x14xf32>) { arith.maximumf }
        %t = linalg.conv_2d_nchw_fchw ins(%s, %z : tensor<1x4x14x14xf32>, ...)
      becomes
        %x' = linalg.transpose ins(%x) permutation = [0, 2, 3, 1]
        %r' = linalg.conv_2d_nhwc_hwcf ins(%x', %w' : tensor<1x16x16x8xf32>, ...)
        %s' = linalg.generic ins(%r' : tensor<1x14x14x4xf32>) { arith.maximumf }
        %t' = linalg.conv_2d_nhwc_hwcf ins(%s', %z' : tensor<1x14x14x4xf32>, ...)
        %t = linalg.transpose ins(%t') permutation = [0, 3, 1, 2]
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("weight gradient", list(weight_gradients(module)), rewrite_weight_gradient)
        rewrite_each("grouped convolution", list(convolutions(module)), rewrite_grouped)
        versions = channels_last.Versions()
        replaced = []

        def rewrite(operation: ir.Operation) -> None:
            build = _REWRITES.get(operation.name, channels_last.rewrite_linalg)
            with operation.location:
                result = build(operation, versions)
            if result is not None:
                versions[operation.results[0]] = result
                replaced.append(operation)

        rewrite_each("operation", [each for each in walk(module) if _is_rewritten(each)], rewrite)
        _replace(replaced, versions)


def _is_rewritten(operation: ir.Operation) -> bool:
    """Whether there may be a version of what `operation` computes.

    What is inside of one isn't asked: it is gone when that was erased.
    """
    is_computation = operation.name.startswith("linalg.") and len(operation.regions) > 0
    return is_computation or operation.name in _REWRITES


def _rewrite_generic(operation: ir.Operation, versions: channels_last.Versions) -> ir.Value | None:
    for rewrite in (rewrite_resampling, rewrite_selected_pixels):
        if (result := rewrite(operation, versions)) is not None:
            return result
    return channels_last.rewrite_linalg(operation, versions)


def _rewrite_collapse(operation: ir.Operation, versions: channels_last.Versions) -> ir.Value | None:
    for rewrite in (rewrite_channel_shuffle, rewrite_pixel_shuffle, rewrite_merged_pixels):
        if (result := rewrite(operation, versions)) is not None:
            return result
    return None


Rewrite = Callable[[ir.Operation, "channels_last.Versions"], "ir.Value | None"]

_REWRITES: dict[str, Rewrite] = {
    "linalg.generic": _rewrite_generic,
    "linalg.transpose": channels_last.read_transposition,
    "tensor.collapse_shape": _rewrite_collapse,
    "tensor.concat": channels_last.rewrite_concat,
    "tensor.expand_shape": rewrite_split_pixels,
    "tensor.extract_slice": channels_last.rewrite_extract_slice,
    "tensor.insert_slice": channels_last.rewrite_insert_slice,
    "tensor.pad": channels_last.rewrite_pad,
}


def _replace(operations: list[ir.Operation], versions: channels_last.Versions) -> None:
    """Erase `operations`, which are in program order; remaining users get the new version transposed."""
    operands = {value for operation in operations for value in operation.operands}
    definitions = {value.owner.operation for value in operands if isinstance(value, ir.OpResult)}
    definitions -= set(operations)
    left: list[ir.Operation] = []
    queries: list[ir.Operation] = []

    def replace(operation: ir.Operation) -> None:
        result, version = operation.results[0], versions[operation.results[0]]
        with operation.location, ir.InsertionPoint(operation):
            queries.extend(_redirect_size_queries(result, version))
            if any(True for _ in result.uses):
                rank = ir.RankedTensorType(result.type).rank
                back = to_channels_first(rank)
                result.replace_all_uses_with(transposed(version, back))
        operation.erase()

    rewrite_each(
        "rewritten operation",
        reversed(operations),
        replace,
        leave=lambda operation, failure: left.append(operation),
    )
    # Sizes may be operands of what was replaced: what isn't needed is erased together.
    erase_if_unused([*left, *definitions, *queries])


def _redirect_size_queries(result: ir.Value, version: ir.Value) -> list[ir.Operation]:
    """Replace the sizes of `result`; returns the operations that asked for them, which ask `version` then."""
    redirected = []
    rank = ir.RankedTensorType(result.type).rank
    back = to_channels_first(rank)
    for query in [use.owner.operation for use in result.uses]:
        index = query.operands[1].owner if query.name == "tensor.dim" else None
        if index is None or index.operation.name != "arith.constant":
            continue
        with ir.InsertionPoint(query):
            size = size_of(version, back[index.operation.attributes["value"].value])
        if isinstance(size, ir.Value):
            query.results[0].replace_all_uses_with(size)
            query.operands[0] = version
            redirected.append(query)
    return redirected
