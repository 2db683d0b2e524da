"""Have kernels of this project resize images whose sizes are known only at run time."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.dialect.ops import InputTransformOp
from iree.winograd.passes.build.conversions import converted, in_held_type
from iree.winograd.passes.build.slices import insert_channels
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice
from iree.winograd.passes.match.layouts.image_layout import is_transposition, to_channels_first
from iree.winograd.passes.match.navigation import SIZE, readers, walk
from iree.winograd.passes.match.pixels.selected_pixels import match_resized_pixels
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.conversions import is_narrowing
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import PixelSelection

_READING = (SIZE, "tensor.pad", InputTransformOp.OPERATION_NAME)
"""What reads an image, or its sizes."""


@register_pass("winograd-select-pixels")
class SelectPixels:
    """Have kernels of this project resize images of unknown sizes.

    Resizing of images whose sizes are known only at run time reads rows, and then columns, at positions that
    the program computes; linearly it adds two of each, by weights that it computes, too. IREE reads single
    elements. A kernel does so for the channels of a pixel at a time, in all dimensions at once, of
    channels-last images of f32. Where these are concatenated for convolutions it writes to their place, and
    with channels first what is only made so, of up to 16 channels on GPUs. GPUs' kernels compute positions
    and weights themselves; what is linear by others is left there. Products and sums that a program of half
    precision rounds are rounded by kernels of CPUs and through CUDA, and stored so where they are made
    channels first, through CUDA wherever they are no part of a concatenation.

        %a = linalg.generic ins(%rows : tensor<?xi64>) { tensor.extract %x[%n, %row, %j, %c] }
        %r = linalg.generic ins(%columns : tensor<?xi64>) { tensor.extract %a[%n, %i, %column, %c] }
               : tensor<1x?x?x16xf32>
      becomes
        %r = flow.dispatch @winograd_selectedxselectedx16(%x, %rows, %columns)
    """

    def run(self, module: ir.Operation) -> None:
        if (backend := supported_backend(module)) is None:
            return
        rounds = _rounds(backend)
        selections = [each for each in walk(module) if match_resized_pixels(each, rounds=rounds) is not None]
        if not selections:
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


def _rounds(backend: Backend) -> bool:
    """Whether kernels round, and store, what they compute."""
    return backend.uses_host_memory or backend.iree_code.converts_half


def _stored(selection: PixelSelection, result: ir.Value, backend: Backend) -> ir.Type | None:
    """The type of half precision that a kernel stores what it selects in; None for f32.

    What else reads it on CPUs takes it in f32. Pixels that aren't blended are those of the image.
    """
    if not _rounds(backend):
        return None
    if (half := half_type(result)) is not None or backend.uses_host_memory:
        return half
    is_blended = any(map(any, selection.is_weighted))
    return selection.rounded if is_blended else held_type(selection.image)


def _select(operation: ir.Operation, backend: Backend, lowering: Lowering) -> list[ir.Operation]:
    """Replace what resizes, with what it alone reads that does so before; gives what is left without uses."""
    resized = match_resized_pixels(operation, rounds=_rounds(backend))
    assert resized is not None
    taps = {step.dimension: step.taps for step in resized.steps}
    (result,) = operation.results
    by_dimension = tuple(taps.get(1 + d, ()) for d in range(result.type.rank - 2))
    selection = PixelSelection(resized.image, by_dimension, result, rounded=resized.rounded)
    if backend.misfit(selection) is not None:
        # All of it is left, what it blends as well.
        return resized.operations
    concatenation, moves = _concatenation(result), _transposition(result)
    if concatenation is not None:
        _select_in_place(selection, concatenation, backend, lowering)
        return resized.operations
    if moves:
        moved = replace(selection, makes_first=True)
        if backend.misfit(moved) is None:
            (selection, (result,)) = moved, moves[0].results
    with operation.location, ir.InsertionPoint(operation):
        half = _stored(selection, result, backend)
        if half is not None and not backend.uses_host_memory:
            selection = replace(selection, image=in_held_type(selection.image, half))
        selected = lowering.compute(replace(selection, half=half))
        element = ir.RankedTensorType(result.type).element_type
        is_as_stored = ir.RankedTensorType(selected.type).element_type == element
        result.replace_all_uses_with(selected if is_as_stored else converted(selected, element))
    return [*moves, *resized.operations]


def _concatenation(result: ir.Value) -> ir.Operation | None:
    """That of channels, which convolutions read, of which nothing but that makes use of an image."""
    users = readers(result)
    if len(users) != 1 or users[0].name != "tensor.concat":
        return None
    (whole,), parts = users[0].results, users[0].operands
    types = [ir.RankedTensorType(each.type) for each in (whole, *parts)]
    if users[0].attributes["dim"].value != types[0].rank - 1 or any(
        is_dynamic(each.shape[-1]) for each in types
    ):
        return None
    # What is computed of all of it goes to the parts.
    is_read = all(use.owner.operation.name in _READING for use in whole.uses)
    return users[0] if is_read and len({tuple(each.shape[:-1]) for each in types}) == 1 else None


def _transposition(result: ir.Value) -> list[ir.Operation]:
    """What makes it channels first, of which nothing else makes use, and rounds it before; each after what
    uses it. Empty where nothing does."""
    users = readers(result)
    if len(users) != 1:
        return []
    if is_narrowing(users[0]):
        moves = _transposition(users[0].results[0])
        return [*moves, users[0]] if moves else []
    return users if is_transposition(users[0], to_channels_first(result.type.rank)) else []


def _select_in_place(
    selection: PixelSelection, concatenation: ir.Operation, backend: Backend, lowering: Lowering
) -> None:
    """Have a kernel write to its part of a concatenation, and other parts inserted beside.

    Kernels of CPUs make what they write to. Those of GPUs write to what others are in already, which
    `winograd-insert-first` may have inserted as soon as they are computed.
    """
    result_type = ir.RankedTensorType(concatenation.results[0].type)
    parts = list(concatenation.operands)
    channels = [ir.RankedTensorType(each.type).shape[-1] for each in parts]
    firsts = [sum(channels[:number]) for number in range(len(parts))]
    own = parts.index(selection.like)

    def with_others(whole: ir.Value) -> ir.Value:
        for number, part in enumerate(parts):
            if number != own:
                whole = insert_channels(part, ChannelSlice(whole, firsts[number]))
        return whole

    def with_own(whole: ir.Value) -> ir.Value:
        return lowering.compute(replace(selection, destination=ChannelSlice(whole, firsts[own])))

    with concatenation.location, ir.InsertionPoint(concatenation):
        sizes = [*shape_of(selection.like)[:-1], result_type.shape[-1]]
        empty = tensor.empty(sizes, result_type.element_type)
        whole = with_others(with_own(empty)) if backend.uses_host_memory else with_own(with_others(empty))
    concatenation.results[0].replace_all_uses_with(whole)
    concatenation.erase()
