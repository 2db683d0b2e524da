"""What an epilogue reads beside the convolution's outputs: as small a tensor as holds it."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.epilogue_read import read_misfit
from iree.winograd.passes.match.elementwise import broadcast_source
from iree.winograd.passes.match.no_match import NoMatch


@dataclass(frozen=True)
class EpilogueOperand:
    """A tensor, and the map by which an epilogue reads it, from an output's index `(n, spatial..., k)`."""

    value: ir.Value
    indexing_map: ir.AffineMap


def match_epilogue_operand(
    user: ir.Operation,
    value: ir.Value,
    indexing_map: ir.AffineMap,
    result_type: ir.RankedTensorType,
    *,
    takes_half: bool = False,
) -> EpilogueOperand | NoMatch:
    """What an epilogue of results of `result_type` reads instead of `value`: the source of broadcasts.

    It is for `user` that it reads it, and which doesn't match where kernels can't. Where it `takes_half` an
    operand or results may be of half precision.
    """
    source, read = broadcast_source(value, indexing_map)
    source_type = ir.RankedTensorType(source.type)
    types = [each.element_type for each in (source_type, result_type)]
    if takes_half:
        types = [ir.F32Type.get() if isinstance(each, ir.F16Type | ir.BF16Type) else each for each in types]
    if types[0] != types[1]:
        return NoMatch(user, f"it reads {source_type}, but results are {result_type.element_type}")
    if reason := read_misfit(source_type, read, result_type):
        return NoMatch(user, f"an operand {reason}")
    return EpilogueOperand(source, read)
