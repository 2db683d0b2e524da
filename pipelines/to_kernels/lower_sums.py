"""Have kernels of this project compute sums over pixels, and means and deviations of groups."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import in_a_row, shape_of, size_of
from iree.winograd.passes.build.transpositions import merged_to, transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user, transforms, walk
from iree.winograd.passes.match.normalizations.image_sum import (
    ImageSum,
    SquaredDeviations,
    match_image_sum,
    match_squared_deviations,
)
from iree.winograd.passes.match.normalizations.normalization_factors import (
    NormalizationFactors,
    match_normalization_factors,
)
from iree.winograd.passes.match.normalizations.pixel_sum import (
    PixelMean,
    match_pixel_mean,
    match_pixel_sum,
    unrounded,
)
from iree.winograd.passes.match.reductions import is_reduction
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.conversions import widened_source
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import CombinedMoments, MomentFactors, PartialMoments, RowSums, Sums

_LEAST_CHANNELS = 16
"""Those that fill a vector of every CPU."""


@register_pass("winograd-lower-sums")
class LowerSums:
    """Have kernels of this project compute sums over pixels, and means and deviations of groups, on GPUs.

    IREE has one workgroup for each sum. Of an image whose channels come last it reads few neighbours at a
    time, and group normalization of a large image is a single workgroup. Here as many workgroups as fill a
    GPU share the sums, and a second kernel adds what they have. Of squared differences from a mean, as
    normalization has, the image is read once: workgroups have the mean and the sum of squared differences of
    their part, which cancel nothing when they are combined (Chan, Golub and LeVeque 1983). Rewritten are sums
    in f32, of static sizes, of all elements of a tensor in memory that is summed over neighbours, or over
    neighbours at equal distances, with what is computed of each sum alone.

        %s = linalg.generic {iterator_types = [parallel, reduction, reduction, parallel]}
               ins(%x : tensor<1x512x512x128xf32>) outs(%zeros : tensor<1x128xf32>) { arith.addf }
        %m = linalg.generic ins(%s) { arith.divf %pixels }
      becomes
        %p = flow.dispatch @winograd_sum_1x262144x128x1(%x) -> tensor<1x512x128xf32>
        %m = flow.dispatch @winograd_combine_sum_1x512x128(%p) -> tensor<1x128xf32>

        %m = linalg.generic ins(%s) { arith.divf %elements } -> tensor<1x32xf32>
        %d = linalg.generic ins(%x, %m) { arith.subf }
        %q = linalg.generic ins(%d, %d) { arith.mulf }
        %v = linalg.generic ins(%q) outs(%zeros) { arith.addf } -> tensor<1x32xf32>
      becomes
        %p = flow.dispatch @winograd_moments_1x262144x32x4(%x) -> tensor<2x1x512x32xf32>
        %m = flow.dispatch @winograd_combine_mean_1x512x32(%p) -> tensor<1x32xf32>
        %v = flow.dispatch @winograd_combine_deviations_1x512x32(%p) -> tensor<1x32xf32>

    What group normalization makes of them for each channel of a large image is computed with them. That
    alone is a kernel's on CPUs with AVX-512 or NEON, where parts of the image stay in L2 while moments are
    found.

        %i = linalg.generic ins(%v) { arith.divf, arith.addf, math.rsqrt }
        %f = linalg.generic ins(%i, %weight) { arith.mulf } -> tensor<1x32x4xf32>
        %n = linalg.generic ins(%m) { arith.negf }
        %t = linalg.generic ins(%n, %f) { arith.mulf }
        %a = linalg.generic ins(%t, %bias) { arith.addf }
      becomes
        %p = flow.dispatch @winograd_moments_1x262144x32x4(%x) -> tensor<2x1x512x32xf32>
        %b = flow.dispatch @winograd_combine_factors_1x512x32(%p, %weight, %bias) -> tensor<2x1x32x4xf32>
        %f = tensor.extract_slice %b[0, 0, 0, 0]
        %a = tensor.extract_slice %b[1, 0, 0, 0]

    Sums over pixels of channels-last images whose sizes are known only at run time, or over those of a row,
    are a kernel's, also on CPUs, where IREE adds one element after the other: the sums of rows, and their
    sums. Means of means are one mean, through CUDA and on CPUs also where they are rounded to half precision
    between. On CPUs so are those of known sizes that a convolution writes.

        %s = linalg.generic {iterator_types = [parallel, parallel, reduction, parallel]}
               ins(%x : tensor<1x?x?x64xf32>) outs(%zeros : tensor<1x64x1x?xf32>) { arith.addf }
        %c = linalg.generic ins(%s) { arith.divf %height }
        %t = linalg.generic {iterator_types = [parallel, parallel, parallel, reduction]}
               ins(%c : tensor<1x64x1x?xf32>) outs(%zeros : tensor<1x64x1x1xf32>) { arith.addf }
        %m = linalg.generic ins(%t) { arith.divf %width }
      becomes
        %r = flow.dispatch @winograd_row_sums_anyxanyx64(%x) -> tensor<1x?x64xf32>
        %p = flow.dispatch @winograd_row_sums_anyx64(%r) -> tensor<1x64xf32>
        %t = linalg.generic ins(%p) { arith.divf %height } -> tensor<1x64x1x1xf32>
        %m = linalg.generic ins(%t) { arith.divf %width }

    On GPUs few pixels of such an image are summed at once, by a kernel that has no workgroups for more, and
    its result is that of the others, which have none for fewer.

        %r = flow.dispatch @winograd_row_sums_anyxanyx64(%x) -> tensor<1x?x64xf32>
        %p = flow.dispatch @winograd_row_sums_anyx64(%r, %few) -> %few

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        # Deviations first: the sums that their means are made of are left without uses.
        sums = [each for each in walk(module) if is_reduction(each)]
        deviations = [each for each in sums if match_squared_deviations(each) is not None]
        rewrite_each("deviations", deviations, partial(_lower_deviations, backend, lowering))
        left = [each for each in walk(module) if is_reduction(each)]
        rewrite_each("sum", left, partial(_lower_sum, backend, lowering))
        ends = _ends_of_pixel_sums(module, backend)
        rewrite_each("sum of pixels", ends, partial(_lower_pixel_sum, backend, lowering))


