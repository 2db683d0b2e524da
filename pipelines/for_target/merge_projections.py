"""Make one product of those of the same rows whose results attention, or epilogues, read where they lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.groups import image_of_rows
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.layouts.strided_view import constant_factor
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.attention import is_attention, match_attention
from iree.winograd.passes.match.products.matmul import Matmul, match_matmul, matmuls
from iree.winograd.passes.match.values.constants import Array, constant_array, is_constant
from iree.winograd.passes.match.values.conversions import is_narrowing, is_widening, rounding_type
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend
from ..backends.fused_attention import fused_attention
from ..backends.module_backend import supported_backend
from ..backends.search_space import SearchSpace
from ..problems.tensor_operations import BatchedAttention
from ..selection.module_space import module_space
from ..selection.options import WinogradOptions
from ..selection.prediction import predicted_seconds

PASS_NAME = "winograd-merge-projections"

_MATRIX_RANK = 2
_ALIGNED = 8
"""Columns that kernels read at once, 16 bytes of half precision: parts begin at a multiple of them."""


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class MergeProjections:
    """Make one product of those of the same rows whose results kernels read where they lie, on GPUs.

    A transformer multiplies each token by three matrices, and the tokens of a text, which all blocks attend
    to, by two of each block. Each product by itself is a kernel that leaves multiprocessors idle, and reads
    the rows anew. The kernel of attention reads heads where they lie, so matrices become one, side by side,
    and heads parts of its rows. So do vectors that are added to images, or scale them: each residual block
    of a diffusion model has a product of its own of the same embedding of the time step. What is done to the
    products on the way, a bias that is added, and rounding, is done to all of them. Rewritten are products by
    constant matrices which nothing but such kernels reads, or what spreads them over images, where the
    product of all is predicted to take less time.

        %q = linalg.matmul ins(%x, %v : tensor<8192x320xf32>, tensor<320x320xf32>) outs(%zeros)
        %k = linalg.matmul ins(%x, %w : tensor<8192x320xf32>, tensor<320x320xf32>) outs(%zeros)
      becomes, with u = [v w],
        %p = linalg.matmul ins(%x, %u : tensor<8192x320xf32>, tensor<320x640xf32>) outs(%zeros)
        %q = tensor.extract_slice %p[0, 0] [8192, 320] [1, 1]
        %k = tensor.extract_slice %p[0, 320] [8192, 320] [1, 1]
    """

    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")

    def run(self, module: ir.Operation) -> None:
        candidates = [each for each in matmuls(module) if is_constant(each.operands[1])]
        if len(candidates) < 2 or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.vectorizes_loops:
            return
        choice = _Choice(module_space(module, self.machine, self.threads), self.max_relative_error)
        groups = [each for each in _groups(candidates, backend) if choice.gains(each)]
        rewrite_each("projections", groups, _merge, operation_of=lambda group: group[0].operation)


@dataclass(frozen=True)
class _Projection:
    """The product of rows and a constant matrix, and what is done to its elements one after the other."""

    matmul: Matmul
    steps: tuple[ir.Operation, ...]

    @property
    def operation(self) -> ir.Operation:
        return self.matmul.operation

    @property
    def result(self) -> ir.Value:
        return (self.steps[-1] if self.steps else self.operation).results[0]

    @property
    def key(self) -> Hashable:
        """What projections have in common that can be one product."""
        rows, kinds = _source(self.matmul.rows), tuple(map(_kind, self.steps))
        return self.operation.block, rows, tuple(self.matmul.rows.type.shape), self.matmul.pixels, kinds


@dataclass(frozen=True)
class _Choice:
    space: SearchSpace
    max_relative_error: float | None

    def gains(self, group: Sequence[_Projection]) -> bool:
        """Whether the product of all is predicted to take less time than each by itself."""
        problems = [each.matmul.problem for each in group]
        merged = replace(problems[0], output_channels=sum(each.output_channels for each in problems))
        seconds, *others = (
            predicted_seconds(each, self.space, self.max_relative_error) for each in (merged, *problems)
        )
        return seconds < sum(others)


def _groups(products: Sequence[ir.Operation], backend: Backend) -> list[list[_Projection]]:
    groups: dict[Hashable, list[_Projection]] = defaultdict(list)
    for operation in products:
        projection = _match(operation, backend)
        if projection is not None:
            groups[projection.key].append(projection)
    return [each for each in groups.values() if len(each) > 1]


def _match(operation: ir.Operation, backend: Backend) -> _Projection | None:
    matmul = match_matmul(operation)
    if isinstance(matmul, NoMatch) or ATTRIBUTE_NAME in operation.attributes:
        return None
    if matmul.output_channels % _ALIGNED > 0:
        return None
    projection = _Projection(matmul, tuple(_steps(operation)))
    readers = list(_readers(projection.result))
    is_read = readers and all(each is not None and _reads_parts(each, backend) for each in readers)
    return projection if is_read else None


def _steps(product: ir.Operation) -> Iterator[ir.Operation]:
    step = product
    while (user := only_user(step.results[0])) is not None and _kind(user) is not None:
        if user.operands[0] != step.results[0] or user.block != product.block:
            return
        yield user
        step = user


def _kind(step: ir.Operation) -> Hashable:
    """What a step does to all rows alike, but for the bias that it adds; None where it does another thing."""
    if step.name == "tensor.expand_shape":
        return _split_rows(step)
    if is_narrowing(step):
        return "narrowed", str(half_type(step.results[0]))
    if (half := rounding_type(step)) is not None:
        return "rounded", str(half)
    return None if _bias(step) is None else "added"


def _split_rows(step: ir.Operation) -> tuple[int, ...] | None:
    """The sizes that an operation splits the rows of a matrix to; None where it splits columns."""
    groups, shape = reassociation_of(step), ir.RankedTensorType(step.results[0].type).shape
    splits = len(groups) == _MATRIX_RANK and len(groups[-1]) == 1
    return tuple(shape[:-1]) if splits else None


def _bias(step: ir.Operation) -> ir.Value | None:
    """The constant vector that an operation adds to each row."""
    elementwise = match_elementwise(step)
    if not isinstance(elementwise, Elementwise) or elementwise.reads_init:
        return None
    rows, columns = _maps(ir.RankedTensorType(step.results[0].type).rank)
    if list(elementwise.indexing_maps) != [rows, columns, rows]:
        return None
    first, *others = (view.operation for view in elementwise.body.operations)
    arguments = list(elementwise.body.arguments)[:2]
    is_sum = first.name == "arith.addf" and list(first.operands) == arguments and len(others) == 1
    bias = elementwise.inputs[1]
    is_known = isinstance(bias.type.element_type, ir.F32Type) and is_constant(bias)
    return bias if is_sum and is_known else None


def _maps(rank: int) -> tuple[ir.AffineMap, ir.AffineMap]:
    """How an operation reads rows of a tensor in place, and a vector for each of them."""
    return ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])


def _readers(value: ir.Value) -> Iterator[ir.Operation | None]:
    """What reads `value` where it lies, once for each use: attention, or what spreads it; None for others."""
    for use in value.uses:
        user = use.owner.operation
        if is_attention(user) or _spreads(user, use.operand_number):
            yield user
        elif user.name in KEEPING_ELEMENTS or is_widening(user) or constant_factor(user) is not None:
            yield from _readers(user.results[0])
        else:
            yield None


def _spreads(operation: ir.Operation, number: int) -> bool:
    """Whether an operation computes more elements than one, pixels of an image, of each of an operand's."""
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or number >= len(elementwise.reads):
        return False
    _, indexing_map = elementwise.reads[number]
    loops = [each for each in indexing_map.results if isinstance(each, ir.AffineDimExpr)]
    return elementwise.is_pure and len(loops) < indexing_map.n_dims


