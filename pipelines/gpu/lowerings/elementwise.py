"""From elementwise operations on images to dispatches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.layouts.rearrangement import Rearrangement, match_rearrangement
from iree.winograd.passes.match.navigation import is_empty
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.work import BATCH, Size
from iree.winograd.pipelines.gpu.device.launch import Launcher, TensorArgument, WorkgroupThreads
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.numbers import numbers_for
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.images.elementwise import (
    ELEMENTWISE_THREADS,
    ElementwiseKernel,
    SpreadOperand,
)
from iree.winograd.pipelines.gpu.kernels.images.gates import GATE_THREADS, GatesKernel
from iree.winograd.pipelines.gpu.lowerings.image_arguments import image_array
from iree.winograd.pipelines.problems.tensor_operations import InsertedPart, Rearranged, SpreadElementwise


@dataclass(frozen=True)
class ElementwiseLowering:
    """The kernel of an operation of static sizes, and the tensors that it reads."""

    kernel: ElementwiseKernel
    values: tuple[ir.Value, ...]
    """In the order of the kernel's operands."""
    result: ir.Value
    """The operation's."""
    half: ir.Type | None = None
    """The type of half precision that it is stored in; None for its own."""
    whole: ir.Value | None = None
    """The tensor that the kernel writes the result to; None for one of its own."""

    @staticmethod
    def of(operation: SpreadElementwise | Rearranged | InsertedPart) -> ElementwiseLowering:
        if isinstance(operation, InsertedPart):
            part, whole = list(operation.insertion.operands)[:2]
            extents = tuple(ir.RankedTensorType(part.type).shape)
            source, read = _source(part)
            kernel = ElementwiseKernel(extents, (read,), None, operation.places)
            return ElementwiseLowering(kernel, (source,), part, whole=whole)
        if isinstance(operation, Rearranged):
            found = operation.rearrangement
            extents = tuple(ir.RankedTensorType(found.result.type).shape)
            copied = ElementwiseKernel(extents, (SpreadOperand(None, found.places),), None)
            return ElementwiseLowering(copied, (found.source,), found.result, operation.half)
        result = operation.elementwise.result
        extents = tuple(ir.RankedTensorType(result.type).shape)
        operands = [_operand(each, extents) for each in operation.operands]
        function = VectorFunction.of(operation.elementwise.body)
        kernel = ElementwiseKernel(extents, tuple(operand for _, operand in operands), function)
        return ElementwiseLowering(kernel, tuple(value for value, _ in operands), result)

    def lower(self, launcher: Launcher) -> ir.Value:
        """Emits the dispatch."""
        kernel = replace(self._kernel(launcher.target), numbers=numbers_for(launcher.target))
        together = kernel.together
        operands = [
            (value, replace(TensorArgument.of(value, kernel.reads_quads(operand)), together=together))
            for value, operand in zip(self.values, kernel.operands, strict=True)
        ]
        written = self.result if self.whole is None else self.whole
        result = replace(TensorArgument.of(written, by_quads=True), together=together)
        if self.half is not None:
            result = replace(result, element=str(self.half))
        updated = None if self.whole is None or is_empty(self.whole) else self.whole
        threads = WorkgroupThreads(ELEMENTWISE_THREADS)
        return launcher.launch(kernel, kernel.name, threads, operands, result, updated=updated)

    def _kernel(self, target: GpuTarget) -> ElementwiseKernel:
        """By octets where it reads or writes images of half precision, and these are octets everywhere."""
        kernel = self.kernel
        read = (
            value
            for value, operand in zip(self.values, kernel.operands, strict=True)
            if operand.dimensions is None
        )
        types = [str(ir.RankedTensorType(each.type).element_type) for each in (*read, self.result)]
        if self.half is not None:
            types.append(str(self.half))
        by_octets = replace(kernel, together=target.together(prod(kernel.extents), *types))
        return by_octets if by_octets.fits else kernel


