"""Channels that convolutions insert into one tensor, which is of half precision where all of them are."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.slices import inserted
from iree.winograd.passes.match.convolutions.exact_type import held_type
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import Slice, match_slice
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.pipelines.backends.backend import Backend
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.group import match_group

from .half_readers import have_read, reads_half, takes, users_of


def insertions_of_channels(empty: ir.Operation) -> Iterator[ir.Operation]:
    """Those of channels in its block, each into the result of the one before, which others may read.

    Phases of a transposed convolution have all channels, of some pixels.
    """
    whole = empty.results[0]
    while True:
        users = [use.owner.operation for use in whole.uses]
        inserting = [each for each in users if each.block == empty.block and _inserted_channels(each)]
        inserting = [each for each in inserting if each.operands[1] == whole]
        if len(inserting) != 1:
            return
        yield inserting[0]
        (whole,) = inserting[0].results


def concatenate_half(empty: ir.Operation, space: SearchSpace, backend: Backend) -> None:
    """Has channels, or phases, that are inserted into an empty tensor inserted into one of half precision."""
    insertions = list(insertions_of_channels(empty))
    halves = {held_type(each.operands[0]) for each in insertions}
    half = halves.pop() if len(halves) == 1 else None
    if half is None or half_type(empty.results[0]) is not None:
        return
    # By how much CPUs gain from it with images of any size isn't known.
    if backend.uses_host_memory and any(map(is_dynamic, empty.results[0].type.shape[1:])):
        return
    type_ = ir.RankedTensorType.get(list(empty.results[0].type.shape), half)
    for number, each in enumerate(insertions):
        behind = insertions[number + 1 : number + 2]
        readers = [user for user in users_of(each.results[0]) if user not in behind]
        if not all(reads_half(user, each.results[0], space, half) for user in readers):
            return
        if not _is_inserted_in_half(each, type_, space, backend):
            return
    with empty.location, ir.InsertionPoint(empty):
        unknown = iter(empty.operands)
        whole = tensor.empty([next(unknown) if is_dynamic(size) else size for size in type_.shape], half)
    narrowed = []
    for each, place in zip(insertions, map(_inserted_channels, insertions), strict=True):
        assert place is not None
        with each.location, ir.InsertionPoint(each):
            part = converted(each.operands[0], half)
            # Offsets and strides are known.
            unknown = iter(list(each.operands)[2:])
            sizes = [next(unknown) if is_dynamic(size) else size for size in place.sizes]
            whole = inserted(part, whole, place.offsets, sizes, place.strides)
        narrowed.append(whole)
    unused: list[ir.Operation] = []
    for each in insertions:
        # What else reads the tensors is left.
        each.operands[1] = empty.results[0]
    for each, whole in zip(insertions, narrowed, strict=True):
        unused += have_read(each.results[0], whole, space)
    erase_if_unused(unused)


def _inserted_channels(operation: ir.Operation) -> Slice | None:
    """Which elements an insertion writes, of channels that are neighbours; None where it does not."""
    if operation.name != "tensor.insert_slice":
        return None
    part, whole = (ir.RankedTensorType(each.type) for each in list(operation.operands)[:2])
    place = match_slice(operation, of_any_size=True) if part.rank == whole.rank else None
    return place if place is not None and place.strides[-1] == 1 else None


def _is_inserted_in_half(
    insertion: ir.Operation, whole: ir.RankedTensorType, space: SearchSpace, backend: Backend
) -> bool:
    """Whether a convolution computes a part of `whole`, where it lies, and stores it in half precision.

    All else that reads it takes it so.
    """
    part, half, place = insertion.operands[0], whole.element_type, _inserted_channels(insertion)
    operation = defining_operation(part)
    if operation is None or operation.name != ops.OutputTransformOp.OPERATION_NAME or place is None:
        return False
    if not backend.holds_channels(whole, place.offsets[-1], place.sizes[-1]):
        return False
    group = match_group(ops.OutputTransformOp(operation))
    if isinstance(group, NoMatch) or not takes(group, space, result=half):
        return False
    return all(reads_half(user, part, space, half) for user in users_of(part) if user != insertion)
