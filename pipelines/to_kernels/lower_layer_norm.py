"""Have a kernel of this project compute layer normalization of rows."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.layer_norm import is_normalization, match_layer_norm
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import RowNormalization


@register_pass("winograd-lower-layer-norm")
class LowerLayerNorm:
    """Have a kernel of this project compute layer normalization of rows.

    IREE's code reads and writes rows several times, in several dispatches. The kernel reads each from memory
    once. Rewritten is normalization along the last dimension of f32, of 16 elements or more, whose sizes are
    static, but for the first; with the factors and addends of a row's elements, where there are.

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
    """

    def run(self, module: ir.Operation) -> None:
        normalizations = [each for each in walk(module) if is_normalization(each)]
        if not normalizations or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("layer normalization", normalizations, lambda each: _lower(each, backend, lowering))


def _lower(normalization: ir.Operation, backend: Backend, lowering: Lowering) -> None:
    layer_norm = match_layer_norm(normalization)
    if layer_norm is None or backend.misfit(RowNormalization(layer_norm)) is not None:
        return
    last = layer_norm.last
    with last.location, ir.InsertionPoint(last):
        rows = lowering.compute(RowNormalization(layer_norm))
    last.results[0].replace_all_uses_with(rows)
    erase_if_unused([last])
