"""How kernels of CPUs wait for each other: what they tell of themselves, and how they count workgroups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from iree.winograd.dialect.bindings import ir, scf
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.navigation import kernel_functions, operations_of
from iree.winograd.pipelines.cpu.kernels.kernel_of import KernelKind
from iree.winograd.pipelines.cpu.processor.arrivals import Arrivals, Reading
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.dispatch_operations import binding_subspan
from iree.winograd.pipelines.emission.grid import copied_grid, export_of, extent_of
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.signature import DispatchSignature, DispatchTensor
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.problems.chain import (
    CHAINED_ATTRIBUTE_NAME,
    FILTERS_ATTRIBUTE_NAME,
    OVERWRITABLE_ATTRIBUTE_NAME,
    PRODUCTS_ATTRIBUTE_NAME,
    SPANS_ATTRIBUTE_NAME,
    Spans,
    first_kernel_element,
    kernel_elements,
    spans_attribute,
)
from iree.winograd.pipelines.problems.group import ConvolutionGroup

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.filters import CpuKernel
    from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel


_MOST_COUNTED = 2**63 - 1
"""By an attribute; images may be expected to be larger than any are."""


def chain_attributes(
    kernel: CpuKernel, group: ConvolutionGroup, signature: DispatchSignature
) -> dict[str, ir.Attribute]:
    """What the executable of a convolution, whose second operand its filters are, tells of its workgroups."""
    filters = signature.operands[1].type.element_type
    attributes = _work(kernel, element_bytes(str(filters))) | _convolution_spans(kernel, group, signature)
    return attributes | _overwritable(kernel, group, signature)


def spans(
    kernel: CpuKernel | PoolingKernel,
    signature: DispatchSignature,
    are_pixelwise: Sequence[bool] = (),
    *,
    reads_pixels: bool = True,
) -> dict[str, ir.Attribute]:
    """Which elements the workgroups of a kernel touch that knows all sizes.

    Its first operand is an image, its second, if it has one, filters. `are_pixelwise` says of operands of the
    epilogue whether they are read where the result is written, `reads_pixels` of the image whether a
    workgroup's pixels lie side by side.
    """
    count = kernel.workgroups(signature.kernel_sizes(()))[0].known
    assert count is not None
    touched = [kernel.touched_pixels(number) for number in range(count)]
    read = [each.read for each in touched] if reads_pixels else None
    written = [each.written for each in touched]

    def elements(tensor: DispatchTensor, pixels: Spans) -> Spans:
        if pixels is None:
            return None
        channels = tensor.type.shape[-1]
        return [range(span.start * channels, span.stop * channels) for span in pixels]

    # Operands after these, in whose place the result is, have all of it.
    of_operands = [read, None, *(written if each else None for each in are_pixelwise)]
    operands = [elements(*each) for each in zip(signature.operands, of_operands, strict=False)]
    result = elements(signature.result, None if signature.updates_last_operand else written)
    return {SPANS_ATTRIBUTE_NAME: spans_attribute(result, operands)}


def count_workgroups(
    executable: ir.Operation,
    threads: int,
    target: CpuTarget,
    *,
    held: int,
    result_is_operand: bool,
) -> None:
    """Has the workgroups of a kernel wait for kernels before it, and say when they are done.

    While they wait they fetch filters. A kernel that has none for the sizes that it is told has one all the
    same, which does nothing but to wait and to say so: others wait for it.
    """
    (function,) = kernel_functions(executable)
    block = function.regions[0].blocks[0]
    binding, index = ir.Type.parse("!stream.binding"), ir.IndexType.get()
    with function.location:
        counts = block.arguments[-1]
        if result_is_operand:
            counts = block.add_argument(binding, function.location)
        kernel, reach = (Index(block.add_argument(index, function.location)) for _ in range(2))
        for _ in range(held):
            block.add_argument(binding, function.location)
        if not result_is_operand:
            # The memory of a result comes after all operands.
            counts.replace_all_uses_with(block.add_argument(binding, function.location))
        types = [argument.type for argument in block.arguments]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
        *operations, end = (view.operation for view in block.operations)
        dynamic = ir.ShapedType.get_dynamic_size()
        type_ = ir.MemRefType.get([dynamic], ir.IntegerType.get_signless(32))
        with ir.InsertionPoint(block.operations[0]):
            extents = tuple(copied_grid(executable, block))
            grid = tuple(each.maximum(1) for each in extents)
            size = (kernel + 1) * kernel_elements(threads) + first_kernel_element(threads)
            span = binding_subspan(type_, counts, Index(0).value, [size.value])
            arrivals = Arrivals(Buffer(span, (0,)), kernel, threads, product(grid), target)
            taken = arrivals.emit_taking()
            # Neighbours in a share read the same part of an image.
            workgroup = unflatten(taken.number, grid)
            arrivals.emit_wait(taken, reach, _filters_of(executable, block, workgroup[1], target))
            _replace_workgroup(operations, workgroup)
        with ir.InsertionPoint(end):
            _emit_unless_empty(operations, extents)
            arrivals.emit_arrival(taken)
    _have_workgroups(executable)
    executable.attributes[CHAINED_ATTRIBUTE_NAME] = ir.UnitAttr.get()


def _have_workgroups(executable: ir.Operation) -> None:
    """Has a kernel that is told sizes have a workgroup where it has none for them."""
    *_, end = operations_of(export_of(executable))
    with end.location, ir.InsertionPoint(end):
        for number, extent in enumerate(end.operands):
            if extent_of(extent).known is None:
                end.operands[number] = Index(extent).maximum(1).value


def _emit_unless_empty(operations: Sequence[ir.Operation], grid: tuple[Index, ...]) -> None:
    """Has a kernel's operations be done where its grid has workgroups; its memory is there in any case."""
    holds = product(grid).at_least(1)
    if holds.known is not None:
        return
    body = scf.IfOp(holds.value).then_block
    with ir.InsertionPoint(body):
        end = scf.yield_([])
    bound = [number for number, each in enumerate(operations) if each.name.startswith("stream.")]
    for operation in operations[max(bound, default=-1) + 1 :]:
        if operation.name != "memref.alloc":
            operation.move_before(end)


