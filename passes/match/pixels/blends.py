"""Tensors whose elements are sums of elements of one other tensor, at positions and with weights known now.

Interpolation comes in many forms: in one operation or twenty, with positions that are computed from loop
indices or read from tables. All of it is arithmetic on indices and constants, which is evaluated, and sums
and products of elements with the results, which are added up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.pixels.index_arithmetic import compute
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.elements import constant_elements
from iree.winograd.passes.match.values.evaluate import spread

Array = npt.NDArray[Any]

MAX_CONSTANT_ELEMENTS = 1 << 16
"""Tables of indices and weights are shorter; what is longer isn't looked at."""
MAX_POSITIONS = 1 << 22
"""Positions in an image up to which what is computed for each of them is evaluated."""
MAX_WEIGHTS = 4 * MAX_POSITIONS
"""Weights of all taps at all positions up to which they are added up: 128 MiB of them."""
MAX_TAPS = 16
"""The taps of bicubic interpolation."""
_MOVES = ("tensor.collapse_shape", "tensor.concat", "tensor.expand_shape", "tensor.extract_slice")
"""Operations that write elements of their operands elsewhere."""
OBSERVED = ("linalg.generic", *_MOVES)
"""Operations that there may be something to know of."""


@dataclass(frozen=True)
class Tap:
    """The elements of the source that one summand reads, and their weights in float64.

    Arrays have one dimension per dimension of the result, of size 1 where they don't depend on it.
    """

    indices: tuple[Array, ...]
    weight: Array

    @property
    def key(self) -> tuple[tuple[tuple[int, ...], bytes], ...]:
        """The same for taps that read the same elements."""
        return tuple((index.shape, index.tobytes()) for index in self.indices)


@dataclass(frozen=True)
class Blend:
    """The sum over `taps` of weighted elements of `source`."""

    source: ir.Value
    taps: tuple[Tap, ...]


Known: TypeAlias = "Array | Blend | None"
"""The elements of a value, or what they are sums of; None where neither is known."""


class Blends:
    """What is known of the tensors of a program.

    `observe` its operations in program order; tensors that weren't observed are known if they are constants.
    """

    def __init__(self) -> None:
        self._values: dict[ir.Value, Known] = {}

    def observe(self, operation: ir.Operation) -> Known:
        """What is known of the only result of `operation`, which may be of any kind."""
        known = self._evaluate(operation)
        if known is not None:
            self._values[operation.results[0]] = known
        return known

    def _of(self, value: ir.Value) -> Known:
        if value not in self._values:
            definition = defining_operation(value)
            if definition is None or definition.name != "arith.constant":
                return None
            self._values[value] = constant_elements(definition, MAX_CONSTANT_ELEMENTS)
        return self._values[value]

    def _evaluate(self, operation: ir.Operation) -> Known:
        if operation.name in _MOVES:
            known = [self._of(operand) for operand in operation.operands]
            return _moved(operation, [each for each in known if isinstance(each, np.ndarray)])
        if operation.name != "linalg.generic":
            return None
        elementwise = match_elementwise(operation)
        if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
            return None
        shape = tuple(ir.RankedTensorType(elementwise.result.type).shape)
        is_known = not any(size == 0 or is_dynamic(size) for size in shape)
        return self._evaluate_body(elementwise, shape) if is_known else None

    def _evaluate_body(self, elementwise: Elementwise, shape: tuple[int, ...]) -> Known:
        values: dict[ir.Value, Known] = {}
        for argument, (tensor, indexing_map) in zip(
            elementwise.body.arguments, elementwise.reads, strict=False
        ):
            if any(True for _ in argument.uses):
                values[argument] = _spread(self._of(tensor), indexing_map)
                if values[argument] is None:
                    return None
        *body, terminator = (view.operation for view in elementwise.body.operations)
        for operation in body:
            operands = [
                values[each] if each in values else self._captured(each, len(shape))
                for each in operation.operands
            ]
            if operation.name == "cf.assert":
                if not isinstance(operands[0], np.ndarray) or not operands[0].all():
                    return None
                continue
            result = _compute(operation, operands, shape)
            if result is None:
                return None
            values[operation.results[0]] = result
        (yielded,) = terminator.operands
        return values[yielded] if yielded in values else self._captured(yielded, len(shape))

    def _captured(self, value: ir.Value, loops: int) -> Known:
        """What is known of a tensor, or of a number for all loops, that a body uses from outside."""
        return _in_body(value, self._of(value), loops)


def _compute(operation: ir.Operation, operands: Sequence[Known], shape: tuple[int, ...]) -> Known:
    """What an operation of a body computes, for all loops at once."""
    if operation.name == "linalg.index":
        return _along(operation.attributes["dim"].value, shape)
    if operation.name == "arith.constant":
        return _in_body(operation.results[0], constant_elements(operation, MAX_CONSTANT_ELEMENTS), len(shape))
    if operation.name == "tensor.extract":
        return _extract(operation, operands)
    if any(isinstance(operand, Blend) for operand in operands):
        return _combine(operation, operands)
    arrays = [operand for operand in operands if isinstance(operand, np.ndarray)]
    if len(arrays) < len(operands) or len(operation.results) != 1 or _positions(arrays) > MAX_POSITIONS:
        return None
    return compute(operation, arrays)


