"""Padding by negative amounts, which torch-mlir has wrong, and with the other end, on which it never ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting


@rewrites("Pad")
def pad(rewriting: Rewriting) -> None:
    """Pads by the positive amounts, and crops the result by the others."""
    amounts = _amounts(rewriting)
    if rewriting.text("mode", "constant") == "wrap":
        _wrap(rewriting, amounts)
        return
    if amounts is None or min(amounts, default=0) >= 0:
        return
    image, result = rewriting.node.input[0], rewriting.node.output[0]
    if max(amounts) > 0:
        rest = list(rewriting.node.input[2:])
        attributes = {name: value for name, value in rewriting.attributes.items() if name != "pads"}
        more = rewriting.constant_of(np.maximum(amounts, 0), np.int64)
        image = rewriting.add("Pad", image, more, *rest, **attributes)
    _crop(rewriting, image, _axes(rewriting, len(amounts) // 2), amounts, into=result)


def require_fitting_filter(rewriting: Rewriting) -> None:
    """Refuses a convolution of an image of another rank or other channels than its filter is for.

    ONNX doesn't look at the channels, and of an image of unknown size torch-mlir and IREE don't either.
    """
    image, weights = (rewriting.shape(name) for name in rewriting.node.input[:2])
    if image is None or weights is None:
        return
    if len(image) != len(weights):
        rewriting.refuse(f"an image of rank {len(image)} and a filter of rank {len(weights)}")
    groups = int(rewriting.attributes.get("group", 1))
    is_transposed = rewriting.node.op_type == "ConvTranspose"
    channels, of_filter = image[1], weights[0 if is_transposed else 1]
    if channels is None or of_filter is None:
        return
    if channels != (of_filter if is_transposed else groups * of_filter):
        rewriting.refuse(f"an image of {channels} channels and a filter of {of_filter} in {groups} group(s)")


@rewrites("Conv")
def convolution_padding(rewriting: Rewriting) -> None:
    """Crops the image by the negative amounts of padding, and leaves the others to the convolution."""
    require_fitting_filter(rewriting)
    pads = [int(each) for each in rewriting.attributes.get("pads", ())]
    if min(pads, default=0) >= 0 or rewriting.text("auto_pad", "NOTSET") != "NOTSET":
        return
    image, *others = rewriting.node.input
    cropped = _crop(rewriting, image, range(2, 2 + len(pads) // 2), pads)
    attributes = {**rewriting.attributes, "pads": [max(each, 0) for each in pads]}
    rewriting.add("Conv", cropped, *others, into=rewriting.node.output[0], **attributes)


@rewrites("ConvTranspose")
def transposed_convolution(rewriting: Rewriting) -> None:
    """As it is, where its filter fits."""
    require_fitting_filter(rewriting)


def _crop(
    rewriting: Rewriting, image: str, axes: Sequence[int], amounts: Sequence[int], into: str | None = None
) -> str:
    """`image` without what the negative ones of `amounts` take away at the ends of `axes`."""
    half = len(amounts) // 2
    low, high = amounts[:half], amounts[half:]
    cropped = [d for d in range(half) if low[d] < 0 or high[d] < 0]
    starts = [max(-low[d], 0) for d in cropped]
    # An end beyond all elements takes none away.
    ends = [high[d] if high[d] < 0 else np.iinfo(np.int64).max for d in cropped]
    bounds = [rewriting.constant_of(each, np.int64) for each in (starts, ends, [axes[d] for d in cropped])]
    return rewriting.add("Slice", image, *bounds, into=into)


def _wrap(rewriting: Rewriting, amounts: Sequence[int] | None) -> None:
    """Has each end continue with the other, dimension by dimension; negative amounts crop."""
    if amounts is None:
        rewriting.refuse("amounts that are known only at run time in the mode 'wrap'")
    image, half = rewriting.node.input[0], len(amounts) // 2
    for axis, low, high in zip(_axes(rewriting, half), amounts[:half], amounts[half:], strict=True):
        if low or high:
            size = (rewriting.shape(rewriting.node.input[0]) or (None,))[axis]
            if size is None:
                rewriting.refuse("sizes that are known only at run time in the mode 'wrap'")
            places = np.arange(-low, size + high) % size
            image = rewriting.add("Gather", image, rewriting.constant_of(places, np.int64), axis=axis)
    rewriting.add("Identity", image, into=rewriting.node.output[0])


def _amounts(rewriting: Rewriting) -> Sequence[int] | None:
    """What to add at the starts of dimensions, then at their ends; None where that is known at run time."""
    given = rewriting.attributes.get("pads")
    if given is None:
        given = rewriting.constant(1)
    return None if given is None else [int(each) for each in given]


def _axes(rewriting: Rewriting, count: int) -> Sequence[int]:
    if rewriting.operand(3) is None:
        return range(count)
    axes = rewriting.constant(3)
    if axes is None:
        rewriting.refuse("axes that are known only at run time")
    return [int(axis) for axis in axes]
