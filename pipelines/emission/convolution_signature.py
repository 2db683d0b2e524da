"""Which sizes the kernel of a convolution is told, and which of its tensors' dimensions they are."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.problems.group import ConvolutionGroup
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .index import Index
from .signature import DispatchTensor, StatedSizes
from .work import BATCH, Size


def spatial_sizes(shape: ConvolutionShape) -> StatedSizes:
    """What the kernel of a convolution is told beside the batch: of images of unknown sizes all of them."""
    if not shape.unknown_sizes:
        return ()
    return tuple(
        (Size(of, dimension), None if dimension in shape.unknown_sizes else size)
        for of, sizes in (("input", shape.input_size), ("output", shape.output_size))
        for dimension, size in enumerate(sizes)
    )


def image_tensor(type_: ir.Type, of: str, *, channels_first: bool) -> DispatchTensor:
    """An image of a convolution, its `"input"` or `"output"`."""
    image = ir.RankedTensorType(type_)
    first = 2 if channels_first else 1
    sizes = {0: BATCH} | {first + dimension: Size(of, dimension) for dimension in range(image.rank - 2)}
    return _tensor(image, sizes)


def read_tensor(type_: ir.Type, indexing_map: ir.AffineMap) -> DispatchTensor:
    """What an epilogue reads by a map from an output's `(n, spatial..., k)`."""
    reads = enumerate(indexing_map.results)
    positions = {number: each.position for number, each in reads if isinstance(each, ir.AffineDimExpr)}
    sizes = {
        number: BATCH if position == 0 else Size("output", position - 1)
        for number, position in positions.items()
    }
    return _tensor(ir.RankedTensorType(type_), sizes)


def size_of_group(group: ConvolutionGroup, size: Size, insertion: ir.Operation | None) -> Index:
    """A size of the images of a convolution, emitted at the insertion point where it isn't known.

    `insertion` is that of the group, if kernels write the outputs there.
    """
    image, shape = group.input_transform.input, group.shape
    if size == BATCH:
        return Index(size_of(image, 0))
    if size.of == "output" and insertion is not None and group.insertion is not None:
        # The same value for all parts: later ones have it for the tensor's.
        return Index(size_of(insertion.operands[1], 1 + size.dimension))
    first = 2 if shape.input_channels_first else 1
    extent = Index(size_of(image, first + size.dimension))
    return extent if size.of == "input" else output_extent(shape, size.dimension, extent)


def output_extent(shape: ConvolutionShape, dimension: int, input_extent: Index) -> Index:
    """The outputs that there are along a dimension of an input of so many elements: none of too few."""
    stride = shape.strides[dimension]
    window = (shape.kernel_size[dimension] - 1) * shape.dilations[dimension] + 1
    added = shape.padding_low[dimension] + shape.padding_high[dimension] - window + stride
    spanned = input_extent + added
    return (spanned if added >= 0 else spanned.maximum(0)) // stride


def _tensor(type_: ir.RankedTensorType, sizes: dict[int, Size]) -> DispatchTensor:
    unknown = [dimension for dimension, size in enumerate(type_.shape) if is_dynamic(size)]
    return DispatchTensor(type_, tuple(sizes[dimension] for dimension in unknown))
