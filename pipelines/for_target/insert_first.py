"""Insert parts of tensors before convolutions read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import combinations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.dialect.ops import InputTransformOp, OutputTransformOp
from iree.winograd.passes.build.slices import extract_channels
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.layouts.channel_slice import ChannelSlice, match_extract, match_insert
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation, only_user, walk
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.moved_result import read_instead

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend

_COMPUTED_BY_THREADS = ("linalg.generic", "linalg.pooling_")
"""Operations whose results IREE's threads store as they compute them."""
_READ_BY_KERNELS = (InputTransformOp.OPERATION_NAME, OutputTransformOp.OPERATION_NAME)
"""Operations that are kernels', which read parts of tensors as they are, not moved."""
_READ_BY_THREADS = (*_COMPUTED_BY_THREADS, "tensor.pad")
"""Operations for which they load what they need of a tensor."""


@register_pass("winograd-insert-first")
class InsertFirst:
    """Insert parts of tensors before convolutions read them, for kernels that read parts in place.

    What `winograd-concat-in-place` inserts where it was concatenated would be computed into a tensor of its
    own if convolutions read it before, and be copied. Of channels that are inserted into an empty tensor one
    after the other, those that convolutions compute and only others read, before the first insertion, are
    inserted as soon as they are computed, and read from there. On GPUs pooling, sums, elementwise operations
    and epilogues may read them as well, as U-Nets' skip connections are read, and loads and stores have to be
    aligned.

        %e = tensor.empty() : tensor<1x7x7x12xf32>
        %x = "winograd.output_transform"(%m)
        %v = "winograd.input_transform"(%x)
        ...
        %y = "winograd.output_transform"(%n)
        %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1]
        %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1]
      becomes
        %e = tensor.empty() : tensor<1x7x7x12xf32>
        %x = "winograd.output_transform"(%m)
        %0 = tensor.insert_slice %x into %e[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1]
        %s = tensor.extract_slice %0[0, 0, 0, 0] [1, 7, 7, 8] [1, 1, 1, 1]
        %v = "winograd.input_transform"(%s)
        ...
        %y = "winograd.output_transform"(%n)
        %1 = tensor.insert_slice %y into %0[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1]
    """

    def run(self, module: ir.Operation) -> None:
        filled = [each for each in walk(module) if each.name == "tensor.empty" and any(_insertions(each))]
        if not filled or (backend := supported_backend(module)) is None:
            return
        rewrite_each("tensor", filled, lambda empty: _insert_first(empty, backend))


def _insert_first(empty: ir.Operation, backend: Backend) -> None:
    insertions = list(_insertions(empty))
    if not _are_apart(insertions):
        return
    first = [each for each in insertions if _is_read_before(each, insertions[0], backend)]
    if not first:
        return
    first.sort(key=cmp_to_key(_compare_computations))
    uses = [(use.owner.operation, use.operand_number) for use in insertions[-1].results[0].uses]
    whole = _empty_before(_computation(first[0]), empty.results[0].type)
    sizes = list(whole.owner.operands)
    for insertion in (*first, *(each for each in insertions if each not in first)):
        for position, operand in enumerate([whole, *sizes], start=1):
            insertion.operands[position] = operand
        whole = insertion.results[0]
    for user, position in uses:
        user.operands[position] = whole
    reads = [(insertion, _reads(insertion)) for insertion in first]
    for insertion in first:
        insertion.move_after(_computation(insertion))
    for insertion, inserted_reads in reads:
        _read_inserted(inserted_reads, insertion, first)
    erase_if_unused([empty])


def _empty_before(computation: ir.Operation, type_: ir.RankedTensorType) -> ir.Value:
    """Build an empty tensor before what computes some of its channels."""
    with computation.location, ir.InsertionPoint(computation):
        sizes = [*shape_of(computation.results[0])[:-1], type_.shape[-1]]
        return tensor.empty(sizes, type_.element_type)


def _compare_computations(one: ir.Operation, other: ir.Operation) -> int:
    return -1 if _computation(one).is_before_in_block(_computation(other)) else 1


def _insertions(empty: ir.Operation) -> Iterator[ir.Operation]:
    """Those of channels in its block, each into the result of the one before, which nothing else uses."""
    operation = empty
    while True:
        user = only_user(operation.results[0])
        if user is None or user.block != empty.block or match_insert(user) is None:
            return
        if user.operands[1] != operation.results[0]:
            return
        yield user
        operation = user


def _are_apart(insertions: list[ir.Operation]) -> bool:
    """Whether no two insert into the same channels, so that their order doesn't matter."""
    places = [
        (destination.first, ir.RankedTensorType(each.operands[0].type).shape[-1])
        for each in insertions
        if (destination := match_insert(each)) is not None
    ]
    return all(
        one + one_size <= other or other + other_size <= one
        for (one, one_size), (other, other_size) in combinations(places, 2)
    )


