"""Functions of elements."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.epilogues.channel_scale import is_channel_scale
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.layouts.image_layout import to_channels_first
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.conversions import widened_source
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.convolution_signature import image_tensor, read_tensor
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.work import Size
from iree.winograd.pipelines.problems.tensor_operations import (
    ChannelsFirst,
    ElementwiseFirst,
    SpreadElementwise,
)

from .dispatch import TensorDispatch
from .transpositions import misfit_of_first


def elementwise(operation: SpreadElementwise, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.elementwise import ElementwiseKernel, SpreadOperand

    # The first operand is one that has all sizes.
    places = sorted(range(len(operation.operands)), key=lambda each: not _is_whole(operation, each))
    operands = [operation.operands[each] for each in places]
    spread = tuple(
        SpreadOperand(place, each.indexing_map) for place, each in zip(places, operands, strict=True)
    )
    result = operation.elementwise.result
    *sizes, channels = ir.RankedTensorType(result.type).shape
    function = VectorFunction.of(operation.elementwise.body)
    known = tuple(None if is_dynamic(each) else each for each in sizes[1:])
    kernel = ElementwiseKernel(known, channels, spread, function, target)
    values = tuple(map(_read_value, operands))
    whole = values[0]
    extents = {Size("output", dimension): size_of(whole, 1 + dimension) for dimension in range(len(known))}
    read = tuple(
        read_tensor(value.type, each.indexing_map).dynamic
        for value, each in zip(values, operands, strict=True)
    )
    written = image_tensor(result.type, "output", channels_first=False).dynamic
    element = str(ir.RankedTensorType(result.type).element_type)
    return TensorDispatch(
        kernel, values, (*sizes, channels), extents=extents, dynamic=(*read, written), element=element
    )


def elementwise_first(operation: ElementwiseFirst, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.elementwise import ElementwiseKernel
    from iree.winograd.pipelines.cpu.kernels.elementwise_first import ElementwiseFirstKernel
    from iree.winograd.pipelines.cpu.kernels.image_transposition import ImageTransposition

    type_ = ir.RankedTensorType(operation.computed.elementwise.result.type)
    dispatch = elementwise(operation.computed, target)
    assert isinstance(dispatch.kernel, ElementwiseKernel)
    transposition = ImageTransposition.of(type_, target, makes_first=True)
    kernel = ElementwiseFirstKernel(dispatch.kernel, transposition)
    sizes = tuple(type_.shape[dimension] for dimension in to_channels_first(type_.rank))
    return replace(dispatch, kernel=kernel, sizes=sizes)


def misfit_of_elementwise(operation: SpreadElementwise, target: CpuTarget) -> Reason | None:
    type_ = ir.RankedTensorType(operation.elementwise.result.type)
    *sizes, channels = type_.shape
    if is_dynamic(channels):
        return "IREE computes elementwise as fast as memory what has channels first"
    if half_type(operation.elementwise.result) is not None:
        if not _stores_half(operation, target):
            return "it is no function, nor a scale of channels, that is rounded to half precision"
    elif not any(map(is_dynamic, sizes[1:])):
        return "IREE computes elementwise as fast as memory what has known sizes"
    if not any(_is_whole(operation, each) for each in range(len(operation.operands))):
        return f"no operand has all sizes of {type_}"
    for each in operation.operands:
        definition = defining_operation(_read_value(each))
        if definition is not None and definition.name.startswith("linalg."):
            return f"IREE computes it with the {definition.name} before it"
    return None


def misfit_of_elementwise_first(operation: ElementwiseFirst, target: CpuTarget) -> Reason | None:
    computed = operation.computed
    places = range(len(computed.operands))
    whole = [place for place in places if _is_whole(computed, place)]
    if not whole:
        return "no operand has all sizes of the result"
    if any(_reads_pixels(computed.operands[place]) for place in places if place not in whole):
        return "pixels that are numbered are of no row or column"
    return misfit_of_first(ChannelsFirst(computed.elementwise.result, is_computed=True), target)


def _read_value(operand: EpilogueOperand) -> ir.Value:
    """What is read from memory: an operand before it was widened, which loads do."""
    return widened_source(operand.value) or operand.value


def _reads_pixels(operand: EpilogueOperand) -> bool:
    """Whether what it reads depends on where a pixel is."""
    pixels = range(1, operand.indexing_map.n_dims - 1)
    read = (each.position for each in operand.indexing_map.results if isinstance(each, ir.AffineDimExpr))
    return any(position in pixels for position in read)


def _stores_half(operation: SpreadElementwise, target: CpuTarget) -> bool:
    """Whether functions are computed, or channels scaled, of whole vectors that are rounded when stored."""
    if not target.stores_half:
        return False
    channels = ir.RankedTensorType(operation.elementwise.result.type).shape[-1]
    if channels % target.vector_width:
        return False
    names = [view.operation.name for view in operation.elementwise.body.operations]
    return is_channel_scale(operation.elementwise.operation) or any(
        name.startswith("math.") for name in names
    )


def _is_whole(operation: SpreadElementwise, place: int) -> bool:
    """Whether an operand has an element for each one of the result, in the same order."""
    rank = ir.RankedTensorType(operation.elementwise.result.type).rank
    return bool(operation.operands[place].indexing_map == ir.AffineMap.get_identity(rank))
