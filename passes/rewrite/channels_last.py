"""Channels-last versions of single operations.

Each rewrite returns a value with the elements of the operation's result in channels-last layout, or None when
it leaves the operation alone. The operation itself stays until all are rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise, build_generic
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.build.slices import Size, extracted, inserted, padded
from iree.winograd.passes.build.tensors import filled, size_of
from iree.winograd.passes.build.transpositions import inverse_permutation, permuted_map, transposed
from iree.winograd.passes.infrastructure.algorithm import copy_annotations
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.elementwise import Elementwise, is_arithmetic, match_elementwise
from iree.winograd.passes.match.layouts.image_layout import to_channels_last
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import is_splat, is_zero

Versions = dict[ir.Value, ir.Value]
"""From a value with channels in its second dimension to one with the same elements and channels last."""

_IMPORT = "hal.tensor.import"

_POOLING = {
    "linalg.pooling_ncw_max": linalg.PoolingNwcMaxOp,
    "linalg.pooling_ncw_sum": linalg.PoolingNwcSumOp,
    "linalg.pooling_nchw_max": linalg.PoolingNhwcMaxOp,
    "linalg.pooling_nchw_sum": linalg.PoolingNhwcSumOp,
}
_CONVOLUTIONS = {
    ("n0c", "0cf"): linalg.Conv1DNwcWcfOp,
    ("n01c", "01cf"): linalg.Conv2DNhwcHwcfOp,
    ("n012c", "012cf"): linalg.Conv3DNdhwcDhwcfOp,
    ("n0g", "0g"): linalg.DepthwiseConv1DNwcWcOp,
    ("n01g", "01g"): linalg.DepthwiseConv2DNhwcHwcOp,
    ("n012g", "012g"): linalg.DepthwiseConv3DNdhwcDhwcOp,
}

_QUANTIZED = {
    "linalg.conv_2d_nchw_fchw": linalg.Conv2DNhwcHwcfOp,
    "linalg.conv_2d_nchw_fchw_q": linalg.Conv2DNhwcHwcfQOp,
}
"""Convolutions of quantized images, which stay convolutions; the second one subtracts zero points."""


def rewrite_linalg(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Rewrite a convolution, pooling, elementwise operation or other reduction, or what a generic reads."""
    if not operation.name.startswith("linalg."):
        return None
    if operation.name in _POOLING:
        return _rewrite_pooling(operation, versions)
    if operation.name in _QUANTIZED and _is_quantized(operation):
        return _rewrite_quantized(operation, versions)
    if is_convolution(operation):
        return _rewrite_convolution(operation, versions)
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, Elementwise) and _spreads_layout(elementwise, versions):
        with ir.InsertionPoint(operation):
            return _build_elementwise(elementwise, versions)
    if operation.name != "linalg.generic":
        return None
    if _reduces_windows(operation, versions):
        return _rewrite_reduction(operation, versions)
    _read_versions(operation, versions)
    return None


