"""Have kernels of this project resize images whose sizes are known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.selected_pixels import BlendedPixels, PixelTap, match_blended_pixels
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import PixelSelection

_LEAST_RANK = 3


@register_pass("winograd-select-pixels")
class SelectPixels:
    """Have kernels of this project resize images of unknown sizes, on CPUs.

    Resizing of images whose sizes are known only at run time reads rows, and then columns, at positions that
    the program computes; linearly it adds two of each, by weights that it computes, too. IREE reads single
    elements. A kernel does so for the channels of a pixel at a time, in all dimensions at once, of
    channels-last images of f32.

        %a = linalg.generic ins(%rows : tensor<?xi64>) { tensor.extract %x[%n, %row, %j, %c] }
        %r = linalg.generic ins(%columns : tensor<?xi64>) { tensor.extract %a[%n, %i, %column, %c] }
               : tensor<1x?x?x16xf32>
      becomes
        %r = flow.dispatch @winograd_selectedxselectedx16(%x, %rows, %columns)
    """

    def run(self, module: ir.Operation) -> None:
        selections = [each for each in walk(module) if _match(each) is not None]
        if not selections or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        gone: list[ir.Operation] = []

        def select(operation: ir.Operation) -> None:
            if operation not in gone:
                gone.extend(_select(operation, backend, lowering))

        # The last ones first: they take in those that they read.
        rewrite_each("selection", reversed(selections), select)
        # Those that read others go first.
        erase_if_unused(reversed(gone))


def _match(operation: ir.Operation) -> BlendedPixels | None:
    """What resizes channels-last images of f32, of sizes known only at run time, along a dimension."""
    match = match_blended_pixels(operation)
    if match is None:
        return None
    type_, read = ir.RankedTensorType(match.result.type), ir.RankedTensorType(match.image.type)
    if type_.rank < _LEAST_RANK or match.dimension not in range(1, type_.rank - 1):
        return None
    is_open = any(map(is_dynamic, (*type_.shape[1:-1], *read.shape[1:-1])))
    # Of an image with channels first the last dimension is another one.
    is_open = is_open and not is_dynamic(type_.shape[-1])
    same = (type_.shape[0], type_.shape[-1]) == (read.shape[0], read.shape[-1])
    return match if is_open and same and str(type_.element_type) == "f32" else None


def _select(operation: ir.Operation, backend: Backend, lowering: Lowering) -> list[ir.Operation]:
    """Replace what resizes, with what it alone reads that does so before; gives what is left without uses."""
    last = match = _match(operation)
    taps: dict[int, tuple[PixelTap, ...]] = {}
    taken: list[ir.Operation] = []
    # Later dimensions are summed last.
    while match is not None and match.dimension < min(taps, default=match.dimension + 1):
        taps[match.dimension] = match.taps
        taken += [match.result.owner.operation, *_weighting(match), *match.readers]
        image, former = match.image, defining_operation(match.image)
        is_read_here = _is_read_by(image, match.readers)
        match = _match(former) if former is not None and is_read_here else None
    assert last is not None
    by_dimension = tuple(taps.get(1 + d, ()) for d in range(last.result.type.rank - 2))
    selection = PixelSelection(image, by_dimension, last.result)
    if backend.misfit(selection) is not None:
        return []
    with operation.location, ir.InsertionPoint(operation):
        last.result.replace_all_uses_with(lowering.compute(selection))
    return taken


def _weighting(match: BlendedPixels) -> list[ir.Operation]:
    """The products of a sum."""
    operation = match.result.owner.operation
    if operation in match.readers:
        return []
    return [operand.owner.operation for operand in list(operation.operands)[:-1]]


def _is_read_by(value: ir.Value, operations: Sequence[ir.Operation]) -> bool:
    """Whether nothing else reads elements of it; its sizes may be asked for."""
    bodies = [operation.regions[0].blocks[0] for operation in operations]
    users = [use.owner.operation for use in value.uses]
    return all(user.block in bodies for user in users if user.name != "tensor.dim")