def _work(kernel: CpuKernel, filter_bytes: int) -> dict[str, ir.Attribute]:
    """Its products, and the filters that it reads, of `filter_bytes` each.

    Of expected sizes, and of one image where their number is unknown.
    """
    shape = kernel.shape
    tiles = (shape.batch or 1) * prod(shape.tiles_per_image)
    products = tiles * shape.tile_products * shape.output_channels
    integer = ir.IntegerType.get_signless(64)
    counted = min(products, _MOST_COUNTED)
    attributes: dict[str, ir.Attribute] = {PRODUCTS_ATTRIBUTE_NAME: ir.IntegerAttr.get(integer, counted)}
    if not shape.runtime_filter:
        counts = prod(kernel.packed_filter_shape), kernel.filter_part
        sizes = (filter_bytes * elements for elements in counts)
        attributes[FILTERS_ATTRIBUTE_NAME] = ir.DenseI64ArrayAttr.get([1, *sizes])
    return attributes


def _convolution_spans(
    kernel: CpuKernel, group: ConvolutionGroup, signature: DispatchSignature
) -> dict[str, ir.Attribute]:
    """Which elements its workgroups touch, where the convolution writes whole images' pixels."""
    shape, transform = kernel.shape, group.output_transform
    is_separate = KernelKind.of(kernel).input_stage(kernel) is not None
    if shape.batch is None or shape.unknown_sizes or is_separate or shape.output_channels_first:
        return {}
    pixelwise = ir.AffineMap.get_identity(transform.image_type.rank)
    are_pixelwise = [each == pixelwise for each in transform.indexing_maps]
    return spans(kernel, signature, are_pixelwise, reads_pixels=not shape.input_channels_first)


def _overwritable(
    kernel: CpuKernel, group: ConvolutionGroup, signature: DispatchSignature
) -> dict[str, ir.Attribute]:
    """Which operands of the epilogue, which come after the image and filters, the result may overwrite."""
    transform = group.output_transform
    if not KernelKind.of(kernel).writes_once(kernel) or signature.updates_last_operand or signature.numbers:
        return {}
    pixelwise = ir.AffineMap.get_identity(transform.image_type.rank)
    numbers = [2 + place for place, each in enumerate(transform.indexing_maps) if each == pixelwise]
    numbers = [each for each in numbers if signature.operands[each].type == signature.result.type]
    return {OVERWRITABLE_ATTRIBUTE_NAME: ir.DenseI64ArrayAttr.get(numbers)} if numbers else {}


def _filters_of(
    executable: ir.Operation, function: ir.Block, part_number: Index, target: CpuTarget
) -> Reading | None:
    """Those that a workgroup of a kernel reads, as many as may wait in L2 for what else it reads."""
    if FILTERS_ATTRIBUTE_NAME not in executable.attributes:
        return None
    operand, size, part = ir.DenseI64ArrayAttr(executable.attributes[FILTERS_ATTRIBUTE_NAME])
    type_ = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
    span = binding_subspan(type_, function.arguments[operand], Index(0).value, [])
    return Reading(Buffer(span, (size,)), part_number * part, min(part, target.l2_bytes // 2))


def _replace_workgroup(operations: Iterable[ir.Operation], workgroup: tuple[Index, ...]) -> None:
    """Has a function that consists of `operations` do the work of another workgroup than it is called for."""
    for operation in operations:
        if operation.name == "stream.dispatch.workgroup.id":
            dimension = ir.IntegerAttr(operation.attributes["dimension"]).value
            operation.results[0].replace_all_uses_with(workgroup[dimension].value)
