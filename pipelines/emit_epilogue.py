"""The epilogue region of `winograd.output_transform` as vector code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.ops import OutputTransformOp

from .emit import Buffer, Index, broadcast


@dataclass(frozen=True)
class VectorEpilogue:
    """An epilogue whose scalar operations are emitted on vectors along the output channels.

    Everything in the region is elementwise, so an operation on vectors is the scalar one with vector types.
    """

    transform: OutputTransformOp
    operands: Sequence[Buffer]

    def emit(
        self, accumulated: ir.Value, image: Index, position: tuple[Index, ...], channel: Index
    ) -> ir.Value:
        """The finished outputs of `image` at `position`, from `channel` on, one per lane of `accumulated`.

        The position has to exist: operands are read there without conditions.
        """
        width = ir.VectorType(accumulated.type).shape[0]
        indices = [image, *position, channel]
        body = self.transform.body
        values: dict[ir.Value, ir.Value] = {body.arguments[0]: accumulated}
        for argument, operand, indexing_map in zip(
            list(body.arguments)[1:], self.operands, self.transform.indexing_maps, strict=True
        ):
            values[argument] = _load_operand(operand, indexing_map, indices, width)
        *operations, terminator = [view.operation for view in body.operations]
        for operation in operations:
            for scalar, vector_value in zip(
                operation.results, _emit_vectorized(operation, values, width), strict=True
            ):
                values[scalar] = vector_value
        return values[terminator.operands[0]]

    def prefetch(self, image: Index, position: tuple[Index, ...], channel: Index) -> None:
        """Brings near what `emit` will read there, but for what every position reads."""
        indices = [image, *position, channel]
        for operand, indexing_map in zip(self.operands, self.transform.indexing_maps, strict=True):
            if len(indexing_map.results) == len(indices):
                operand.prefetch(_operand_offset(operand, indexing_map, indices))


def reads_along_channels(indexing_map: ir.AffineMap) -> bool:
    """Whether an operand that is read by this map has a value per channel."""
    channel = indexing_map.n_dims - 1
    return any(
        isinstance(expression, ir.AffineDimExpr) and expression.position == channel
        for expression in indexing_map.results
    )


def _load_operand(operand: Buffer, indexing_map: ir.AffineMap, indices: list[Index], width: int) -> ir.Value:
    offset = _operand_offset(operand, indexing_map, indices)
    if reads_along_channels(indexing_map):
        return operand.load(offset, width)
    return broadcast(operand.load_scalar(offset), width)


def _operand_offset(operand: Buffer, indexing_map: ir.AffineMap, indices: list[Index]) -> Index:
    return operand.offset(
        [
            expression.value
            if isinstance(expression, ir.AffineConstantExpr)
            else indices[expression.position]
            for expression in indexing_map.results
        ]
    )


def _emit_vectorized(operation: ir.Operation, values: dict[ir.Value, ir.Value], width: int) -> list[ir.Value]:
    result_types = [ir.VectorType.get([width], result.type) for result in operation.results]
    if operation.name == "arith.constant":
        splat = ir.DenseElementsAttr.get_splat(result_types[0], operation.attributes["value"])
        return [arith.constant(result_types[0], splat)]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    emitted = ir.Operation.create(
        operation.name, result_types, [values[operand] for operand in operation.operands], attributes
    )
    return list(emitted.results)
