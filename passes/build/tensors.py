"""Tensors and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.match.sizes import source_of_size, stated_size, transforms_of


def index_constant(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)


def size_of(value: ir.Value, dimension: int) -> int | ir.Value:
    """The size of a tensor's dimension: a number, or an `index` value where it is known only at run time.

    Such a value is found as far up as the size is the same, or follows from that of a convolution's input, so
    that it doesn't depend on what a rewrite replaces.
    """
    source = source_of_size(value, dimension)
    size = stated_size(source, dimension)
    if size is not None:
        return size
    outputs = _outputs_along(source, dimension)
    return tensor.dim(source, index_constant(dimension)) if outputs is None else outputs


def _outputs_along(value: ir.Value, dimension: int) -> ir.Value | None:
    """Build the number of a convolution's outputs along a dimension of its result; None for other values."""
    transforms = transforms_of(value)
    if transforms is None:
        return None
    output, images = transforms
    spatial = dimension - (2 if output.channels_first else 1)
    decomposition = output.decomposition
    if spatial not in range(len(decomposition.step)):
        return None
    extent = size_of(images.input, spatial + (2 if images.channels_first else 1))
    assert not isinstance(extent, int), "a known input has known outputs"
    stride = decomposition.step[spatial]
    window = (decomposition.kernel_size[spatial] - 1) * decomposition.dilation[spatial] + 1
    added = images.padding_low[spatial] + images.padding_high[spatial] - window + stride
    spanned = arith.addi(extent, index_constant(added)) if added else extent
    if added < 0:
        # Of too few elements there are no outputs.
        spanned = arith.maxsi(spanned, index_constant(0))
    return spanned if stride == 1 else arith.divui(spanned, index_constant(stride))


def shape_of(value: ir.Value) -> list[int | ir.Value]:
    """The sizes of all dimensions of a tensor, as `size_of` says them."""
    return [size_of(value, dimension) for dimension in range(ir.RankedTensorType(value.type).rank)]


def in_a_row(value: ir.Value) -> ir.Value:
    """Build the elements of a tensor of static sizes as a vector, in the order of memory."""
    type_ = ir.RankedTensorType(value.type)
    if type_.rank == 1:
        return value
    flat = ir.RankedTensorType.get([prod(type_.shape)], type_.element_type)
    return tensor.collapse_shape(flat, value, [list(range(type_.rank))])


def zero_filled(sizes: Sequence[int | ir.Value], element_type: ir.Type) -> ir.Value:
    """Build a tensor of zeros."""
    return filled(arith.constant(element_type, 0.0), sizes, element_type)


def filled(element: ir.Value, sizes: Sequence[int | ir.Value], element_type: ir.Type) -> ir.Value:
    """Build a tensor whose elements are all `element`."""
    return build_named(linalg.FillOp, [element], tensor.empty(list(sizes), element_type))


def on_device(value: ir.Value, device: str) -> ir.Value:
    """Build the tensor, placed on the device of this symbol."""
    attributes = {"target": ir.Attribute.parse(f"#hal.device.affinity<@{device}>")}
    return ir.Operation.create("flow.tensor.transfer", [value.type], [value], attributes).result
