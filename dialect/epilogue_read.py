"""How an epilogue reads an operand: an element per output, those of neighbouring channels side by side."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir


def read_misfit(
    operand_type: ir.RankedTensorType, indexing_map: ir.AffineMap, result_type: ir.RankedTensorType
) -> str | None:
    """Why kernels can't read an operand by a map from an output's `(n, spatial..., k)`; None if they can.

    Each dimension is read at an index of the result, and as large, or at 0. Kernels load vectors of channels,
    so only dimensions of size 1 may lie inside of them, and are told no sizes but those of the convolution.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    channel = result_type.rank - 1
    holds_channels = False
    for dimension, (size, index) in enumerate(zip(operand_type.shape, indexing_map.results, strict=True)):
        if holds_channels and size != 1:
            return f"{operand_type} must have channels innermost, but is read at {indexing_map}"
        if isinstance(index, ir.AffineConstantExpr) and index.value == 0:
            position = None
        elif isinstance(index, ir.AffineDimExpr):
            position = index.position
        else:
            return f"must be read at dimensions of the result or 0, but is at {index}"
        expected = dynamic if position is None else result_type.shape[position]
        is_outer_batch = (dimension, position) == (0, 0)
        if size == dynamic and (expected != dynamic or not (position or is_outer_batch)):
            return (
                f"{operand_type} may have sizes known at run time only as the result has, the batch outermost"
            )
        if dynamic not in (size, expected) and size != expected:
            return (
                f"{operand_type} must have size {expected} in dimension {dimension}, "
                f"as result {result_type} has in dimension {position}"
            )
        holds_channels = holds_channels or position == channel
    return None
