"""Have a kernel of this project compute layer normalization of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted, in_held_type
from iree.winograd.passes.build.groups import image_like, merged_to_counts
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.layouts.rearrangement import (
    MOVES,
    REARRANGING,
    Rearrangement,
    match_rearrangement,
)
from iree.winograd.passes.match.navigation import only_user, walk
from iree.winograd.passes.match.normalizations.layer_norm import LayerNorm, is_normalization, match_layer_norm
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.conversions import rounding_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import RowNormalization


@register_pass("winograd-lower-layer-norm")
class LowerLayerNorm:
    """Have a kernel of this project compute layer normalization of rows.

    IREE's code reads and writes rows several times, in several dispatches. The kernel reads each from memory
    once. Rewritten is normalization along the last dimension of f32, of 16 elements or more, which is static;
    with the factors and addends of a row's elements, where there are. Where more sizes than the first are
    known only at run time, rows are numbered through.

        %m = linalg.generic ins(%sums) { arith.divf } -> tensor<2x197x1xf32>
        %d = linalg.generic ins(%x, %m) { arith.subf }
        %q = linalg.generic ins(%d, %d) { arith.mulf }
        %v = linalg.generic ins(%sums_of_q) { arith.divf } -> tensor<2x197x1xf32>
        %e = linalg.generic ins(%v) { arith.addf %epsilon }
        %i = linalg.generic ins(%e) { math.rsqrt }
        %n = linalg.generic ins(%d, %i) { arith.mulf }
        %s = linalg.generic ins(%n, %scale) { arith.mulf }
        %y = linalg.generic ins(%s, %shift) { arith.addf } -> tensor<2x197x192xf32>
      becomes
        %y = flow.dispatch @winograd_layer_norm_197x192(%x, %scale, %shift)

    On CUDA rows that the program has in half precision are read and stored so.

        %r = linalg.generic ins(%y : tensor<2x197x192xf32>) { arith.truncf, arith.extf }
      becomes
        %h = flow.dispatch @winograd_layer_norm_197x192(%x, %scale, %shift) -> tensor<2x197x192xf16>
        %r = linalg.generic ins(%h) { arith.extf }

    On GPUs rows that are rearranged before, as patches are merged, or behind it, as images are rotated and
    divided into windows, are read from where they were.

        %y = flow.dispatch @winograd_layer_norm_3136x96(%x, %scale, %shift) -> tensor<1x56x56x96xf32>
        %r = tensor.concat dim(1) of slices of %y : tensor<1x53x56x96xf32>, tensor<1x3x56x96xf32>
        %e = tensor.expand_shape %r : tensor<1x56x56x96xf32> into tensor<1x8x7x8x7x96xf32>
        %w = linalg.transpose ins(%e) permutation = [0, 1, 3, 2, 4, 5]
      becomes
        %w = flow.dispatch @winograd_layer_norm_3136x96(%x, %scale, %shift) -> tensor<1x8x8x7x7x96xf32>
    """

    def run(self, module: ir.Operation) -> None:
        normalizations = [each for each in walk(module) if is_normalization(each)]
        if not normalizations or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("layer normalization", normalizations, lambda each: _lower(each, backend, lowering))


def _lower(normalization: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    layer_norm = match_layer_norm(normalization)
    if layer_norm is None:
        return
    forms = [*_half_forms(layer_norm), *_forms(layer_norm)]
    fitting = [(form, result) for form, result in forms if backend.misfit(form) is None]
    if not fitting:
        return
    form, result = fitting[0]
    last = result.owner.operation
    with last.location, ir.InsertionPoint(last):
        form = form if form.half is None else _reading_half(form)
        rows = lowering.compute(form) if _has_known_rows(layer_norm) else _computed_in_a_row(form, lowering)
        if form.half is not None:
            rows = converted(rows, ir.F32Type.get())
    result.replace_all_uses_with(rows)
    erase_if_unused([last])


def _has_known_rows(layer_norm: LayerNorm) -> bool:
    """Whether it is known how many rows an element of the batch has."""
    return not any(map(is_dynamic, ir.RankedTensorType(layer_norm.source.type).shape[1:]))


def _computed_in_a_row(form: RowNormalization, lowering: Lowering) -> ir.Value:
    """Build the rows of a tensor of unknown sizes, which are those of a matrix for the kernel."""
    source = form.layer_norm.source
    rows = merged_to_counts(source, [ir.RankedTensorType(source.type).rank - 1, 1])
    computed = lowering.compute(replace(form, layer_norm=replace(form.layer_norm, source=rows)))
    return image_like(computed, source)


def _half_forms(layer_norm: LayerNorm) -> Iterator[tuple[RowNormalization, ir.Value]]:
    """The forms whose results are all rounded to half precision, with the values that they are then."""
    user = only_user(layer_norm.last.results[0])
    half = None if user is None else rounding_type(user)
    if user is not None and half is not None:
        for form, result in _forms(replace(layer_norm, last=user)):
            yield replace(form, half=half), result


def _reading_half(form: RowNormalization) -> RowNormalization:
    """The same of rows in half precision, if that has all of their numbers: whatever makes them rounds."""
    layer_norm, read = form.layer_norm, form.rearrangement
    if read is not None:
        return replace(form, rearrangement=replace(read, source=in_held_type(read.source, form.half)))
    source = in_held_type(layer_norm.source, form.half)
    return replace(form, layer_norm=replace(layer_norm, source=source))


def _forms(layer_norm: LayerNorm) -> Iterator[tuple[RowNormalization, ir.Value]]:
    """What may be computed, the best first, and the value that it is."""
    normalized = layer_norm.last.results[0]
    if (behind := _rearranged_behind(layer_norm)) is not None:
        yield RowNormalization(layer_norm, replace(behind, source=layer_norm.source)), behind.result
    before = match_rearrangement(layer_norm.source)
    if before is not None and not before.places.is_identity:
        yield RowNormalization(layer_norm, before), normalized
    yield RowNormalization(layer_norm), normalized


def _rearranged_behind(layer_norm: LayerNorm) -> Rearrangement | None:
    """The last order of its rows, as wholes, that is made of nothing else; None where it is read before."""
    normalized = layer_norm.last.results[0]
    found: list[Rearrangement] = []
    pending = [normalized]
    while pending:
        users = {use.owner.operation for use in pending.pop().uses}
        results = [each.results[0] for each in users if each.name in REARRANGING]
        orders = [match_rearrangement(each) for each in results if each.owner.name in MOVES]
        found += [each for each in orders if each is not None and each.source == normalized]
        pending += results
    if not found:
        return None
    last = max(found, key=lambda each: len(each.operations))
    is_only = {use.owner.operation for use in normalized.uses} <= set(last.operations)
    return last if is_only and last.places.keeps(layer_norm.length) else None
