"""Sizes of images and of what is made of them, as kernels are told them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.pipelines.emission.convolution_signature import image_tensor
from iree.winograd.pipelines.emission.work import Size


def image_sizes(image: ir.Value, like: ir.Value) -> tuple[dict[Size, int | ir.Value], list[tuple[Size, ...]]]:
    """The sizes of an image and of what is made of it, and which of them are open, of both."""
    tensors = (("input", image), ("output", like))
    extents = {
        Size(of, dimension): size_of(value, 1 + dimension)
        for of, value in tensors
        for dimension in range(image.type.rank - 2)
    }
    return extents, [image_tensor(value.type, of, channels_first=False).dynamic for of, value in tensors]


def shape_like(image: ir.Value, like: ir.Value) -> tuple[int, ...]:
    """As in a type, that of as many images as `image` has."""
    return (image.type.shape[0], *like.type.shape[1:])
