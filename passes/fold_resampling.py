"""Make one operation, with tables, of what resizes an image or selects channels of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.resampling import resampled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.navigation import only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.pixels.blends import MAX_TAPS, OBSERVED, Blends
from iree.winograd.passes.match.pixels.resampling import Resampling, as_one, match_resampling
from iree.winograd.passes.match.pixels.selected_pixels import is_read_by
from iree.winograd.passes.match.values.conversions import rounding_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fold-resampling"


@register_pass(PASS_NAME)
class FoldResampling:
    """Make one operation, with tables, of what resizes an image or selects channels of it.

    Resizing arrives as arithmetic on loop indices in up to forty operations, which compute positions and
    weights anew for every element and channel, and read single elements by them. What is a sum of elements
    of one image, at positions that are known at compile time, with weights that are products of one per
    dimension, becomes one operation that looks both up by its loop indices: images that are resized by the
    nearest element, linearly or by cubic polynomials, in any convention on corners, reversed, or have
    constant channels selected. Results differ from those of the program by the rounding of a product per
    element read, and of the polynomials. Where rows are blended and then columns, as in models of ONNX, one
    operation does both. The nearest of numbers of half precision are such, and aren't rounded to it again.

        %j = linalg.generic { linalg.index 0; arith.sitofp; arith.mulf %scale; arith.fptosi } : tensor<64xi64>
        %a = linalg.generic ins(%i, %j) { tensor.extract %x[0, %c, %i, %j] } : tensor<1x8x32x64xf32>
        %b = linalg.generic ins(%i, %j') { tensor.extract %x[0, %c, %i, %j'] }
        %d = linalg.generic ins(%b, %a) { arith.subf }
        %e = linalg.generic ins(%d, %w) { arith.mulf }
        ...
        %r = linalg.generic ins(%p, %q) { arith.addf }
      becomes
        %r = linalg.generic ins(%weights...) {
          %i = tensor.extract %rows[linalg.index 2]
          %j = tensor.extract %columns[linalg.index 3]
          ...
          %a = tensor.extract %x[%n, %c, %i, %j]
          ...
        }
    """

    def run(self, module: ir.Operation) -> None:
        blends = Blends()
        found: dict[ir.Operation, Resampling | NoMatch] = {}

        def observe(operation: ir.Operation) -> None:
            match = match_resampling(operation, blends)
            if match is not None:
                found[operation] = match

        rewrite_each("operation", [each for each in walk(module) if each.name in OBSERVED], observe)
        rewrite_each(
            "resampling", _results(found), lambda each: _fold(*each), operation_of=lambda each: each[0]
        )


def _results(
    found: Mapping[ir.Operation, Resampling | NoMatch],
) -> list[tuple[ir.Operation, Resampling | NoMatch]]:
    """Those of `found` that something else needs, the last one first, without the steps on the way to them.

    One may be the source of another, which is still there when that is folded first.
    """
    results: list[tuple[ir.Operation, Resampling | NoMatch]] = []
    folded: set[ir.Operation] = set()
    sources: set[ir.Value] = set()
    for operation, match in reversed(list(found.items())):
        users = {use.owner.operation for use in operation.results[0].uses}
        if isinstance(match, NoMatch):
            folded |= {operation} if users & folded else set()
            is_result = not any(user in found for user in users)
        else:
            folded.add(operation)
            is_result = operation.results[0] in sources or not users <= folded
            sources |= {match.source} if is_result else set()
        if is_result:
            results.append((operation, match))
    return results


def _fold(operation: ir.Operation, match: Resampling | NoMatch) -> None:
    if isinstance(match, NoMatch):
        remark_left(PASS_NAME, match)
        return
    if _fold_into_reader(operation, match):
        return
    with operation.location, ir.InsertionPoint(operation):
        result = resampled(match.source, match.axes)
    rounding = only_user(operation.results[0])
    half = None if rounding is None else rounding_type(rounding)
    if rounding is not None and half is not None and held_type(result) == half:
        rounding.results[0].replace_all_uses_with(result)
        erase_if_unused([rounding])
        return
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _fold_into_reader(operation: ir.Operation, match: Resampling) -> bool:
    """Have what alone reads the result, and blends it along other dimensions, blend the source along all."""
    result = operation.results[0]
    # Elements are read in its body.
    readers = {use.owner.operation.parent.operation for use in result.uses}
    if len(readers) != 1 or not is_read_by(result, list(readers)):
        return False
    (reader,) = readers
    second = match_resampling(reader)
    both = as_one(match, second) if isinstance(second, Resampling) and second.source == result else None
    # Where elements are selected or repeated there are loops that are best by themselves.
    if both is None or any(axis.taps == 1 for axis in both.axes.values()):
        return False
    if prod(axis.taps for axis in both.axes.values()) > MAX_TAPS:
        return False
    with reader.location, ir.InsertionPoint(reader):
        at_once = resampled(both.source, both.axes)
    reader.results[0].replace_all_uses_with(at_once)
    erase_if_unused([reader])
    erase_if_unused([operation])
    return True