def _operand(operand: EpilogueOperand, extents: tuple[int, ...]) -> tuple[ir.Value, SpreadOperand]:
    """A tensor, and what is read of it: in another order where it is, if quads are quads there."""
    dimensions = tuple(
        index.position if isinstance(index, ir.AffineDimExpr) else None
        for index in operand.indexing_map.results
    )
    rearranged = match_rearrangement(operand.value)
    read = [dimension for dimension in dimensions if dimension is not None and extents[dimension] > 1]
    if read != sorted(read) or prod(extents[dimension] for dimension in read) != prod(extents):
        origin = None if rearranged is None else _origin(rearranged)
        if rearranged is None or origin is None:
            return operand.value, SpreadOperand(dimensions)
        return rearranged.source, SpreadOperand(dimensions, origin=origin)
    return _source(operand.value)


def _source(value: ir.Value) -> tuple[ir.Value, SpreadOperand]:
    """What is read for a tensor in the result's order: what it is rearranged of, if quads are quads there."""
    rearranged = match_rearrangement(value)
    if rearranged is None or rearranged.places.is_identity or not rearranged.places.keeps(QUAD):
        return value, SpreadOperand(None)
    return rearranged.source, SpreadOperand(None, rearranged.places)


def _origin(part: Rearrangement) -> int | None:
    """Where a part of a tensor begins that quads read where it is; None for others, and for a whole."""
    elements = prod(ir.RankedTensorType(part.source.type).shape)
    origin = part.places.offset
    if origin is None or elements == part.places.elements:
        return None
    return None if origin % QUAD or elements % QUAD else origin


def gates_misfit(operation: SpreadElementwise) -> Reason | None:
    """Why no kernel computes an operation on an image of unknown sizes; None where one does."""
    type_ = ir.RankedTensorType(operation.elementwise.result.type)
    *outer, channels = type_.shape
    if is_dynamic(channels) or channels % QUAD or not any(map(is_dynamic, outer[1:])):
        return f"channels of {type_} are no quads of an image"
    tensors = [operation.elementwise.result, *(each.value for each in operation.operands)]
    if any(half_type(each) is None and not _is_single(each) for each in tensors):
        return "images of unknown sizes are of f32 or half precision"
    kinds = [_is_image(each, type_) for each in operation.operands]
    if None in kinds or True not in kinds:
        return "what is spread over an image of unknown sizes is no vector of its channels"
    return None


def lowered_gates(launcher: Launcher, operation: SpreadElementwise) -> ir.Value:
    """Emits the dispatch of an operation that `gates_misfit` takes."""
    result = operation.elementwise.result
    type_ = ir.RankedTensorType(result.type)
    are_images = tuple(bool(_is_image(each, type_)) for each in operation.operands)
    function = VectorFunction.of(operation.elementwise.body)
    types = [str(ir.RankedTensorType(each.value.type).element_type) for each in operation.operands]
    together = launcher.target.together(type_.shape[-1], *types, str(type_.element_type))
    kernel = GatesKernel(type_.shape[-1], are_images, function, together, numbers_for(launcher.target))

    def array(value: ir.Value) -> TensorArgument:
        image = image_array(value, "output", by_quads=True, channels_first=False)
        return replace(image, together=together)

    operands = [
        (
            each.value,
            array(each.value)
            if is_image
            else replace(TensorArgument.of(each.value, by_quads=True), together=together),
        )
        for each, is_image in zip(operation.operands, are_images, strict=True)
    ]
    image = operation.operands[are_images.index(True)].value
    spatial = {Size("output", d): size_of(image, 1 + d) for d in range(type_.rank - 2)}
    sizes = {BATCH: size_of(image, 0), **spatial}
    threads = WorkgroupThreads(GATE_THREADS)
    return launcher.launch(kernel, kernel.name, threads, operands, array(result), sizes)


def _is_single(value: ir.Value) -> bool:
    return isinstance(ir.RankedTensorType(value.type).element_type, ir.F32Type)


def _is_image(operand: EpilogueOperand, result: ir.RankedTensorType) -> bool | None:
    """Whether an operand has all elements of a result; false of a vector of channels, None of others."""
    type_ = ir.RankedTensorType(operand.value.type)
    if operand.indexing_map == ir.AffineMap.get_identity(result.rank):
        return True
    if not type_.has_static_shape or prod(type_.shape) != result.shape[-1]:
        return None
    return False if type_.rank and type_.shape[-1] == result.shape[-1] else None