def rewrite_pad(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    source = versions.get(operation.operands[0])
    (element,) = operation.regions[0].blocks[0].operations[-1].operation.operands
    if source is None or len(operation.operands) != 1 or not _is_outside(element, operation):
        return None
    order = to_channels_last(source.type.rank)
    low, high = (list(operation.attributes[name]) for name in ("static_low", "static_high"))
    result_type = _permuted_type(operation.results[0].type)
    with ir.InsertionPoint(operation):
        return padded(source, result_type.shape, [low[d] for d in order], [high[d] for d in order], element)


def rewrite_concat(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Concatenate versions where there is one; what else there is must take no transposition."""
    if not any(operand in versions for operand in operation.operands):
        return None
    result_type = _permuted_type(operation.results[0].type)
    dimension = to_channels_last(result_type.rank).index(operation.attributes["dim"].value)
    with ir.InsertionPoint(operation):
        sources = [
            versions[operand] if operand in versions else _rebuilt_version(operand, versions)
            for operand in operation.operands
        ]
        if any(source is None for source in sources):
            return None
        return tensor.concat(result_type, dimension, sources)


def rewrite_extract_slice(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    (source, *dynamic), version = operation.operands, versions.get(operation.operands[0])
    if version is None or not _permutes_slice(operation, source, dynamic):
        return None
    with ir.InsertionPoint(operation):
        return extracted(version, *_permuted_slice(operation, dynamic))


def rewrite_insert_slice(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    (part, whole, *dynamic), version = operation.operands, versions.get(operation.operands[0])
    if version is None or not _permutes_slice(operation, part, dynamic) or _is_slice_of(part, whole):
        return None
    with ir.InsertionPoint(operation):
        return inserted(version, _version(whole, versions), *_permuted_slice(operation, dynamic))


def _is_slice_of(part: ir.Value, whole: ir.Value) -> bool:
    """IREE 3.13 moves a part of an argument within it, over what it still has to read where these overlap."""
    definition = defining_operation(part)
    while definition is not None and definition.name == "tensor.extract_slice":
        part = definition.operands[0]
        definition = defining_operation(part)
    return bool(part == whole)


def _permutes_slice(operation: ir.Operation, source: ir.Value, dynamic: Sequence[ir.Value]) -> bool:
    """Whether a slice drops no dimension, and begins where it is known, at known distances."""
    sizes = sum(map(is_dynamic, operation.attributes["static_sizes"]))
    return len(dynamic) == sizes and operation.results[0].type.rank == source.type.rank


def read_transposition(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    """Read a transposition's operand in the layout that it has, or remember it as the result's version."""
    source, result = operation.operands[0], operation.results[0]
    moved = list(operation.attributes["permutation"])
    if len(moved) < 3:
        return None
    back = inverse_permutation(to_channels_last(len(moved)))
    if source in versions:
        with ir.InsertionPoint(operation):
            result.replace_all_uses_with(transposed(versions[source], [back[d] for d in moved]))
        operation.erase()
    elif moved == back:
        versions[result] = source
    elif moved == to_channels_last(len(moved)):
        with ir.InsertionPoint(operation):
            version = _rebuilt_version(source, versions)
        result.replace_all_uses_with(_spread_version(source, versions) if version is None else version)
        operation.erase()
    return None


def _rewrite_pooling(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    source = versions.get(operation.operands[0])
    if source is None:
        return None
    with ir.InsertionPoint(operation):
        return build_windowed(
            _POOLING[operation.name],
            (source, operation.operands[1]),
            _version(operation.operands[2], versions),
            _window(operation, "strides"),
            _window(operation, "dilations"),
        )


def _rewrite_convolution(operation: ir.Operation, versions: Versions) -> ir.Value | None:
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or convolution.is_channels_last:
        return None
    input_layout, filter_layout, output_layout = convolution.channels_last_layouts
    channels_last = _CONVOLUTIONS.get((input_layout, filter_layout))
    order = to_channels_last(convolution.spatial_rank + 2)
    former_layouts = (convolution.input_layout, convolution.output_layout)
    if channels_last is None or former_layouts != tuple(
        "".join(layout[position] for position in inverse_permutation(order))
        for layout in (input_layout, output_layout)
    ):
        return None
    source = _spread_version(convolution.input, versions)
    with ir.InsertionPoint(operation):
        rewritten = build_windowed(
            channels_last,
            (source, _filter_version(convolution, filter_layout)),
            _version(convolution.init, versions),
            convolution.strides,
            convolution.dilations,
        )
    copy_annotations(operation, rewritten.owner)
    return rewritten


def _is_quantized(operation: ir.Operation) -> bool:
    """Whether a convolution is of integers that are summed in wider ones."""
    image, filter_, *_, init = operation.operands
    types = [each.type for each in (image, filter_, init)]
    if not all(isinstance(each, ir.RankedTensorType) for each in types):
        return False
    if not all(isinstance(each.element_type, ir.IntegerType) for each in types):
        return False
    *factors, total = (ir.IntegerType(each.element_type).width for each in types)
    return all(each < total for each in factors)


def _rewrite_quantized(operation: ir.Operation, versions: Versions) -> ir.Value:
    image, filter_, *zero_points, init = operation.operands
    source = _spread_version(image, versions)
    with ir.InsertionPoint(operation):
        return build_windowed(
            _QUANTIZED[operation.name],
            (source, transposed(filter_, [2, 3, 1, 0]), *zero_points),
            _version(init, versions),
            _window(operation, "strides"),
            _window(operation, "dilations"),
        )


def _filter_version(convolution: Convolution, layout: str) -> ir.Value:
    """The filter with output channels last; `winograd-fold-filter` transposes a constant."""
    return transposed(convolution.filter, [convolution.filter_layout.index(letter) for letter in layout])


def _spreads_layout(elementwise: Elementwise, versions: Versions) -> bool:
    """Whether an operand of the result's shape is channels last."""
    if not elementwise.is_pure or elementwise.result.type.rank < 3:
        return False
    return any(
        value in versions and indexing_map == elementwise.indexing_maps[-1]
        for value, indexing_map in elementwise.reads
    )


def _build_elementwise(elementwise: Elementwise, versions: Versions) -> ir.Value:
    rank = ir.RankedTensorType(elementwise.result.type).rank
    order, identity = to_channels_last(rank), ir.AffineMap.get_identity(rank)
    reads = []
    for value, indexing_map in elementwise.reads:
        if value.type.shape == elementwise.result.type.shape and indexing_map == identity:
            _spread_version(value, versions)
        read = _permuted_results(indexing_map) if value in versions else indexing_map
        reads.append((versions.get(value, value), permuted_map(read, order)))
    if elementwise.reads_init:
        init = _version(elementwise.inputs[-1], versions)
    else:
        init = _empty_version(elementwise.inputs[-1])
    return build_elementwise(reads, init, lambda elements: inline_block(elementwise.body, elements)[0])


def _reduces_windows(operation: ir.Operation, versions: Versions) -> bool:
    """Whether images and channels of the result are those of a channels-last operand, as in pooling.

    All loops but the result's dimensions are reduced. In three dimensions pooling has no other name.
    """
    maps = [ir.AffineMapAttr(attribute).value for attribute in operation.attributes["indexing_maps"]]
    if len(operation.results) != 1 or not is_arithmetic(operation.regions[0].blocks[0]):
        return False
    rank, loops = ir.RankedTensorType(operation.results[0].type).rank, maps[-1].n_dims
    if not 3 <= rank < loops or maps[-1] != _first_loops(rank, loops):
        return False
    outer = list(maps[-1].results)[:2]
    return any(
        value in versions and list(indexing_map.results)[:2] == outer
        for value, indexing_map in zip(list(operation.operands)[:-1], maps[:-1], strict=True)
    )


def _rewrite_reduction(operation: ir.Operation, versions: Versions) -> ir.Value:
    maps = [ir.AffineMapAttr(attribute).value for attribute in operation.attributes["indexing_maps"]]
    rank, loops = ir.RankedTensorType(operation.results[0].type).rank, maps[-1].n_dims
    order = [*to_channels_last(rank), *range(rank, loops)]
    *inputs, init = operation.operands
    reads = []
    for value, indexing_map in zip(inputs, maps[:-1], strict=True):
        read = _permuted_results(indexing_map) if value in versions else indexing_map
        reads.append((versions.get(value, value), permuted_map(read, order)))
    iterators = ["parallel"] * rank + ["reduction"] * (loops - rank)
    body = operation.regions[0].blocks[0]
    with ir.InsertionPoint(operation):
        return build_generic(
            reads,
            (_version(init, versions), _first_loops(rank, loops)),
            iterators,
            lambda elements: inline_block(body, elements)[0],
        )


def _first_loops(count: int, loops: int) -> ir.AffineMap:
    """Of so many loops the first ones."""
    return ir.AffineMap.get(loops, 0, [ir.AffineExpr.get_dim(position) for position in range(count)])


def _read_versions(operation: ir.Operation, versions: Versions) -> None:
    """Make a generic read the channels-last versions of its inputs, by other maps; its loops stay."""
    maps = [ir.AffineMapAttr(attribute).value for attribute in operation.attributes["indexing_maps"]]
    input_count = len(operation.operands) - len(operation.results)
    for index in range(input_count):
        version = versions.get(operation.operands[index])
        if version is not None:
            operation.operands[index] = version
            maps[index] = _permuted_results(maps[index])
    operation.attributes["indexing_maps"] = ir.ArrayAttr.get(
        [ir.AffineMapAttr.get(indexing_map) for indexing_map in maps]
    )


def _version(value: ir.Value, versions: Versions) -> ir.Value:
    """The channels-last version of an initial value, rebuilt in place where that takes no transposition."""
    if value in versions:
        return versions[value]
    rebuilt = _rebuilt_version(value, versions)
    return transposed(value, to_channels_last(value.type.rank)) if rebuilt is None else rebuilt


def _rebuilt_version(value: ir.Value, versions: Versions) -> ir.Value | None:
    """The channels-last version of what is filled, empty, broadcast or a splat constant, built again."""
    definition = defining_operation(value)
    if definition is not None and is_splat(definition):
        former, version_type = definition.attributes["value"], _permuted_type(value.type)
        splat = ir.DenseElementsAttr.get_splat(version_type, former.get_splat_value())
        return arith.constant(version_type, splat)
    if definition is not None and definition.name == "linalg.fill":
        sizes = [size_of(value, d) for d in to_channels_last(value.type.rank)]
        return filled(definition.operands[0], sizes, value.type.element_type)
    if definition is not None and definition.name == "tensor.empty":
        return _empty_version(value)
    elementwise = None if definition is None else match_elementwise(definition)
    if isinstance(elementwise, Elementwise) and elementwise.is_pure and _only_broadcasts(elementwise):
        return _build_elementwise(elementwise, versions)
    return None


def _only_broadcasts(elementwise: Elementwise) -> bool:
    return not elementwise.reads_init and all(
        value.type.rank < elementwise.result.type.rank for value in elementwise.inputs[:-1]
    )


def _spread_version(value: ir.Value, versions: Versions) -> ir.Value:
    """The channels-last version of `value`, transposed where it is defined, once for all that need it.

    Padding is transposed before it is added, so that it stays next to what reads it.
    """
    if value in versions:
        return versions[value]
    definition = defining_operation(value)
    if definition is not None and _adds_padding(definition):
        _spread_version(definition.operands[0], versions)
        rewrite = rewrite_pad if definition.name == "tensor.pad" else rewrite_insert_slice
        padded = rewrite(definition, versions)
        if padded is not None:
            versions[value] = padded
            return padded
    with _point_after(value):
        versions[value] = transposed(value, to_channels_last(value.type.rank))
    return versions[value]


def _point_after(value: ir.Value) -> ir.InsertionPoint:
    """Behind where `value` is defined, and behind all arguments if it is one.

    IREE begins to execute what comes before the import of an argument on its own.
    """
    definition = defining_operation(value)
    if definition is None:
        return ir.InsertionPoint.at_block_begin(value.owner)
    if definition.name != _IMPORT:
        return ir.InsertionPoint.after(definition)
    users = {use.owner.operation for use in value.uses}
    last = definition
    for operation in (view.operation for view in definition.block.operations):
        if operation in users:
            break
        if operation.name == _IMPORT:
            last = operation
    return ir.InsertionPoint.after(last)


def _adds_padding(operation: ir.Operation) -> bool:
    """Whether `operation` pads, or inserts into zeros, a tensor of its result's rank."""
    if operation.name == "tensor.pad":
        return len(operation.operands) == 1
    return (
        operation.name == "tensor.insert_slice"
        and is_zero(operation.operands[1])
        and operation.operands[0].type.rank == operation.results[0].type.rank
    )


def _empty_version(value: ir.Value) -> ir.Value:
    sizes = [size_of(value, dimension) for dimension in to_channels_last(value.type.rank)]
    return tensor.empty(sizes, value.type.element_type)


def _permuted_type(former: ir.Type) -> ir.RankedTensorType:
    shape = ir.RankedTensorType(former).shape
    return ir.RankedTensorType.get([shape[d] for d in to_channels_last(len(shape))], former.element_type)


def _permuted_results(indexing_map: ir.AffineMap) -> ir.AffineMap:
    results = list(indexing_map.results)
    return ir.AffineMap.get(indexing_map.n_dims, 0, [results[d] for d in to_channels_last(len(results))])


def _permuted_slice(
    operation: ir.Operation, dynamic: Sequence[ir.Value]
) -> tuple[list[int], list[Size], list[int]]:
    """The offsets, sizes and strides of a slice of a channels-last tensor; `dynamic` are its open sizes."""
    offsets, sizes, strides = (
        list(operation.attributes[name]) for name in ("static_offsets", "static_sizes", "static_strides")
    )
    order, values = to_channels_last(len(offsets)), iter(dynamic)
    stated = [next(values) if is_dynamic(size) else size for size in sizes]
    return [offsets[d] for d in order], [stated[d] for d in order], [strides[d] for d in order]


def _window(operation: ir.Operation, name: str) -> Sequence[int]:
    """Strides or dilations, which are 1 where none are given."""
    if name not in operation.attributes:
        return [1] * (operation.results[0].type.rank - 2)
    return list(ir.DenseIntElementsAttr(operation.attributes[name]))


def _is_outside(value: ir.Value, operation: ir.Operation) -> bool:
    """Whether `value` is defined outside the region of `operation`."""
    definition = defining_operation(value)
    block = value.owner if definition is None else definition.block
    return bool(block != operation.regions[0].blocks[0])
