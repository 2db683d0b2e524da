"""Have kernels store what the next product multiplies as split numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import InputTransformOp, OutputTransformOp
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.epilogues.magnitude import Magnitude, match_magnitude
from iree.winograd.passes.match.navigation import RESHAPES, only_user, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.backends.backend import Backend
from iree.winograd.pipelines.backends.schedules import schedule_of, schedule_ranges_of
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group
from iree.winograd.pipelines.problems.split_result import SplitResult, set_split_result

from ..backends.module_backend import supported_backend

_MOST_EXCESS = 26
"""Bits of the ratio between a bound and the sums of magnitudes that are surely there."""
_ROUNDED_UP = 1 + 2.0**-8
"""What covers the rounding of sums of up to 2^14 products, of an epilogue, and of the bound."""


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
    reading = _only_reader(group)
    rows = None if reading is None else _split_rows(group, reading, backend)
    filters = group.transformed_taps(group.shape.decomposition) if rows is not None else None
    magnitude = match_magnitude(transform) if filters is not None else None
    if reading is None or rows is None or filters is None or magnitude is None:
        return
    own = _bound(filters, magnitude)
    bits = excess.get(group.product, 0.0) + (log2(own.excess) if own.excess > 0 else 0.0)
    if not np.isfinite([own.factor, own.addend, bits]).all() or bits > _MOST_EXCESS:
        return
    set_split_result(transform.operation, SplitResult(rows, own.factor, own.addend))
    excess[reading.product] = bits


def _only_reader(group: ConvolutionGroup) -> ConvolutionGroup | None:
    """The convolution that alone reads a result, maybe of another shape."""
    read = group.output_transform.result
    while (user := only_user(read)) is not None and user.name in RESHAPES:
        read = user.results[0]
    if user is None or user.name != InputTransformOp.OPERATION_NAME:
        return None
    product = only_user(user.results[0])
    last = None if product is None or not product.results else only_user(product.results[0])
    if last is None or last.name != OutputTransformOp.OPERATION_NAME:
        return None
    reading = match_group(OutputTransformOp(last))
    is_read = not isinstance(reading, NoMatch) and reading.input_transform.operation == user
    return reading if is_read and not isinstance(reading, NoMatch) else None


def _split_rows(group: ConvolutionGroup, reading: ConvolutionGroup, backend: Backend) -> int | None:
    schedules = [schedule_of(each.product) for each in (group, reading)]
    if any(schedule_ranges_of(each.product) for each in (group, reading)):
        return None
    own, other = schedules
    if own is None or other is None or group.input_transform.operation.block != reading.product.block:
        return None
    return backend.split_rows(group.shape, own, reading.shape, other)


@dataclass(frozen=True)
class _Bound:
    factor: float
    addend: float
    excess: float
    """At most so many times what the sums of the largest number have for magnitudes."""


def _bound(filters: Array, magnitude: Magnitude) -> _Bound:
    """That of a product with filters [1, C, K]."""
    scaled = np.abs(filters[0].astype(np.float64)) * magnitude.factor
    largest = scaled.sum(axis=0).max(initial=0.0)
    of_channels = scaled.max(axis=1)
    least = of_channels[of_channels > 0].min(initial=np.inf)
    addend = float(np.max(magnitude.addend)) * _ROUNDED_UP
    return _Bound(float(largest) * _ROUNDED_UP, addend, float(largest / least))