def _lower_deviations(backend: Backend, lowering: Lowering, reduction: ir.Operation) -> None:
    found = match_squared_deviations(reduction)
    if found is None or backend.misfit(PartialMoments(found.sums)) is not None:
        return
    factors = match_normalization_factors(found)
    if factors is not None and _lower_factors(backend, lowering, found, factors):
        return
    division = found.mean.owner.operation
    combined = CombinedMoments(found.sums.source, found.sums, deviations=True)
    if backend.misfit(combined) is not None:
        return
    with division.location, ir.InsertionPoint(division):
        moments = lowering.compute(PartialMoments(found.sums))
        mean = lowering.compute(CombinedMoments(moments, found.sums, deviations=False))
        mean = _as_result(mean, found.sums, found.mean)
    with reduction.location, ir.InsertionPoint(found.sums.result.owner.operation):
        deviations = lowering.compute(CombinedMoments(moments, found.sums, deviations=True))
        deviations = _as_result(deviations, found.sums, found.sums.result)
    _replace(found.mean, mean)
    _replace(found.sums.result, deviations)


def _lower_factors(
    backend: Backend, lowering: Lowering, found: SquaredDeviations, factors: NormalizationFactors
) -> bool:
    """Compute what channels are multiplied by, and what is added to them, if a kernel is to."""
    last = factors.addends.owner.operation
    with last.location, ir.InsertionPoint(last):
        parameters = [in_a_row(each) for each in (factors.weight, factors.bias)]
        operation = MomentFactors(found.mean, found.sums, *parameters)
        if backend.misfit(operation) is not None:
            erase_if_unused([each.owner.operation for each in parameters])
            return False
        moments = lowering.compute(PartialMoments(found.sums))
        computed = lowering.compute(replace(operation, partial=moments))
        sizes = [1, *ir.RankedTensorType(computed.type).shape[1:]]
        parts = [extracted(computed, [number, 0, 0, 0], sizes) for number in range(2)]
        for value, part in zip((factors.factors, factors.addends), parts, strict=True):
            shape = ir.RankedTensorType(value.type).shape
            every = list(range(len(shape)))
            spread = tensor.expand_shape(value.type, in_a_row(part), [every], [], shape)
            if value == factors.addends:
                _replace(value, spread)
            else:
                value.replace_all_uses_with(spread)
    return True


def _lower_sum(backend: Backend, lowering: Lowering, reduction: ir.Operation) -> None:
    found = _computed_sum(backend, reduction)
    if found is None:
        return
    user = only_user(found.result)
    if user is not None and is_reduction(user) and _computed_sum(backend, user) is not None:
        # That sum is one of the elements of this one.
        return
    last = found.result.owner.operation
    with last.location, ir.InsertionPoint(last):
        sums = _as_result(lowering.compute(Sums(found)), found, found.result)
    _replace(found.result, sums)


def _ends_of_pixel_sums(module: ir.Operation, backend: Backend) -> list[ir.Operation]:
    """The reductions that end sums over pixels, but for those whose sums are summed further."""
    rounds = _rounds_means(backend)
    sums = [found for each in walk(module) if (found := match_pixel_sum(each, rounds=rounds)) is not None]
    summed = [each for found in sums for each in found.reductions[:-1]]
    return [each for found in sums if (each := found.reductions[-1]) not in summed]


