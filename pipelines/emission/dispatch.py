"""Kernels as IREE dispatches: an executable of ours in the module, and the op that launches it.

A `stream.executable` whose function names its own codegen pipeline goes through all of IREE untouched by
IREE's own kernel configuration: streams, allocation, translation and linking are the stock ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from iree.winograd.dialect.bindings import func, ir
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .buffer import Buffer
from .control_flow import named
from .dispatch_operations import dispatch_kernel, workgroup_id
from .index import Index, shared_values, short_size
from .signature import Binding, DispatchSignature
from .work import Sizes, Work

BufferType = TypeVar("BufferType", bound=Buffer)


@dataclass(frozen=True)
class KernelFunction(Generic[BufferType]):
    """What a kernel's body is emitted with: its work, its buffers, results last, and the numbers that it was
    launched with."""

    work: Work
    buffers: list[BufferType]
    numbers: list[Index]


def kernel_name(shape: ConvolutionShape, stage: str | None = None) -> str:
    """What the kernel of a convolution is called, or that of one stage of it."""
    decomposition = shape.decomposition
    tile = "x".join(map(str, decomposition.output_tile))
    kernel = "x".join(map(str, decomposition.kernel_size))
    size = "x".join(
        "any" if dimension in shape.unknown_sizes else str(outputs)
        for dimension, outputs in enumerate(shape.output_size)
    )
    prefix = "winograd" if stage is None else f"winograd_{stage}"
    return f"{prefix}_f{tile}_{kernel}_{size}x{shape.output_channels}_from_{shape.input_channels}"


def emit_executable(
    module: ir.Operation,
    name: str,
    signature: DispatchSignature,
    translation: ir.Attribute,
    workgroups: Callable[[Sizes], tuple[Index, ...]],
    body: Callable[[KernelFunction[BufferType]], None],
    bindings: Sequence[Binding[BufferType]],
    attributes: Mapping[str, ir.Attribute] | None = None,
    *,
    short: bool = False,
) -> ir.Operation:
    """Adds `stream.executable @name` with one function of the same name to the start of the module.

    `workgroups` gives the size of the grid, of up to three dimensions, for the sizes; `body` emits the
    kernel. `bindings` has one entry per operand and one for the result, unless that is the last operand. The
    function gets `attributes`. With `short` sizes have 31 bits, and what is divided 32. Returns the
    executable.
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
    dynamic = [index] * len(signature.dynamic_sizes)
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
            extents = workgroups(signature.kernel_sizes(point.block.arguments))
            grid = [extent.value for extent in (*extents, Index(1), Index(1))[:3]]
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
        with ir.InsertionPoint(entry), _location_in(name), shared_values(entry, short=short):
            arguments = list(function.arguments)
            count = len(signature.operands)
            first_number = count + len(dynamic)
            told = arguments[count:first_number]
            sizes = signature.kernel_sizes(list(map(short_size, told)) if short else told)
            first_result = first_number + signature.numbers
            bound = arguments[:count] + arguments[first_result:]
            with named("buffer"):
                buffers = [bind(argument, sizes) for bind, argument in zip(bindings, bound, strict=True)]
            with named("workgroup"):
                x, y, z = (Index(workgroup_id(dimension)) for dimension in range(3))
            numbers = [Index(argument) for argument in arguments[first_number:first_result]]
            body(KernelFunction(Work((x, y, z), sizes), buffers, numbers))
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
    dynamic_sizes: Sequence[ir.Value] = (),
    numbers: Sequence[int] = (),
) -> ir.Value:
    """Launches the kernel on tensors, the signature's dynamic sizes and numbers; gives its result."""
    sizes = dict(zip(signature.dynamic_sizes, dynamic_sizes, strict=True))
    entry = ir.ArrayAttr.get([ir.SymbolRefAttr.get([name, name])])
    return dispatch_kernel(
        [signature.result.type],
        dynamic_sizes,
        entry,
        [*operands, *dynamic_sizes, *(Index(number).value for number in numbers)],
        [extent for tensor in signature.operands for extent in tensor.dynamic_extents(sizes)],
        signature.result.dynamic_extents(sizes),
        tied_operands=signature.tied_operands,
    ).result
