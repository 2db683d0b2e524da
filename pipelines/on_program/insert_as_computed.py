"""Have IREE's dispatches write what is inserted into larger tensors in its place."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from iree.winograd.dialect.bindings import ir, linalg_structure, tensor
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, is_empty, walk
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.rewrite.moved_result import read_instead

from ..backends.module_backend import supported_backend

_INSERTION = "tensor.insert_slice"
_REGION = "flow.dispatch.region"


@register_pass("winograd-insert-as-computed")
class InsertAsComputed:
    """Have IREE's dispatches write what is inserted into larger tensors in its place, on GPUs.

    IREE computes a part of a concatenation in a dispatch, and copies it to its place by another. A dispatch
    that was formed before IREE forms others writes its result there: it holds the insertion, and the
    elementwise operations, pooling by threads among them, of which nothing else needs the results. IREE's
    phase `global-optimization` has left out dimensions of one element by then, which it doesn't in such
    dispatches. What lies in one piece of the larger tensor is as good as copied already.

        %p = linalg.generic ins(%x : tensor<7x7x4xf32>) { arith.maximumf }
        %r = tensor.insert_slice %p into %e[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1]
               : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
      becomes
        %r = flow.dispatch.region -> (tensor<1x7x7x12xf32>) {
          %p = linalg.generic ins(%x : tensor<7x7x4xf32>) { arith.maximumf }
          %i = tensor.insert_slice %p into %e[0, 0, 0, 8] [1, 7, 7, 4] [1, 1, 1, 1]
                 : tensor<7x7x4xf32> into tensor<1x7x7x12xf32>
          flow.return %i : tensor<1x7x7x12xf32>
        }
    """

    def run(self, module: ir.Operation) -> None:
        insertions = [each for each in walk(module) if each.name == _INSERTION]
        if not insertions or (backend := supported_backend(module)) is None:
            return
        if backend.iree_code.writes_slices:
            rewrite_each("insertion", insertions, _insert_as_computed)


def may_insert(operation: ir.Operation) -> bool:
    """Whether it is an insertion, or IREE may make some of it."""
    return operation.name in (_INSERTION, "tensor.concat")


def _insert_as_computed(insertion: ir.Operation) -> None:
    part = insertion.operands[0]
    computed = _computed(insertion)
    if not computed or not _lies_apart(insertion):
        return
    users = dict.fromkeys(use.owner.operation for use in part.uses)
    readers = [each for each in users if each != insertion]
    place = computed[-1] if readers else insertion
    if readers and not _may_move_to(place, insertion, readers):
        return
    result = insertion.results[0]
    attributes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0], insertion.context)}
    with insertion.location, ir.InsertionPoint(place):
        region = ir.Operation.create(_REGION, [result.type], attributes=attributes, regions=2).operation
        block = region.regions[0].blocks.append()
    result.replace_all_uses_with(region.results[0])
    with insertion.location, ir.InsertionPoint(block):
        ending = ir.Operation.create("flow.return", operands=[result]).operation
    for reader in readers:
        _read_inserted(reader, insertion, region.results[0])
    for operation in (*computed, insertion):
        operation.move_before(ending)


def _may_move_to(place: ir.Operation, insertion: ir.Operation, readers: list[ir.Operation]) -> bool:
    """Whether a part may be inserted as soon as it is computed, and be read from there by `readers`.

    They are done before anything else is inserted, so that nothing has to be kept for them.
    """
    target = insertion.operands[1]
    definition = defining_operation(target)
    if definition is not None and definition.block == place.block and place.is_before_in_block(definition):
        if not is_empty(target):
            return False
        definition.move_before(place)
    return all(
        reader.name == "linalg.generic"
        and reader.block == place.block
        and reader.is_before_in_block(insertion)
        for reader in readers
    )


def _read_inserted(reader: ir.Operation, insertion: ir.Operation, whole: ir.Value) -> None:
    """Have `reader` read what is inserted from `whole`, where it is by then."""
    part, slice_ = insertion.operands[0], match_slice(insertion)
    assert slice_ is not None
    with reader.location, ir.InsertionPoint(reader):
        read = tensor.extract_slice(
            part.type, whole, [], [], [], list(slice_.offsets), list(slice_.sizes), list(slice_.strides)
        )
    read_instead(reader, part, read)


def _lies_apart(insertion: ir.Operation) -> bool:
    """Whether what is inserted doesn't lie in one piece of memory, at places that are known."""
    part, whole = match_slice(insertion), ir.RankedTensorType(insertion.operands[1].type)
    if part is None or not whole.has_static_shape:
        return False
    partial = [d for d, size in enumerate(part.sizes) if size < whole.shape[d]]
    return bool(partial) and prod(part.sizes[: partial[-1]]) > 1


def _computed(insertion: ir.Operation) -> list[ir.Operation]:
    """The operations that compute what is inserted and nothing else, in order.

    They are elementwise, but the first may reduce windows.
    """
    last = _elementwise(insertion.operands[0], insertion.block)
    if last is None:
        return []
    found, pending = [last.operation], list(_read_in_place(last))
    while pending:
        value = pending.pop()
        if sum(1 for _ in value.uses) != 1:
            continue
        elementwise = _elementwise(value, insertion.block)
        if elementwise is not None:
            found.insert(0, elementwise.operation)
            pending.extend(_read_in_place(elementwise))
        elif (pooling := _pooling(value, insertion.block)) is not None:
            found.insert(0, pooling)
    return found


def _pooling(value: ir.Value, block: ir.Block) -> ir.Operation | None:
    """The operation in `block` that reduces windows of each channel to `value`."""
    operation = defining_operation(value)
    if operation is None or operation.block != block or not operation.name.startswith("linalg."):
        return None
    if len(operation.results) != 1 or not linalg_structure.isa_convolution_op(operation):
        return None
    dimensions = linalg_structure.infer_convolution_dimensions(operation)
    if dimensions is None or any(map(list, (dimensions.input_channel, dimensions.output_channel))):
        return None
    return None if list(dimensions.depth) else operation


def _elementwise(value: ir.Value, block: ir.Block) -> Elementwise | None:
    """The elementwise operation in `block` that computes `value`, and transposes nothing with it."""
    operation = defining_operation(value)
    if operation is None or operation.block != block:
        return None
    elementwise = match_elementwise(operation)
    if not isinstance(elementwise, Elementwise):
        return None
    return elementwise if all(_keeps_order(indexing_map) for _, indexing_map in elementwise.reads) else None


def _keeps_order(indexing_map: ir.AffineMap) -> bool:
    """Whether the dimensions that an operand is read along are in the order of the result's."""
    read = [each.position for each in indexing_map.results if isinstance(each, ir.AffineDimExpr)]
    return read == sorted(read)


def _read_in_place(elementwise: Elementwise) -> Iterator[ir.Value]:
    """What an operation reads one element of for each that it computes."""
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(elementwise.result.type).rank)
    return (value for value, indexing_map in elementwise.reads if indexing_map == identity)
