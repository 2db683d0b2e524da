"""Kernels as IREE dispatches: an executable of ours in the module, and the op that launches it.

A `stream.executable` whose function names its own codegen pipeline goes through all of IREE untouched by
IREE's own kernel configuration: streams, allocation, translation and linking are the stock ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Generic, TypeVar

from iree.winograd.dialect.bindings import func, ir
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .buffer import Buffer
from .control_flow import named
from .dispatch_operations import binding_subspan, dispatch_kernel, workgroup_id
from .index import Index, shared_values

WorkgroupId = tuple[Index, Index, Index]

BufferType = TypeVar("BufferType", bound=Buffer)

Binding = Callable[[ir.Value, Index], BufferType]
"""From a kernel's argument and its batch size to the buffer that the argument is."""


@dataclass(frozen=True)
class KernelFunction(Generic[BufferType]):
    """What a kernel's body is emitted with: its workgroup, its batch size, its buffers, results last, and the
    numbers that it was launched with."""

    workgroup: WorkgroupId
    batch: Index
    buffers: list[BufferType]
    numbers: list[Index]


@dataclass(frozen=True)
class DispatchSignature:
    """The buffers of a dispatch as tensor types; a dynamic leading dimension is the batch.

    With `updates_last_operand` the result is the last operand, part of which the kernel overwrites. `numbers`
    says how many integers the kernel gets beside.
    """

    operands: tuple[ir.RankedTensorType, ...]
    result: ir.RankedTensorType
    dynamic_batch: bool
    updates_last_operand: bool = False
    numbers: int = 0

    @property
    def tied_operands(self) -> ir.ArrayAttr | None:
        """For the result, the number of the operand that it is."""
        if not self.updates_last_operand:
            return None
        return ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IndexType.get(), len(self.operands) - 1)])

    def bindings(self) -> list[Binding[Buffer]]:
        """Those of dense row-major arrays, for the operands and the result."""
        results = () if self.updates_last_operand else (self.result,)
        return [partial(_bind, tensor) for tensor in (*self.operands, *results)]


def kernel_name(shape: ConvolutionShape, stage: str | None = None) -> str:
    """What the kernel of a convolution is called, or that of one stage of it."""
    decomposition = shape.decomposition
    tile = "x".join(map(str, decomposition.output_tile))
    kernel = "x".join(map(str, decomposition.kernel_size))
    size = "x".join(map(str, shape.output_size))
    prefix = "winograd" if stage is None else f"winograd_{stage}"
    return f"{prefix}_f{tile}_{kernel}_{size}x{shape.output_channels}_from_{shape.input_channels}"


def emit_executable(
    module: ir.Operation,
    name: str,
    signature: DispatchSignature,
    translation: ir.Attribute,
    batch: int | None,
    workgroups: Callable[[Index], tuple[Index, ...]],
    body: Callable[[KernelFunction[BufferType]], None],
    bindings: Sequence[Binding[BufferType]],
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Adds `stream.executable @name` with one function of the same name to the start of the module.

    `workgroups` gives the size of the grid, of up to three dimensions, for a batch size; `body` emits the
    kernel. `bindings` has one entry per operand and one for the result, unless that is the last operand. The
    function gets `attributes`. Returns the executable.
    """
    symbol = ir.StringAttr.get(name)
    private = ir.StringAttr.get("private")
    public = ir.StringAttr.get("public")
    executable = ir.Operation.create(
        "stream.executable",
        attributes={"sym_name": symbol, "sym_visibility": private},
        regions=1,
        ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
    ).operation
    index = ir.IndexType.get()
    dynamic = [index] if signature.dynamic_batch else []
    with ir.InsertionPoint(executable.regions[0].blocks.append()):
        export = ir.Operation.create(
            "stream.executable.export",
            attributes={
                "sym_name": symbol,
                "function_ref": ir.FlatSymbolRefAttr.get(name),
                "sym_visibility": public,
            },
            regions=1,
        )
        with ir.InsertionPoint(export.regions[0].blocks.append(*dynamic)) as point:
            size = Index(point.block.arguments[0]) if dynamic else Index.of(_static(batch))
            grid = [extent.value for extent in (*workgroups(size), Index(1), Index(1))[:3]]
            ir.Operation.create("stream.return", operands=grid)
        inner = ir.Operation.create("builtin.module", regions=1)
        binding = ir.Type.parse("!stream.binding")
        results = [] if signature.updates_last_operand else [binding]
        types = [binding] * len(signature.operands) + dynamic + [index] * signature.numbers + results
        with ir.InsertionPoint(inner.regions[0].blocks.append()):
            function = func.FuncOp(name, (types, []))
        for key, attribute in {"translation_info": translation, **(attributes or {})}.items():
            function.attributes[key] = attribute
        entry = function.add_entry_block()
        with ir.InsertionPoint(entry), _location_in(name), shared_values(entry):
            arguments = list(function.arguments)
            count = len(signature.operands)
            size = Index(arguments[count]) if dynamic else Index.of(_static(batch))
            first_number = count + len(dynamic)
            first_result = first_number + signature.numbers
            bound = arguments[:count] + arguments[first_result:]
            with named("buffer"):
                buffers = [bind(argument, size) for bind, argument in zip(bindings, bound, strict=True)]
            with named("workgroup"):
                x, y, z = (Index(workgroup_id(dimension)) for dimension in range(3))
            numbers = [Index(argument) for argument in arguments[first_number:first_result]]
            body(KernelFunction((x, y, z), size, buffers, numbers))
            func.ReturnOp([])
        ir.Operation.create("stream.executable.end")
    return executable


def _location_in(kernel: str) -> ir.Location:
    """That of the kernel's operations: what IREE says of them names the kernel, then the convolution."""
    return ir.Location.callsite(ir.Location.file(kernel, 1, 1), [ir.Location.current])


def emit_dispatch(
    name: str,
    signature: DispatchSignature,
    operands: Sequence[ir.Value],
    batch: ir.Value | None,
    numbers: Sequence[int] = (),
) -> ir.Value:
    """Launches the kernel on tensors and numbers at the insertion point; gives its result."""
    dynamic = [batch] if batch is not None else []
    entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])])
    operand_dimensions = [
        dimension for tensor in signature.operands if _has_dynamic_batch(tensor) for dimension in dynamic
    ]
    return dispatch_kernel(
        [signature.result],
        dynamic,
        entry,
        [*operands, *dynamic, *(Index(number).value for number in numbers)],
        operand_dimensions,
        dynamic if _has_dynamic_batch(signature.result) else [],
        tied_operands=signature.tied_operands,
    ).result


def _bind(tensor: ir.RankedTensorType, argument: ir.Value, batch: Index) -> Buffer:
    element = tensor.element_type
    if _has_dynamic_batch(tensor):
        inner = tuple(tensor.shape[1:])
        count = batch * prod(inner)
        type_ = ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element)
        span = binding_subspan(type_, argument, Index(0).value, [count.value])
        return Buffer(span, (0, *inner))
    type_ = ir.MemRefType.get([prod(tensor.shape)], element)
    return Buffer(binding_subspan(type_, argument, Index(0).value, []), tuple(tensor.shape))


def _has_dynamic_batch(tensor: ir.RankedTensorType) -> bool:
    # The bindings crash on a dimension that a tensor doesn't have.
    return bool(tensor.rank > 0 and tensor.is_dynamic_dim(0))


def _static(batch: int | None) -> int:
    assert batch is not None
    return batch
