"""Have kernels of this project copy at once what IREE would copy several times to rearrange it."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.layouts.rearrangement import (
    MOVES,
    Rearrangement,
    match_rearrangement,
    match_repetition,
)
from iree.winograd.passes.match.navigation import (
    RESHAPES,
    defining_operation,
    only_user,
    transforms,
    unreshaped,
    walk,
)
from iree.winograd.passes.match.values.constants import is_known_at_load
from iree.winograd.passes.match.values.conversions import widened_source
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend, Lowering
from ..backends.module_backend import supported_backend
from ..problems.tensor_operations import Rearranged

_KERNELS = ("flow.dispatch", "winograd.")
_IMPORT = "hal.tensor.import"


@register_pass("winograd-copy-rearranged")
class CopyRearranged:
    """Have kernels of this project copy at once what IREE would copy several times, on GPUs.

    Images are divided into patches, and these are put together again, by transpositions of images that are
    channels first by themselves; images whose layout was changed are transposed before and behind it.
    Images are rotated by two copies along each dimension. IREE has a dispatch for each. Together they are
    one order of the elements, in which neighbours are mostly neighbours still: a kernel reads each quad from
    where it was. Rewritten is what is f32, of static sizes, copied twice or more, and keeps quads together;
    what elementwise operations read `winograd-lower-elementwise` has read in place. So are images of 2^17
    elements or more that are enlarged by repeating pixels, of which IREE reads and writes single elements,
    where kernels read them, such that are copied once between kernels, as channels that become pixels, and
    parts of larger tensors that lie apart, where reshapes or transpositions keep IREE from reading them in
    place. On CUDA numbers of half precision are copied as such.

        %a = linalg.transpose ins(%x : tensor<32x32x32x64xf32>) permutation = [0, 3, 1, 2]
        %e = tensor.expand_shape %a : tensor<32x64x32x32xf32> into tensor<32x64x16x2x16x2xf32>
        %b = linalg.transpose ins(%e) permutation = [0, 1, 2, 4, 3, 5]
        %c = tensor.collapse_shape %b : tensor<32x64x16x16x2x2xf32> into tensor<32x64x256x4xf32>
        %d = linalg.transpose ins(%c) permutation = [0, 3, 2, 1]
      becomes
        %d = flow.dispatch @winograd_rearranged_32x4x256x64(%x)

        %r = linalg.generic ins(%x : tensor<1x256x256x256xf32>) {} -> tensor<1x256x2x256x2x256xf32>
        %c = tensor.collapse_shape %r : tensor<1x256x2x256x2x256xf32> into tensor<1x512x512x256xf32>
      becomes
        %d = flow.dispatch @winograd_rearranged_1x256x2x256x2x256(%x)
        %c = tensor.collapse_shape %d : tensor<1x256x2x256x2x256xf32> into tensor<1x512x512x256xf32>

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        lowering = backend.lowering(module)
        rewrite_each(
            "rearrangement",
            _copied_often(module, backend),
            lambda each: _copy(each, lowering, in_half=backend.iree_code.converts_half),
            operation_of=lambda each: each.operations[0],
        )


def _copied_often(module: ir.Operation, backend: Backend) -> list[Rearrangement]:
    """What kernels are to copy, none of it a part of another."""
    found: list[Rearrangement] = []
    parts: set[ir.Operation] = set()
    # Backwards: what is made of others comes before these.
    moves = [each for each in walk(module) if _may_copy(each)]
    for move in moves[::-1]:
        result = move.results[0]
        if move in parts or str(ir.RankedTensorType(result.type).element_type) != "f32":
            continue
        rearrangement = match_rearrangement(result)
        if rearrangement is None or is_known_at_load(rearrangement.source):
            continue
        if rearrangement.repeats and not _is_read_by_kernels(result):
            # IREE computes it with what reads it.
            continue
        if rearrangement.moves == 1 and not _is_between_kernels(rearrangement):
            # IREE copies it once, too, with what is computed before it or behind it.
            continue
        if backend.misfit(Rearranged(rearrangement)) is None:
            parts |= set(rearrangement.operations)
            if not _is_read_in_place(rearrangement):
                found.append(rearrangement)
    return found


def _may_copy(operation: ir.Operation) -> bool:
    """Whether IREE copies elements for the operation, or for what reshapes or transposes a slice."""
    if operation.name == "tensor.extract_slice":
        users = [use.owner.operation.name for use in operation.results[0].uses]
        return bool(users) and all(user in (*RESHAPES, "linalg.transpose") for user in users)
    return operation.name in MOVES or match_repetition(operation) is not None


def _copy(rearrangement: Rearrangement, lowering: Lowering, *, in_half: bool) -> None:
    last = rearrangement.operations[0]
    half = held_type(rearrangement.result) if in_half else None
    with last.location, ir.InsertionPoint(last):
        if half is not None:
            rearrangement = replace(rearrangement, source=_source_in(half, rearrangement))
        copied = lowering.compute(Rearranged(rearrangement, half))
        if half is not None:
            copied = converted(copied, ir.F32Type.get())
    rearrangement.result.replace_all_uses_with(copied)
    erase_if_unused([last])


def _source_in(half: ir.Type, rearrangement: Rearrangement) -> ir.Value:
    """The source in half precision, if it is so, or whatever makes it may round it for this alone."""
    source = rearrangement.source
    if (narrow := widened_source(source)) is not None:
        return narrow
    reader = only_user(source)
    return source if reader is None or reader not in rearrangement.operations else converted(source, half)


def _is_between_kernels(rearrangement: Rearrangement) -> bool:
    source = defining_operation(unreshaped(rearrangement.source))
    is_in_memory = source is None or source.name.startswith((*_KERNELS, _IMPORT))
    return is_in_memory and _is_read_by_kernels(rearrangement.result)


def _is_read_by_kernels(result: ir.Value) -> bool:
    """Whether nothing else reads it."""
    users = [use.owner.operation for use in result.uses]
    return all(
        _is_read_by_kernels(user.results[0]) if user.name in RESHAPES else user.name.startswith(_KERNELS)
        for user in users
    )


def _is_read_in_place(rearrangement: Rearrangement) -> bool:
    """Whether nothing else than an elementwise operation reads it, which may read it where it is."""
    user = only_user(rearrangement.result)
    while user is not None and user.name in RESHAPES:
        user = only_user(user.results[0])
    if user is not None and user.name == "linalg.transpose" and rearrangement.moves == 0:
        # IREE's transpositions read no slices.
        return False
    return user is not None and isinstance(match_elementwise(user), Elementwise)
