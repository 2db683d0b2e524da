"""Insert the phases of a tensor where the tensor is inserted, on GPUs."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.slices import inserted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.layouts.channel_slice import match_insert
from iree.winograd.passes.match.navigation import defining_operation, is_empty, only_user, walk
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend

_INSERTION = "tensor.insert_slice"


@register_pass("winograd-insert-phases")
class InsertPhases:
    """Insert the phases of a tensor where the tensor is inserted, on GPUs.

    A transposed convolution is one for each phase of its rows and columns, whose kernels write between each
    other's outputs. Where channels of another tensor are what they make, as in U-Nets, they write to those.

        %e = tensor.empty() : tensor<1x8x8x4xf32>
        %0 = tensor.insert_slice %even into %e[0, 0, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1]
        %1 = tensor.insert_slice %odd into %0[0, 1, 0, 0] [1, 4, 8, 4] [1, 2, 1, 1]
        %r = tensor.insert_slice %1 into %whole[0, 0, 0, 8] [1, 8, 8, 4] [1, 1, 1, 1]
      becomes
        %0 = tensor.insert_slice %even into %whole[0, 0, 0, 8] [1, 4, 8, 4] [1, 2, 1, 1]
        %r = tensor.insert_slice %odd into %0[0, 1, 0, 8] [1, 4, 8, 4] [1, 2, 1, 1]
    """

    def run(self, module: ir.Operation) -> None:
        insertions = [each for each in walk(module) if each.name == _INSERTION]
        if not insertions or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.writes_slices:
            rewrite_each("insertion", insertions, lambda each: _insert_phases(each, backend))


def _insert_phases(insertion: ir.Operation, backend: Backend) -> None:
    destination, phases = match_insert(insertion), _phases(insertion)
    if destination is None or not phases:
        return
    channels = ir.RankedTensorType(insertion.operands[0].type).shape[-1]
    type_ = ir.RankedTensorType(destination.whole.type)
    if not backend.holds_channels(type_, destination.first, channels):
        return
    result = destination.whole
    for phase in phases:
        part, unknown = match_slice(phase, of_any_size=True), iter(list(phase.operands)[2:])
        assert part is not None
        offsets = [*part.offsets[:-1], part.offsets[-1] + destination.first]
        sizes = [next(unknown) if is_dynamic(size) else size for size in part.sizes]
        with phase.location, ir.InsertionPoint(insertion):
            result = inserted(phase.operands[0], result, offsets, sizes, part.strides)
    insertion.results[0].replace_all_uses_with(result)
    erase_if_unused([insertion])


def _phases(insertion: ir.Operation) -> list[ir.Operation]:
    """The insertions into an empty tensor, of all channels, that give what `insertion` alone reads."""
    phases: list[ir.Operation] = []
    value = insertion.operands[0]
    while not is_empty(value):
        phase = defining_operation(value)
        if phase is None or phase.block != insertion.block or only_user(value) is None:
            return []
        if phase.name != _INSERTION or not _has_all_channels(phase):
            return []
        phases.insert(0, phase)
        value = phase.operands[1]
    return phases


def _has_all_channels(phase: ir.Operation) -> bool:
    part = match_slice(phase, of_any_size=True)
    types = [ir.RankedTensorType(each.type) for each in list(phase.operands)[:2]]
    if part is None or types[0].rank != types[1].rank:
        return False
    return (part.offsets[-1], part.sizes[-1], part.strides[-1]) == (0, types[1].shape[-1], 1)
