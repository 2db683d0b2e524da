"""Concatenate a tensor at once instead of neighbouring slices of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.slices import Slice, match_slice
from iree.winograd.passes.rewrite.erasure import erase_if_unused


@register_pass("winograd-join-slices")
class JoinSlices:
    """Concatenate a tensor at once instead of neighbouring slices of it.

    Split bottlenecks, as YOLO has them, divide the channels of a convolution's result, compute more from one
    of the parts, and concatenate all: each part would be copied. Slices in a row that lie next to each other
    in a tensor, along the dimension of the concatenation, are one slice of it, or the tensor, which
    `winograd-concat-in-place` has in its place once. Programs without a convolution stay as they are.

        %a = tensor.extract_slice %x[0, 0, 0, 0] [1, 8, 7, 7] [1, 1, 1, 1]
        %b = tensor.extract_slice %x[0, 8, 0, 0] [1, 8, 7, 7] [1, 1, 1, 1]
        %c = tensor.concat dim(1) %a, %b, %y
      becomes
        %c = tensor.concat dim(1) %x, %y
    """

    def run(self, module: ir.Operation) -> None:
        if not any(True for _ in convolutions(module)):
            return
        concatenations = [each for each in walk(module) if each.name == "tensor.concat"]
        rewrite_each("concatenation", concatenations, _join)


@dataclass(frozen=True)
class _Sliced:
    """A slice of a tensor."""

    source: ir.Value
    slice: Slice


def _join(concatenation: ir.Operation) -> None:
    """Concatenate what neighbouring slices are together, if any are neighbours."""
    dimension = int(ir.IntegerAttr(concatenation.attributes["dim"]).value)
    parts = list(concatenation.operands)
    runs = _neighbours(parts, dimension)
    if len(runs) == len(parts):
        return
    result = concatenation.results[0]
    with concatenation.location, ir.InsertionPoint(concatenation):
        joined = [run[0] if len(run) == 1 else _whole_of(run, dimension) for run in runs]
        whole = joined[0] if len(joined) == 1 else tensor.concat(result.type, dimension, joined)
    result.replace_all_uses_with(whole)
    erase_if_unused([concatenation])


def _neighbours(parts: Sequence[ir.Value], dimension: int) -> list[list[ir.Value]]:
    """The parts in their order, those together that are neighbours in one tensor."""
    runs: list[list[ir.Value]] = []
    for part in parts:
        if runs and _follows(runs[-1][-1], part, dimension):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _follows(one: ir.Value, other: ir.Value, dimension: int) -> bool:
    """Whether both are slices of a tensor, and the other one begins where the first one ends."""
    first, second = _sliced(one), _sliced(other)
    if first is None or second is None or first.source != second.source:
        return False
    end = first.slice.offsets[dimension] + first.slice.sizes[dimension]
    return second.slice == replace(
        first.slice,
        offsets=_changed(first.slice.offsets, dimension, end),
        sizes=_changed(first.slice.sizes, dimension, second.slice.sizes[dimension]),
    )


def _sliced(value: ir.Value) -> _Sliced | None:
    """What a tensor of static sizes is a slice of, of neighbours; None for others."""
    operation = defining_operation(value)
    if operation is None or operation.name != "tensor.extract_slice":
        return None
    slice_, source = match_slice(operation), operation.operands[0]
    if slice_ is None or not ir.RankedTensorType(source.type).has_static_shape or set(slice_.strides) != {1}:
        return None
    same = list(ir.RankedTensorType(value.type).shape) == list(slice_.sizes)
    return _Sliced(source, slice_) if same else None


def _whole_of(run: Sequence[ir.Value], dimension: int) -> ir.Value:
    """Build the slice that neighbours are together, or give the tensor that they are all of."""
    first = _sliced(run[0])
    assert first is not None
    size = sum(ir.RankedTensorType(part.type).shape[dimension] for part in run)
    sizes = _changed(first.slice.sizes, dimension, size)
    if sizes == tuple(ir.RankedTensorType(first.source.type).shape):
        return first.source
    return extracted(first.source, first.slice.offsets, sizes)


def _changed(numbers: tuple[int, ...], dimension: int, number: int) -> tuple[int, ...]:
    """The numbers with another one of a dimension."""
    return (*numbers[:dimension], number, *numbers[dimension + 1 :])
