"""Have a kernel of this project multiply the matrices of batches."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.batch_matmul import is_batch_matmul, match_batch_matmul
from iree.winograd.passes.rewrite.moved_result import replace_moved

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import BatchedProduct
from ..selection.options import WinogradOptions

PASS_NAME = "winograd-lower-batch-matmul"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class LowerBatchMatmul:
    """Have a kernel of this project multiply the matrices of batches.

    Attention multiplies queries by keys, and then values, for each of its heads, none of which is known
    before the program runs. IREE's code for it reaches a sixth of the processor's rate, after it has
    transposed and copied the heads. The kernel reads and writes them where they are: behind slices,
    reshapes, transpositions and scaling by a constant, and before a transposition of the result. On GPUs
    IREE computes those whose sizes are all multiples of its tiles.

        %q = tensor.extract_slice %qkv[0, 0, 0, 0] [1, 197, 3, 64] : tensor<1x197x9x64xf32>
        %k = tensor.extract_slice %qkv[0, 0, 3, 0] [1, 197, 3, 64] : tensor<1x197x9x64xf32>
        %ql = linalg.transpose ins(%q) permutation = [0, 2, 1, 3]           -> collapse_shape -> 3x197x64
        %kr = linalg.transpose ins(%k) permutation = [0, 2, 3, 1]           -> collapse_shape -> 3x64x197
        %s = linalg.batch_matmul ins(%ql, %kr) outs(%zeros : tensor<3x197x197xf32>)
      becomes
        %s = flow.dispatch @winograd_batch_matmul_3x197x197_from_64(%qkv, %qkv)
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)

    def run(self, module: ir.Operation) -> None:
        products = [each for each in walk(module) if is_batch_matmul(each)]
        if not products or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each("product", products, lambda each: self._lower(each, backend, lowering))

    def _lower(self, operation: ir.Operation, backend: Backend, lowering: Lowering) -> None:
        product = match_batch_matmul(operation)
        if isinstance(product, NoMatch):
            remark_left(PASS_NAME, product)
            return
        batched = BatchedProduct(product, self.threads)
        if reason := backend.misfit(batched):
            remark_left(PASS_NAME, NoMatch(operation, reason))
            return
        replace_moved(operation, product.result, lambda: lowering.compute(batched))
