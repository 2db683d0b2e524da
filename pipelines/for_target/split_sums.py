"""Write long sums as sums of sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.bodies import inline_block, inline_operations
from iree.winograd.passes.build.generic import Body, Read, build_elementwise, build_generic
from iree.winograd.passes.build.groups import split
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.groups import reassociation_of
from iree.winograd.passes.match.navigation import defining_operation, readers, transforms, walk
from iree.winograd.passes.match.normalizations.reduced import adds, adds_computed
from iree.winograd.passes.match.reductions import generic_maps, is_reduction, reduced_loops, row_length
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.backend import Backend
from ..backends.module_backend import supported_backend


@register_pass("winograd-split-sums")
class SplitSums:
    """Write long sums as sums of sums.

    IREE's code for CPUs adds all pixels of a channel one after the other, in instance and group normalization
    for example. The error of such a sum grows with the number of elements `n`, that of `sqrt(n)` sums of
    `sqrt(n)` each with `2 sqrt(n)` (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
    4.2). These sums are also what threads share, and what fills vectors where a group has few channels. On
    GPUs one workgroup has all of a sum, however few there are: there sums of a few neighbours are asked for,
    which as many workgroups share, and sums of these in turn. Arithmetic that makes the elements of others,
    such as squares of differences, becomes part of the first sum: IREE would write what something else reads
    as well to memory. Rewritten are sums in f32 that are too long for the target (`Backend.first_sums`), on
    CPUs also those of what they compute of each element, as norms do. Norms of images of any size are sums of
    sums of rows, whose lengths are the sides of the image.
    Means of as many elements as are known only at run time, as in group normalization of images of any size,
    are of sums in f64 on CPUs instead, of each channel before those of a group. So are sums along one side
    alone, as of signals of any length.

        %s = linalg.generic {iterator_types = [parallel, reduction, reduction, parallel]}
               ins(%x : tensor<1x112x112x64xf32>) outs(%zeros : tensor<1x64xf32>) { arith.addf }
      becomes
        %r = linalg.generic {iterator_types = [parallel, parallel, reduction, parallel]}
               ins(%x : tensor<1x112x112x64xf32>) outs(%zeros_of_rows : tensor<1x112x64xf32>) { arith.addf }
        %s = linalg.generic {iterator_types = [parallel, reduction, parallel]}
               ins(%r : tensor<1x112x64xf32>) outs(%zeros : tensor<1x64xf32>) { arith.addf }

        %s = linalg.generic {iterator_types = [parallel, reduction]}
               ins(%x : tensor<4x?xf32>) outs(%zeros : tensor<4xf32>) { arith.addf }
        %m = linalg.generic ins(%s) { arith.divf }
      becomes
        %w = linalg.generic {iterator_types = [parallel, reduction]}
               ins(%x : tensor<4x?xf32>) outs(%wide_zeros : tensor<4xf64>) { arith.extf, arith.addf }
        %s = linalg.generic ins(%w) { arith.truncf }
        %m = linalg.generic ins(%s) { arith.divf }

    A program without convolutions that were taken stays as it is.
    """

    def run(self, module: ir.Operation) -> None:
        if not transforms(module, ops.OutputTransformOp) or (backend := supported_backend(module)) is None:
            return
        sums = [each for each in walk(module) if is_reduction(each)]
        rewrite_each("sum", sums, partial(_split, backend))


@dataclass(frozen=True)
class _Sum:
    """Of all elements of a tensor, or along some of its dimensions."""

    source: Read
    """Each element is read once."""
    summed: tuple[int, ...]
    """Loops."""
    init: Read
    body: ir.Block
    """Adds what it computes of an element to the sum before."""

    @property
    def extents(self) -> dict[int, int]:
        """Of each loop, in the order of the dimensions of the source."""
        value, map_ = self.source
        loops = [ir.AffineDimExpr(each).position for each in map_.results]
        return dict(zip(loops, ir.RankedTensorType(value.type).shape, strict=True))


def _split(backend: Backend, operation: ir.Operation) -> None:
    whole = _match(operation)
    if whole is None or not (backend.iree_code.vectorizes_loops or adds(whole.body)):
        return
    extents = whole.extents
    if any(is_dynamic(extents[loop]) for loop in whole.summed):
        if backend.iree_code.vectorizes_loops:
            _split_unknown(operation, whole)
        return
    length = prod(extents[loop] for loop in whole.summed)
    kept = [extent for loop, extent in extents.items() if loop not in whole.summed]
    results = prod(extent for extent in kept if not is_dynamic(extent))
    summed = [loop for loop in extents if loop in whole.summed]
    # What lies side by side is left for last: elements of rows fill vectors then, and pixels are added where
    # their channels do.
    is_row = row_length(operation) is not None
    along = max(summed if is_row else reversed(summed), key=lambda loop: extents[loop])
    part = backend.first_sums(extents[along], length, results, of_rows=is_row)
    if part == 1:
        return
    with operation.location, ir.InsertionPoint(operation):
        total = _sum_of_sums(whole, along, part, is_row, pixels_first=not backend.iree_code.vectorizes_loops)
    operation.results[0].replace_all_uses_with(total)
    erase_if_unused([operation])
    _split(backend, total.owner.operation)


def _split_unknown(operation: ir.Operation, whole: _Sum) -> None:
    with operation.location, ir.InsertionPoint(operation):
        total = _sum_of_unknown(whole, is_mean=_is_divided(operation.results[0]))
    if total is not None:
        operation.results[0].replace_all_uses_with(total)
        erase_if_unused([operation])


def _sum_of_unknown(whole: _Sum, *, is_mean: bool) -> ir.Value | None:
    """Build a sum of as many elements as come; None for that of a row or column of an image: it is short."""
    sides = None if is_mean else _sum_of_sides(_uncollapsed(whole))
    if sides is not None:
        return sides
    return _wide_sum(whole) if is_mean or not _keeps_a_side(whole) else None


def _keeps_a_side(whole: _Sum) -> bool:
    """Whether there is a sum for each row or column of an image of unknown size."""
    _, *sides = whole.extents.items()
    return any(is_dynamic(extent) for loop, extent in sides if loop not in whole.summed)


def _match(operation: ir.Operation) -> _Sum | None:
    """The sum that the reduction `operation` is; None for others."""
    if len(operation.operands) != 2 or len(operation.results) != 1:
        return None
    source, init = operation.operands
    types = [value.type for value in (source, init)]
    if not all(
        isinstance(each, ir.RankedTensorType) and isinstance(each.element_type, ir.F32Type) for each in types
    ):
        return None
    source_map, result_map = generic_maps(operation)
    body = operation.regions[0].blocks[0]
    if not source_map.is_permutation or not is_zero(init) or not adds_computed(body):
        return None
    return _Sum((source, source_map), tuple(reduced_loops(operation)), (init, result_map), body)


def _is_divided(sums: ir.Value) -> bool:
    """Whether something is divided by a number of elements: a mean."""
    bodies = (
        each.regions[0].blocks[0] for each in readers(sums) if each.name == linalg.GenericOp.OPERATION_NAME
    )
    return any(
        view.operation.name == arith.DivFOp.OPERATION_NAME for body in bodies for view in body.operations
    )


def _wide_sum(whole: _Sum) -> ir.Value:
    """Build the sum in f64, rounded once: of each channel of a group, then of these."""
    (init, result_map), wide = whole.init, ir.F64Type.get()
    narrow, zeros = init.type.element_type, zero_filled(shape_of(init), wide)
    channels = [loop for loop, extent in _summed_lengths(whole).items() if not is_dynamic(extent)]
    if channels:
        sums, numbers = _wide_sums_of_channels(whole, channels)
        results = [_renumbered(each, numbers) for each in result_map.results]
        of_sums = ir.AffineMap.get(len(numbers), 0, results)
        read = sums, ir.AffineMap.get_identity(len(numbers))
        summed = [numbers[loop] for loop in channels]
        total = _sum([read], (zeros, of_sums), summed, lambda each: arith.addf(*each))
    else:
        total = _sum_of_widened(whole, (zeros, result_map), whole.summed)
    identity = ir.AffineMap.get_identity(init.type.rank)
    rounded = tensor.empty(shape_of(init), narrow)
    return build_elementwise([(total, identity)], rounded, lambda each: arith.truncf(narrow, each[0]))


def _wide_sums_of_channels(whole: _Sum, channels: Sequence[int]) -> tuple[ir.Value, dict[int, int]]:
    """Build the sums of each channel by itself, and number the loops that are left.

    Channels lie side by side in memory: IREE adds elements of a group one after the other.
    """
    sizes = dict(zip(whole.extents, shape_of(whole.source[0]), strict=True))
    kept = [loop for loop in sizes if loop not in whole.summed or loop in channels]
    zeros = zero_filled([sizes[loop] for loop in kept], ir.F64Type.get())
    kept_map = ir.AffineMap.get(whole.source[1].n_dims, 0, [ir.AffineExpr.get_dim(loop) for loop in kept])
    summed = [loop for loop in whole.summed if loop not in channels]
    sums = _sum_of_widened(whole, (zeros, kept_map), summed)
    return sums, {loop: number for number, loop in enumerate(kept)}


def _sum_of_widened(whole: _Sum, init: Read, summed: Sequence[int]) -> ir.Value:
    """Build the sum along some loops of what is summed, in the type of `init`."""

    def add_element(arguments: list[ir.Value]) -> ir.Value:
        element, before = arguments
        return arith.addf(arith.extf(before.type, _summand(whole.body, element)), before)

    return _sum([whole.source], init, summed, add_element)


def _uncollapsed(whole: _Sum) -> _Sum:
    """The same sum of what has dimensions merged to be its source, if they are summed: rows and columns."""
    value, map_ = whole.source
    operation = defining_operation(value)
    if operation is None or operation.name != tensor.CollapseShapeOp.OPERATION_NAME:
        return whole
    results: list[ir.AffineExpr] = []
    summed, loops = list(whole.summed), map_.n_dims
    for result, group in zip(map_.results, reassociation_of(operation), strict=True):
        if len(group) > 1 and result.position not in whole.summed:
            return whole
        added = list(range(loops, loops + len(group) - 1))
        results += [result, *map(ir.AffineExpr.get_dim, added)]
        summed += added
        loops += len(added)
    init, result_map = whole.init
    source = operation.operands[0], ir.AffineMap.get(loops, 0, results)
    return _Sum(source, tuple(summed), (init, ir.AffineMap.get(loops, 0, result_map.results)), whole.body)


def _sum_of_sides(whole: _Sum) -> ir.Value | None:
    """Build the sums along each loop, those of unknown lengths first, and rows before their elements.

    None where fewer than two lengths are unknown, of which each is taken for a side of an image.
    """
    extents = whole.extents
    unknown = [loop for loop in extents if loop in whole.summed and is_dynamic(extents[loop])]
    if len(unknown) < 2:
        return None
    total: ir.Value | None = None
    sides: _Sum | None = whole
    while sides is not None and len(lengths := _summed_lengths(sides)) > 1:
        # The first of an image without a batch of unknown size.
        along = unknown[-2] if total is None else next(iter(lengths))
        total = _sum_of_sums(sides, along, sides.extents[along], is_row=False, pixels_first=False)
        sides = _match(total.owner.operation)
    return total


def _summed_lengths(whole: _Sum) -> dict[int, int]:
    """The extents of loops over several elements."""
    return {loop: extent for loop, extent in whole.extents.items() if loop in whole.summed and extent != 1}


def _sum_of_sums(whole: _Sum, along: int, part: int, is_row: bool, *, pixels_first: bool) -> ir.Value:
    """Build the sums along a loop, and the sum of these.

    Where the loop is longer than `part`, they are those of so many neighbours, or for rows of elements that
    lie so many apart. Pixels that are innermost, but no rows, are those of an image that was transposed:
    with `pixels_first` their sums come before channels, as they do in memory, behind images of the batch.
    """
    source, source_map = whole.source
    reads = parts = _reads(whole.source)
    loops = list(zip(whole.extents, shape_of(source), strict=True))
    first, outer = along, source_map.n_dims
    if part < whole.extents[along]:
        parts = [_in_parts(each, along, part) for each in reads]
        position = list(whole.extents).index(along)
        loops[position] = along, part
        is_transposed = not is_row and position == len(loops) - 1 > 0
        place = 1 if pixels_first and is_transposed else position
        loops.insert(place, (outer, whole.extents[along] // part))
        first = outer if is_row else along
    kept = {loop: size for loop, size in loops if loop != first}

    def add_element(arguments: list[ir.Value]) -> ir.Value:
        *elements, before = arguments
        element = _element(whole.source, dict(zip(reads, elements, strict=True)))
        return arith.addf(_summand(whole.body, element), before)

    # IREE has neighbouring threads take neighbours along the last loop that isn't reduced.
    order = [*kept, first] if pixels_first else range(len(loops))
    places = {loop: place for place, loop in enumerate(order)}
    zeros = zero_filled(list(kept.values()), whole.init[0].type.element_type)
    sums_map = ir.AffineMap.get(len(loops), 0, [ir.AffineExpr.get_dim(places[loop]) for loop in kept])
    sums = _sum([_reordered(each, places) for each in parts], (zeros, sums_map), [places[first]], add_element)
    numbers = {loop: number for number, loop in enumerate(kept)}
    results = [_renumbered(each, numbers) for each in whole.init[1].results]
    init = whole.init[0], ir.AffineMap.get(len(kept), 0, results)
    summed = [numbers[loop] for loop in kept if loop in (*whole.summed, outer)]
    read = sums, ir.AffineMap.get_identity(len(kept))
    return _sum([read], init, summed, lambda each: arith.addf(*each))


def _summand(body: ir.Block, element: ir.Value) -> ir.Value:
    """Build what the body of a sum computes of an element."""
    source, before = body.arguments
    *computing, _ = (view.operation for view in body.operations)
    operands = list(computing[-1].operands)
    # The addition is what ends the computation of its operands.
    return inline_operations(computing, {source: element, before: before})[1 - operands.index(before)]


def _sum(reads: list[Read], init: Read, summed: Sequence[int], body: Body) -> ir.Value:
    kinds = ["reduction" if loop in summed else "parallel" for loop in range(init[1].n_dims)]
    return build_generic(reads, init, kinds, body)


def _reordered(read: Read, places: Mapping[int, int]) -> Read:
    """`read` by loops in another order."""
    value, map_ = read
    return value, ir.AffineMap.get(map_.n_dims, 0, [_renumbered(each, places) for each in map_.results])


def _renumbered(result: ir.AffineExpr, numbers: Mapping[int, int]) -> ir.AffineExpr:
    """A loop by its new number; a constant, the index in a dimension of one element, stays."""
    is_loop = isinstance(result, ir.AffineDimExpr)
    return ir.AffineExpr.get_dim(numbers[result.position]) if is_loop else result


def _in_parts(read: Read, loop: int, part: int) -> Read:
    """Build what `read` reads, with a last loop over the parts of `loop`, which goes through one of them."""
    value, map_ = read
    results = list(map_.results)
    dimension = ir.AffineExpr.get_dim(loop)
    if dimension in results:
        position = results.index(dimension)
        value = split(value, position, (value.type.shape[position] // part, part))
        results.insert(position, ir.AffineExpr.get_dim(map_.n_dims))
    return value, ir.AffineMap.get(map_.n_dims + 1, 0, results)


def _reads(read: Read) -> list[Read]:
    """What is read where `read` is computed of it."""
    computed = _computed(read[0])
    if computed is None:
        return [read]
    return list(dict.fromkeys(leaf for each in computed.reads for leaf in _reads(_through(each, read))))


def _element(read: Read, elements: dict[Read, ir.Value]) -> ir.Value:
    """Build the element of `read` of `elements`, those of `_reads`, which what is computed is added to."""
    if read not in elements:
        computed = _computed(read[0])
        assert computed is not None, "what isn't computed is among the elements"
        inputs = [_element(_through(each, read), elements) for each in computed.reads]
        # The body doesn't use its last argument.
        (elements[read],) = inline_block(computed.body, [*inputs, inputs[0]])
    return elements[read]


def _through(read: Read, result: Read) -> Read:
    """What `read` reads of its value for an element of the result that `result` reads."""
    map_ = result[1]
    return read[0], ir.AffineMap.get(map_.n_dims, 0, [each.compose(map_) for each in read[1].results])


def _computed(value: ir.Value) -> Elementwise | None:
    """The arithmetic that makes the elements of `value` of others."""
    operation = defining_operation(value)
    elementwise = None if operation is None else match_elementwise(operation)
    if not isinstance(elementwise, Elementwise) or not elementwise.reads:
        return None
    if not elementwise.is_pure or elementwise.reads_init or captures(elementwise.body):
        return None
    if any(view.operation.name.startswith("math.") for view in elementwise.body.operations):
        return None
    is_plain = all(
        isinstance(each, ir.AffineDimExpr | ir.AffineConstantExpr)
        for _, map_ in elementwise.reads
        for each in map_.results
    )
    return elementwise if is_plain else None
