"""Have a kernel of this project compute softmax of rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted, in_held_type
from iree.winograd.passes.build.transpositions import merged_to, transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.layouts.columns import columns_along
from iree.winograd.passes.match.navigation import EXITS, only_user, walk
from iree.winograd.passes.match.normalizations.softmax import Softmax, divides, match_softmax
from iree.winograd.passes.match.values.conversions import rounded_to
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import ColumnSoftmax, RowSoftmax

_LEAST_LENGTH = 16
"""Shorter rows take as long in IREE's code; shorter columns it computes with what lies around them."""


@register_pass("winograd-lower-softmax")
class LowerSoftmax:
    """Have a kernel of this project compute softmax of rows, and on CPUs of columns.

    Attention between convolutions takes the softmax of many rows, for which IREE's code needs 5 to 100 ns an
    element: most where rows are no multiple of vectors. Rewritten is softmax along a dimension of f32, of 16
    elements or more, whose sizes are static, but for the first. On GPUs threads share rows and hold them in
    registers, where IREE's code reads them three times, and have columns of up to 32 elements of results that
    leave the program, as classes of pixels do. On CUDA rows that are rounded to half precision are stored so.

        %m = linalg.generic ins(%x) outs(%lowest) { arith.maximumf } -> tensor<2x730xf32>
        %d = linalg.generic ins(%x, %m) { arith.subf }
        %e = linalg.generic ins(%d) { math.exp }
        %s = linalg.generic ins(%e) outs(%zeros) { arith.addf } -> tensor<2x730xf32>
        %y = linalg.generic ins(%e, %s) { arith.divf } -> tensor<2x730x730xf32>
      becomes
        %y = flow.dispatch @winograd_softmax_730x730(%x)

    What torch does in attention that may be masked is taken with it, zeros for rows of nothing but minus
    infinity, whose softmax would be NaN. IREE reads all scores once more for these. The kernel subtracts the
    least finite number from them.

        %n = linalg.generic ins(%x) { arith.cmpf oeq, minus infinity }
        %a = linalg.generic ins(%n) outs(%true) { arith.andi } -> tensor<2x730xi1>
        %z = linalg.generic ins(%a, %zeros, %y) { arith.select }
      becomes
        %z = flow.dispatch @winograd_safe_softmax_730x730(%x)

    Factorized attention takes that of the columns of keys, over all tokens of an image. The kernel reads them
    where they are, behind slices, reshapes and transpositions, and writes them in the same order: what comes
    after it reads heads as a transposition.

        %k = tensor.extract_slice %qkv[0, 8, 0] [3137, 8, 19] : tensor<3137x24x19xf32>
        %x = linalg.transpose ins(%k) permutation = [1, 0, 2] -> tensor<8x3137x19xf32>
        ... softmax of %x along dimension 1
      becomes
        %c = flow.dispatch @winograd_column_softmax_1x3137x152(%qkv) -> tensor<3137x8x19xf32>
        %y = linalg.transpose ins(%c) permutation = [1, 0, 2] -> tensor<8x3137x19xf32>
    """

    def run(self, module: ir.Operation) -> None:
        divisions = [each for each in walk(module) if divides(each)]
        if not divisions or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("softmax", divisions, lambda each: _lower(each, backend, lowering))


@register_pass("winograd-lower-channel-softmax")
class LowerChannelSoftmax(LowerSoftmax):
    """Have a kernel of this project compute softmax over the channels of images.

    Once images are channels last it is that of rows, which `winograd-lower-softmax` takes before: this is the
    same rewrite, behind `winograd-normalize-layout`.

        %s = linalg.generic ins(%e) outs(%zeros) { arith.addf } -> tensor<1x1x4x8xf32>, of each pixel
        %y = linalg.generic ins(%e, %s) { arith.divf } -> tensor<1x4x8x20xf32>
      becomes
        %y = flow.dispatch @winograd_softmax_32x20(%x)
    """


def _lower(division: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    softmax = match_softmax(division)
    if softmax is None or softmax.length < _LEAST_LENGTH:
        return
    fitting = [form for form in _forms(softmax, backend) if backend.misfit(form[0]) is None]
    if not fitting:
        return
    operation, result = fitting[0]
    last = result.owner.operation
    with last.location, ir.InsertionPoint(last):
        if isinstance(operation, ColumnSoftmax):
            computed = lowering.compute(operation)
            computed = merged_to(transposed(computed, operation.columns.order), softmax.shape)
        elif operation.half is None:
            computed = lowering.compute(operation)
        else:
            rows = in_held_type(operation.rows, operation.half)
            computed = lowering.compute(replace(operation, rows=rows))
            if half_type(result) is None:
                computed = converted(computed, ir.F32Type.get())
    result.replace_all_uses_with(computed)
    erase_if_unused([last])


def _forms(softmax: Softmax, backend: Backend) -> Iterator[tuple[RowSoftmax | ColumnSoftmax, ir.Value]]:
    """What may be computed, the best first, and the value that it is."""
    operation = _operation(softmax)
    user = only_user(softmax.result)
    half = rounded_to(user) if user is not None and backend.iree_code.converts_half else None
    if user is not None and half is not None and isinstance(operation, RowSoftmax):
        yield replace(operation, half=half), user.results[0]
    yield operation, softmax.result


def _operation(softmax: Softmax) -> RowSoftmax | ColumnSoftmax:
    if softmax.dimension > 0 and all(size == 1 for size in softmax.shape[softmax.dimension + 1 :]):
        return RowSoftmax(softmax.source, softmax.length, softmax.safe)
    leaves = all(use.owner.operation.name in EXITS for use in softmax.result.uses)
    return ColumnSoftmax(columns_along(softmax.source, softmax.dimension), softmax.safe, leaves)
