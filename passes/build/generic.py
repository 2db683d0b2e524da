"""The builder of every `linalg.generic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.tensors import shape_of

Read = tuple[ir.Value, ir.AffineMap]
"""A tensor, and the map from loops to the element that is read of it."""
Body = Callable[[list[ir.Value]], ir.Value]
"""Builds an element of the result from one of each input, and that of the init last."""


def build_generic(reads: Sequence[Read], init: Read, iterators: Sequence[str], body: Body) -> ir.Value:
    """Build the generic that computes its result, of the type of `init`, from `reads`.

    `iterators` are `parallel` or `reduction`, one per loop.
    """
    (result,) = _build_results(reads, [init], iterators, lambda elements: [body(elements)])
    return result


def _build_results(
    reads: Sequence[Read],
    inits: Sequence[Read],
    iterators: Sequence[str],
    body: Callable[[list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """The same of a result for each of `inits`, whose elements come last in the body."""
    operands = [value for value, _ in (*reads, *inits)]
    generic = linalg.GenericOp(
        [init.type for init, _ in inits],
        operands[: len(reads)],
        operands[len(reads) :],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(indexing_map) for _, indexing_map in (*reads, *inits)]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in iterators]),
    )
    types = [operand.type.element_type for operand in operands]
    block = generic.regions[0].blocks.append(*types, arg_locs=[ir.Location.current] * len(types))
    with ir.InsertionPoint(block):
        linalg.yield_(body(list(block.arguments)))
    return list(generic.results)


def build_elementwise(reads: Sequence[Read], init: ir.Value, body: Body) -> ir.Value:
    """Build the generic whose loops are the dimensions of its result."""
    rank = ir.RankedTensorType(init.type).rank
    return build_generic(reads, (init, ir.AffineMap.get_identity(rank)), ["parallel"] * rank, body)


def build_elementwise_results(
    reads: Sequence[Read], inits: Sequence[ir.Value], body: Callable[[list[ir.Value]], Sequence[ir.Value]]
) -> list[ir.Value]:
    """Build the generic of several results of one shape, for each of which `body` builds an element."""
    rank = ir.RankedTensorType(inits[0].type).rank
    identity = ir.AffineMap.get_identity(rank)
    return _build_results(reads, [(init, identity) for init in inits], ["parallel"] * rank, body)


def build_sum(parts: Sequence[ir.Value]) -> ir.Value:
    """Build the sum of tensors of one type, the first ones added first."""
    result_type = ir.RankedTensorType(parts[0].type)
    identity = ir.AffineMap.get_identity(result_type.rank)
    init = tensor.empty(shape_of(parts[0]), result_type.element_type)
    return build_elementwise(
        [(part, identity) for part in parts], init, lambda elements: reduce(arith.addf, elements[:-1])
    )
