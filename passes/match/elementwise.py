"""Elementwise operations, and what is broadcast to them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch


@dataclass(frozen=True)
class Elementwise:
    """A linalg operation whose every result element is computed by `body` from one element of each input.

    Its loops are the dimensions of its only result.
    """

    operation: ir.Operation
    inputs: tuple[ir.Value, ...]
    """All operands that the body reads or could read, the one of the result's shape last."""
    indexing_maps: tuple[ir.AffineMap, ...]
    """From a result's index to that in each input."""

    @property
    def result(self) -> ir.Value:
        return self.operation.results[0]

    @property
    def reads(self) -> list[tuple[ir.Value, ir.AffineMap]]:
        """The inputs but for the last, each with its indexing map."""
        return list(zip(self.inputs[:-1], self.indexing_maps[:-1], strict=True))

    @property
    def body(self) -> ir.Block:
        """Its arguments are the elements of `inputs`."""
        return self.operation.regions[0].blocks[0]

    @property
    def yielded(self) -> ir.Value:
        """The element of the result, as the body computes it."""
        return self.body.operations[len(self.body.operations) - 1].operation.operands[0]

    @property
    def is_pure(self) -> bool:
        """Whether the body is arithmetic."""
        return is_arithmetic(self.body)

    @property
    def reads_init(self) -> bool:
        """Whether the result depends on the last input, which otherwise gives but its shape."""
        return any(True for _ in self.body.arguments[-1].uses)


def match_elementwise(operation: ir.Operation) -> Elementwise | NoMatch:
    """Describe `operation` when it is elementwise, named or generic; a transposition or a broadcast is, too.

    Its body may still hold more than arithmetic; see `is_pure`.
    """
    if not operation.name.startswith("linalg.") or len(operation.regions) != 1:
        return NoMatch(operation, "it is not an operation of linalg")
    if len(operation.results) != 1:
        return NoMatch(operation, f"it has {len(operation.results)} results")
    attributes = linalg_structure.get_indexing_maps(operation)
    if attributes is None:
        return NoMatch(operation, "it has no indexing maps")
    indexing_maps = tuple(ir.AffineMapAttr(attribute).value for attribute in attributes)
    rank = ir.RankedTensorType(operation.results[0].type).rank
    if indexing_maps[-1] != ir.AffineMap.get_identity(rank):
        return NoMatch(operation, "its loops are not the dimensions of its result")
    if not all(isinstance(operand.type, ir.RankedTensorType) for operand in operation.operands):
        return NoMatch(operation, "its operands are not tensors")
    return Elementwise(operation, tuple(operation.operands), indexing_maps)


def is_arithmetic(body: ir.Block) -> bool:
    """Whether `body` has nothing else: no indices, assertions or other memory."""
    names = (view.operation.name for view in body.operations)
    return all(name.startswith(("arith.", "math.")) or name == "linalg.yield" for name in names)


def captures(body: ir.Block) -> bool:
    """Whether `body` uses a value from outside that isn't a constant."""
    for view in body.operations:
        for operand in view.operation.operands:
            definition = defining_operation(operand)
            if definition is None:
                if operand.owner != body:
                    return True
            elif definition.block != body and definition.name != "arith.constant":
                return True
    return False


def broadcast_source(value: ir.Value, indexing_map: ir.AffineMap) -> tuple[ir.Value, ir.AffineMap]:
    """The smallest tensor that holds the elements that `indexing_map` reads of `value`, and its map.

    Looks through broadcasts and reshapes that add dimensions of size 1.
    """
    while (source := _broadcast_step(value)) is not None:
        value, step_map = source
        indexing_map = ir.AffineMap.get(
            indexing_map.n_dims, 0, [result.compose(indexing_map) for result in step_map.results]
        )
    return value, indexing_map


def _broadcast_step(value: ir.Value) -> tuple[ir.Value, ir.AffineMap] | None:
    operation = defining_operation(value)
    if operation is None:
        return None
    if operation.name == "tensor.expand_shape":
        return _expanded_source(operation)
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or elementwise.indexing_maps[0].is_permutation:
        return None
    (*computed, terminator) = elementwise.body.operations
    if computed or terminator.operands[0] != elementwise.body.arguments[0]:
        return None
    return elementwise.inputs[0], elementwise.indexing_maps[0]


def _expanded_source(operation: ir.Operation) -> tuple[ir.Value, ir.AffineMap] | None:
    """The operand of a reshape that only adds dimensions of size 1."""
    source = operation.operands[0]
    shape = ir.RankedTensorType(operation.results[0].type).shape
    results = []
    for size, group in zip(source.type.shape, operation.attributes["reassociation"], strict=True):
        kept = [dimension.value for dimension in group if shape[dimension.value] == size]
        if size != 1 and (len(kept) != 1 or any(shape[d.value] not in (1, size) for d in group)):
            return None
        results.append(ir.AffineExpr.get_dim(kept[0]))
    return source, ir.AffineMap.get(len(shape), 0, results)


def is_repetition(user: ir.Operation, value: ir.Value) -> bool:
    """Whether an operation gives elements of `value`, as they are, for each of its own: as nearest pixels."""
    elementwise = match_elementwise(user)
    if not isinstance(elementwise, Elementwise) or elementwise.inputs[:-1] != (value,):
        return False
    return bool(elementwise.yielded == elementwise.body.arguments[0])