def _extract(operation: ir.Operation, operands: Sequence[Known]) -> Known:
    table, *indices = operands
    known = [index for index in indices if isinstance(index, np.ndarray)]
    source = operation.operands[0]
    if len(known) < len(indices) or not known:
        return None
    sizes = ir.RankedTensorType(source.type).shape
    if any(is_dynamic(size) for size in sizes) or not all(
        index.min(initial=0) >= 0 and index.max(initial=0) < size
        for index, size in zip(known, sizes, strict=True)
    ):
        return None
    if isinstance(table, np.ndarray):
        elements = np.broadcast_to(table, tuple(sizes))
        return elements[tuple(known)] if _positions(known) <= MAX_POSITIONS else None
    if not isinstance(source.type.element_type, ir.F32Type):
        return None
    return Blend(source, (Tap(tuple(known), np.ones((1,) * known[0].ndim)),))


def _combine(operation: ir.Operation, operands: Sequence[Known]) -> Blend | None:
    """The result of arithmetic that is linear in its blends."""
    if operation.name in ("arith.addf", "arith.subf"):
        left, right = operands
        if not isinstance(left, Blend) or not isinstance(right, Blend) or left.source != right.source:
            return None
        return _sum(left, right if operation.name == "arith.addf" else _scaled(right, np.float64(-1)))
    if operation.name == "arith.mulf":
        blend, factor = operands if isinstance(operands[0], Blend) else reversed(operands)
        return _scaled(blend, factor) if isinstance(blend, Blend) and isinstance(factor, np.ndarray) else None
    if operation.name == "arith.negf" and isinstance(operands[0], Blend):
        return _scaled(operands[0], np.float64(-1))
    return None


def _scaled(blend: Blend, factor: Any) -> Blend | None:
    factors = np.asarray(factor, np.float64)
    if sum(_positions([factors, tap.weight]) for tap in blend.taps) > MAX_WEIGHTS:
        return None
    return Blend(blend.source, tuple(Tap(tap.indices, tap.weight * factors) for tap in blend.taps))


def _sum(left: Blend, right: Blend | None) -> Blend | None:
    if right is None:
        return None
    if _positions([tap.weight for tap in (*left.taps, *right.taps)]) > MAX_POSITIONS:
        return None
    taps = {tap.key: tap for tap in left.taps}
    for tap in right.taps:
        same = taps.get(tap.key)
        taps[tap.key] = tap if same is None else Tap(tap.indices, same.weight + tap.weight)
    is_small = len(taps) <= MAX_TAPS and sum(tap.weight.size for tap in taps.values()) <= MAX_WEIGHTS
    return Blend(left.source, tuple(taps.values())) if is_small else None


def _spread(known: Known, indexing_map: ir.AffineMap) -> Known:
    """What is known of a tensor's elements, read through a map of loops."""
    if isinstance(known, Blend):
        return _permuted(known, indexing_map) if indexing_map.is_permutation else None
    return None if known is None else spread(known, indexing_map)


def _permuted(blend: Blend, permutation: ir.AffineMap) -> Blend:
    order = np.argsort([ir.AffineDimExpr(index).position for index in permutation.results])
    taps = (
        Tap(tuple(index.transpose(order) for index in tap.indices), tap.weight.transpose(order))
        for tap in blend.taps
    )
    return Blend(blend.source, tuple(taps))


def _in_body(value: ir.Value, known: Known, loops: int) -> Known:
    """What is `known` of a tensor, which a body extracts elements of, or of a number, for all its loops."""
    if isinstance(known, np.ndarray) and not isinstance(value.type, ir.RankedTensorType):
        return known.reshape((1,) * loops)
    return known


def _along(dimension: int, shape: Sequence[int]) -> Array:
    """The loop index of `dimension`."""
    sizes = [size if position == dimension else 1 for position, size in enumerate(shape)]
    return np.arange(shape[dimension], dtype=np.int64).reshape(sizes)


def _moved(operation: ir.Operation, known: Sequence[Array]) -> Known:
    """What `operation`, of `_MOVES`, makes of its operands where all are `known` and their sizes are, too."""
    if len(known) < len(operation.operands):
        # A size or an offset that is known only at run time is an operand, too.
        return None
    types = [ir.RankedTensorType(each.type) for each in (operation.results[0], *operation.operands)]
    if not all(type_.has_static_shape for type_ in types):
        return None
    if any(np.prod(type_.shape, dtype=np.int64) > MAX_CONSTANT_ELEMENTS for type_ in types):
        return None
    shape = tuple(types[0].shape)
    arrays = [
        np.broadcast_to(array, tuple(type_.shape)) for array, type_ in zip(known, types[1:], strict=True)
    ]
    if operation.name == "tensor.concat":
        return np.concatenate(arrays, operation.attributes["dim"].value)
    if operation.name == "tensor.extract_slice":
        part = match_slice(operation)
        return None if part is None else arrays[0][part.of_array].reshape(shape)
    return arrays[0].reshape(shape)


def _positions(arrays: Sequence[Array]) -> int:
    return int(np.prod(np.broadcast_shapes(*(array.shape for array in arrays)), dtype=np.int64))
