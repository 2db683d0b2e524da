"""Have a kernel of this project resample images at positions that are known at compile time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted, in_held_type
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.layouts.channel_slice import match_insert
from iree.winograd.passes.match.navigation import defining_operation, only_user, transforms, walk
from iree.winograd.passes.match.pixels.resampling import Resampling, match_resampling
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.match.values.conversions import rounded_to
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import ResampledImage


@register_pass("winograd-lower-resampling")
class LowerResampling:
    """Have a kernel of this project resample images at positions that are known at compile time, on GPUs.

    Images that are resized linearly, by cubic polynomials, or to sizes that are no multiples, and those that
    are padded by reflection or replication, look up by tables what they read (`winograd-fold-resampling`).
    IREE's code for GPUs reads single elements at a fourth of memory's speed, and has a dispatch for each
    dimension that is padded. A kernel reads quads of channels, a few rows at a time, with all dimensions at
    once, and writes what is concatenated to its place. On CUDA it reads and writes half precision. Images of
    less than 2^17 elements that elementwise operations read are left, which IREE computes in one dispatch,
    and so are those whose pixels are only repeated, whose order `winograd-copy-rearranged` copies, unless
    they are concatenated.

        %r = linalg.generic ins(%weights...) {
          %i = tensor.extract %rows[linalg.index 1]
          ...
          %a = tensor.extract %x[%n, %i, %j, %c]
          ...
        } : tensor<1x64x64x32xf32>
      becomes
        %r = flow.dispatch @winograd_resampled_1x64x64x32(%x, %row_taps, %column_taps)

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        found = [each for each in walk(module) if isinstance(match_resampling(each), Resampling)]
        lowering = backend.lowering(module)
        gone: list[ir.Operation] = []

        def lower(operation: ir.Operation) -> None:
            if operation not in gone:
                gone.extend(_lower(operation, backend, lowering))

        # The last ones first: they take in those that they read.
        rewrite_each("resampling", found[::-1], lower)
        # Those that read others go first.
        erase_if_unused(reversed(gone))


def _lower(operation: ir.Operation, backend: Backend, lowering: Lowering) -> list[ir.Operation]:
    """Replace what resamples, with what it alone reads that does so before; gives what isn't used then."""
    taken = list(_in_a_row(operation))
    resampling = _composed([match for _, match in taken])
    if not resampling.axes or is_known_at_load(resampling.source):
        return []
    forms = list(_forms(resampling, operation.results[0], backend))
    fitting = [(image, result) for image, result in forms if backend.misfit(image) is None]
    if not fitting:
        return []
    image, result = fitting[0]
    last = result.owner.operation
    with operation.location, ir.InsertionPoint(last):
        computed = lowering.compute(image if image.half is None else _reading_half(image))
        if image.half is not None and half_type(result) is None:
            computed = converted(computed, ir.F32Type.get())
    result.replace_all_uses_with(computed)
    return ([] if last == operation else [last]) + [each for each, _ in taken]


def _in_a_row(operation: ir.Operation) -> Iterator[tuple[ir.Operation, Resampling]]:
    """A resampling, and those before it of other dimensions that nothing else reads, the last one first."""
    known: set[int] = set()
    current: ir.Operation | None = operation
    while current is not None:
        match = match_resampling(current)
        if not isinstance(match, Resampling) or known & set(match.axes):
            return
        yield current, match
        known |= set(match.axes)
        is_read_here = only_user(match.source) is not None
        current = defining_operation(match.source) if is_read_here else None


def _composed(resamplings: list[Resampling]) -> Resampling:
    """What several do, of dimensions of their own each, the last one first."""
    axes = {dimension: axis for each in resamplings for dimension, axis in each.axes.items()}
    return Resampling(resamplings[-1].source, axes)


def _forms(
    resampling: Resampling, resampled: ir.Value, backend: Backend
) -> Iterator[tuple[ResampledImage, ir.Value]]:
    """What may be computed, the best first, and the value that it is."""
    user = only_user(resampled)
    if backend.iree_code.converts_half:
        half, result = None, resampled
        if user is not None and (half := rounded_to(user)) is not None:
            result = user.results[0]
        elif all(axis.taps == 1 for axis in resampling.axes.values()):
            half = held_type(resampling.source)
        if half is not None:
            yield ResampledImage(resampling, resampled, half), result
    destination = None if user is None else match_insert(user)
    if user is not None and destination is not None:
        yield ResampledImage(resampling, resampled, destination=destination), user.results[0]
    yield ResampledImage(resampling, resampled), resampled


def _reading_half(image: ResampledImage) -> ResampledImage:
    """The same of an image in half precision, if that has all of its numbers: whatever makes it rounds."""
    source = in_held_type(image.resampling.source, image.half)
    return replace(image, resampling=replace(image.resampling, source=source))