def _lower_pixel_sum(backend: Backend, lowering: Lowering, reduction: ir.Operation) -> None:
    found = match_pixel_sum(reduction, rounds=_rounds_means(backend))
    if found is None:
        return
    if backend.iree_code.vectorizes_loops or backend.iree_code.converts_half:
        # Kernels widen what they load.
        found = replace(found, image=widened_source(found.image) or found.image)
    *sizes, channels = ir.RankedTensorType(found.image.type).shape
    if is_dynamic(channels):
        return
    if not any(map(is_dynamic, sizes[1:])) and not _adds_faster(backend, found.image):
        return
    if backend.misfit(RowSums(found.image)) is not None:
        return
    mean = match_pixel_mean(found)
    if mean is not None and backend.misfit(RowSums(found.image, mean.divisors, half=mean.half)) is None:
        _lower_pixel_mean(backend, lowering, mean)
        return

    def scaled(elements: list[ir.Value]) -> ir.Value:
        total = elements[0]
        for scale in found.scales:
            (scaled_total,) = inline_block(scale.regions[0].blocks[0], [total, total])
            # The mean is rounded at its end: of sums, not of means, half precision of 5 digits has no room.
            total = unrounded(scaled_total)
        return total

    with reduction.location, ir.InsertionPoint(reduction):
        sums = _pixel_sums(backend, lowering, RowSums(found.image, dimensions=found.dimensions))
        init = tensor.empty(shape_of(found.result), ir.RankedTensorType(found.result.type).element_type)
        result = build_elementwise([(sums, found.order)], init, scaled)
    _replace(found.result, result)


def _adds_faster(backend: Backend, image: ir.Value) -> bool:
    """Whether a kernel adds pixels of an image of known size faster than IREE: on CPUs, whose code adds
    single channels, an image that is in memory."""
    channels = ir.RankedTensorType(image.type).shape[-1]
    operation = defining_operation(image)
    is_stored = operation is None or operation.name == ops.OutputTransformOp.OPERATION_NAME
    return backend.iree_code.vectorizes_loops and is_stored and channels >= _LEAST_CHANNELS


def _rounds_means(backend: Backend) -> bool:
    """Whether means are summed that are rounded to half precision: by kernels that divide where IREE converts
    it, too, and on CPUs, whose sums are divided by what reads them."""
    return backend.iree_code.converts_half or backend.iree_code.vectorizes_loops


def _pixel_sums(backend: Backend, lowering: Lowering, of_all: RowSums) -> ir.Value:
    """At once, if kernels can, or one dimension after the other, of which the last sums are divided."""
    if backend.misfit(of_all) is None:
        return lowering.compute(of_all)
    image = of_all.image
    for _ in range(of_all.dimensions - 1):
        image = lowering.compute(RowSums(image))
    return lowering.compute(replace(of_all, image=image, dimensions=1))


def _lower_pixel_mean(backend: Backend, lowering: Lowering, mean: PixelMean) -> None:
    # Its divisors are known where it is.
    last = mean.result.owner.operation
    with last.location, ir.InsertionPoint(last):
        type_ = ir.RankedTensorType(mean.result.type)
        of_all = RowSums(mean.sums.image, mean.divisors, mean.sums.dimensions, mean.half, type_.element_type)
        divided = _pixel_sums(backend, lowering, of_all)
        sizes = list(type_.shape)
        if len(sizes) > 2:
            images = size_of(divided, 0)
            unknown = [] if isinstance(images, int) else [images]
            groups = [[0], list(range(1, len(sizes)))]
            divided = tensor.expand_shape(mean.result.type, divided, groups, unknown, sizes)
    _replace(mean.result, divided)


def _computed_sum(backend: Backend, reduction: ir.Operation) -> ImageSum | None:
    """The sum that `reduction` is, if a kernel is to compute it.

    What is computed for it alone IREE computes as it adds, and doesn't write to memory.
    """
    found = match_image_sum(reduction)
    if found is None or backend.misfit(Sums(found)) is not None:
        return None
    operation = defining_operation(found.source)
    elementwise = None if operation is None else match_elementwise(operation)
    is_computed = isinstance(elementwise, Elementwise) and elementwise.is_pure
    return None if is_computed and only_user(found.source) is not None else found


def _as_result(computed: ir.Value, sums: ImageSum, result: ir.Value) -> ir.Value:
    """Sums in the order of memory as the program has them."""
    type_ = ir.RankedTensorType(result.type)
    if sums.sizes:
        return merged_to(transposed(computed, sums.order), type_.shape)
    if type_.rank == 0:
        return tensor.collapse_shape(type_, computed, [])
    return tensor.expand_shape(type_, computed, [list(range(type_.rank))], [], type_.shape)


def _replace(value: ir.Value, by: ir.Value) -> None:
    value.replace_all_uses_with(by)
    erase_if_unused([value.owner.operation])