def _reads_parts(reader: ir.Operation, backend: Backend) -> bool:
    """Whether a kernel reads parts of rows where they lie: attention's, or one that spreads them."""
    return _has_kernel(reader, backend) if is_attention(reader) else True


def _has_kernel(operation: ir.Operation, backend: Backend) -> bool:
    attention = match_attention(operation)
    if isinstance(attention, NoMatch):
        return False
    return isinstance(fused_attention(attention, backend, threads=1), BatchedAttention)


def _source(rows: ir.Value) -> ir.Value:
    """The tensor whose pixels rows are: each product may have a view of its own."""
    definition = defining_operation(rows)
    while definition is not None and definition.name == "tensor.collapse_shape":
        rows = definition.operands[0]
        definition = defining_operation(rows)
    return rows


def _merge(group: Sequence[_Projection]) -> None:
    first = group[0].matmul
    widths = [each.matmul.output_channels for each in group]
    location = ir.Location.fused([each.operation.location for each in group])
    with location, ir.InsertionPoint(first.operation):
        matrix = resource_constant(_side_by_side([each.matmul.matrix for each in group]), "projections")
        zeros = zero_filled([first.rows.type.shape[0], sum(widths)], ir.F32Type.get())
        value = build_named(linalg.MatmulOp, [first.rows, matrix], zeros)
        for steps in zip(*(each.steps for each in group), strict=True):
            value = _step(value, steps)
        rows = shape_of(value)[:-1]
        for projection, begin, width in zip(group, accumulate(widths, initial=0), widths, strict=False):
            part = extracted(value, [*(0 for _ in rows), begin], [*rows, width])
            projection.result.replace_all_uses_with(part)
    remark_applied(first.operation, PASS_NAME, f"{len(group)} products of its rows are one")
    for projection in group:
        erase_if_unused([*reversed(projection.steps), projection.operation])


def _step(value: ir.Value, steps: Sequence[ir.Operation]) -> ir.Value:
    """What all of `steps` do, to the matrices that are side by side in `value`."""
    first = steps[0]
    if first.name == "tensor.expand_shape":
        return image_of_rows(value, ir.RankedTensorType(first.results[0].type).shape[:-1])
    if is_narrowing(first):
        return converted(value, half_type(first.results[0]))
    if (half := rounding_type(first)) is not None:
        return converted(value, half, ir.F32Type.get())
    biases = [bias for step in steps if (bias := _bias(step)) is not None]
    bias = resource_constant(_side_by_side(biases), "biases")
    rows, columns = _maps(ir.RankedTensorType(value.type).rank)
    return build_elementwise(
        [(value, rows), (bias, columns)],
        tensor.empty(shape_of(value), ir.F32Type.get()),
        lambda elements: arith.addf(elements[0], elements[1]),
    )


def _side_by_side(constants: Sequence[ir.Value]) -> Array:
    arrays = [array for each in constants if (array := constant_array(each)) is not None]
    assert len(arrays) == len(constants)
    return np.concatenate(arrays, axis=-1)