def _computation(insertion: ir.Operation) -> ir.Operation:
    """What computes the part that is inserted."""
    operation = defining_operation(insertion.operands[0])
    assert operation is not None
    return operation


@dataclass(frozen=True)
class _Read:
    """An operation that reads a part, or some of its channels."""

    reader: ir.Operation
    value: ir.Value
    """What it reads: the part, or the slice of it."""
    first: int = 0
    """The part's channel from which on it does."""
    slice: ir.Operation | None = None
    """What makes the slice; None where it reads the part."""


def _reads(insertion: ir.Operation) -> list[_Read]:
    """What else uses the part, slices of its channels by what reads these."""
    part, found = insertion.operands[0], []
    for user in dict.fromkeys(use.owner.operation for use in part.uses):
        if user == insertion:
            continue
        source = None if len(user.results) != 1 else match_extract(user.results[0])
        if source is None or source.whole != part:
            found.append(_Read(user, part))
            continue
        value = user.results[0]
        readers = dict.fromkeys(use.owner.operation for use in value.uses)
        found += [_Read(reader, value, source.first, user) for reader in readers]
    return found


def _is_read_before(insertion: ir.Operation, first: ir.Operation, backend: Backend) -> bool:
    """Whether a convolution computes the part, and only others read it, before the `first` insertion.

    These kernels have to write and to read it in place.
    """
    operation, reads = defining_operation(insertion.operands[0]), _reads(insertion)
    if operation is None or not _writes_slices(operation, reads, backend):
        return False
    are_before = all(
        _reads_slices(read, backend)
        and read.reader.block == first.block
        and read.reader.is_before_in_block(first)
        for read in reads
    )
    if not reads or not are_before or operation.block != first.block:
        return False
    destination = match_insert(insertion)
    assert destination is not None
    type_ = ir.RankedTensorType(destination.whole.type)
    channels = ir.RankedTensorType(insertion.operands[0].type).shape[-1]
    return backend.holds_channels(type_, destination.first, channels)


def _writes_slices(operation: ir.Operation, reads: list[_Read], backend: Backend) -> bool:
    """Whether an operation is one whose code writes part of a tensor as well as all of one.

    Where `winograd-insert-as-computed` has it do so, that also has IREE's code read the part there.
    """
    if operation.name == OutputTransformOp.OPERATION_NAME:
        return True
    if not backend.iree_code.writes_slices or not operation.name.startswith(_COMPUTED_BY_THREADS):
        return False
    return any(read.reader.name == InputTransformOp.OPERATION_NAME for read in reads)


def _reads_slices(read: _Read, backend: Backend) -> bool:
    """Whether an operation is one whose code reads part of a tensor as well as what it reads now."""
    name = read.reader.name
    if name == InputTransformOp.OPERATION_NAME:
        return True
    if name == OutputTransformOp.OPERATION_NAME:
        # What is a slice already is copied for others, as it was.
        return backend.epilogues_read_parts or read.slice is not None
    return _is_read_by_threads(read.reader, backend)


def _is_read_by_threads(reader: ir.Operation, backend: Backend) -> bool:
    """Whether IREE's threads load for the operation what they need of a tensor, where it is."""
    if not backend.iree_code.reads_slices:
        return False
    if reader.name in KEEPING_ELEMENTS:
        users = [use.owner.operation for use in reader.results[0].uses]
        return all(user.name not in _READ_BY_KERNELS and _is_read_by_threads(user, backend) for user in users)
    return bool(reader.name.startswith(_READ_BY_THREADS))


def _read_inserted(reads: list[_Read], insertion: ir.Operation, first: list[ir.Operation]) -> None:
    """Have readers read the part from the tensor as it is by then: later parts leave it as it is."""
    destination = match_insert(insertion)
    assert destination is not None
    parts: dict[tuple[ir.Operation, ChannelSlice, int], ir.Value] = {}
    for read in reads:
        *_, latest = (each for each in first if each.is_before_in_block(read.reader))
        channels = ir.RankedTensorType(read.value.type).shape[-1]
        source = ChannelSlice(latest.results[0], destination.first + read.first)
        if (latest, source, channels) not in parts:
            # One for all: what is made of several of them is seen to be of the same image.
            with read.reader.location, ir.InsertionPoint.after(latest):
                parts[latest, source, channels] = extract_channels(source, channels)
        read_instead(read.reader, read.value, parts[latest, source, channels])
        if read.slice is not None:
            erase_if_unused([read.slice])
