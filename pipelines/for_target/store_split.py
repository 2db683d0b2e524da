"""Have kernels store what the next product multiplies as split numbers."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.pipelines.backends.backend import Backend
from iree.winograd.pipelines.backends.schedules import schedule_of, schedule_ranges_of
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group
from iree.winograd.pipelines.problems.output_bound import MOST_EXCESS_BITS, output_bound
from iree.winograd.pipelines.problems.split_result import SplitResult, set_split_result

from ..backends.module_backend import supported_backend


@register_pass("winograd-store-split")
class StoreSplit:
    """Have kernels store what the next product multiplies as split numbers.

    Matrix units multiply f32 as pairs of fp16 numbers, with a scale of each pixel, a power of two that brings
    its largest number close to 2^14. A kernel before each product finds scales and splits: it reads and
    writes all that the one before it wrote. Where a product's result is read by another one alone, its own
    kernel splits it. That has some columns of a pixel at a time, and so takes the scale of a bound, not of
    the largest number:

        |y_j| <= max_k |x_k| * max_j a_j sum_k |w_kj| + b,  of an epilogue with |f(s)_j| <= a_j |s| + b

    The largest |x_k| is below 2^14 times the scale of x. Constants that are added and activations that never
    enlarge a number have such a bound, an image that is added has none. Numbers up to the bound never
    overflow: fp16 ends at 2^16. Of a number the pair keeps 22 bits, or has an error of 2^-49 of the bound at
    most. That is to be no more than 2^-23 of the largest a_j sum_k |x_k w_kj| of a pixel, as pairs of 22 bits
    err by, and sums of f32 may. It is at least max_k |x_k| * min_k max_j a_j |w_kj|, where the largest number
    is multiplied at all. So results are split while

        max_j a_j sum_k |w_kj|  <=  2^26 * min_k max_j a_j |w_kj|,  channels that nothing multiplies apart

    and where x has a scale of a bound itself, while the product of these ratios is so small: sums err by as
    much as the sums before let them. Behind that a kernel finds the largest numbers again. Filters have to be
    constants.

        %y = "winograd.output_transform"(%m) ({...}) : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
        %v = "winograd.input_transform"(%y) : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
      becomes
        %y = "winograd.output_transform"(%m) ({...})
               {winograd.split_result = {block_rows = 64 : i64, factor = 12.25 : f64, addend = 0.5 : f64}}
               : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
        %v = "winograd.input_transform"(%y) : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, OutputTransformOp)
        backend = supported_backend(module) if outputs else None
        if backend is None:
            return
        excess: dict[ir.Operation, float] = {}
        rewrite_each("output transform", outputs, lambda each: _store_split(each, backend, excess))


def _store_split(transform: OutputTransformOp, backend: Backend, excess: dict[ir.Operation, float]) -> None:
    """Annotate a transform; `excess` has the bits of the bounds that products read, by their operations."""
    group = match_group(transform)
    # What is no group, the lowering reports.
    if isinstance(group, NoMatch) or backend.insertion(group) is not None:
        return
    reading = group.only_reader
    rows = None if reading is None else _split_rows(group, reading, backend)
    own = output_bound(group) if rows is not None else None
    if reading is None or rows is None or own is None:
        return
    bits = excess.get(group.product, 0.0) + own.excess_bits
    if not own.is_finite or bits > MOST_EXCESS_BITS:
        return
    set_split_result(transform.operation, SplitResult(rows, own.factor, own.addend))
    excess[reading.product] = bits


def _split_rows(group: ConvolutionGroup, reading: ConvolutionGroup, backend: Backend) -> int | None:
    schedules = [schedule_of(each.product) for each in (group, reading)]
    if any(schedule_ranges_of(each.product) for each in (group, reading)):
        return None
    own, other = schedules
    if own is None or other is None or group.input_transform.operation.block != reading.product.block:
        return None
    return backend.split_rows(group.shape, own, reading.shape, other)
