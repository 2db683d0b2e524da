"""What convolutions and poolings read and add to: padded images, filters, initial values."""

from __future__ import annotations

from collections.abc import Sequence

import expressions as e
import operations as o
from draft import Draft, Image
from draw_elementwise import a, apply
from hypothesis import strategies as st
from open_size import is_open
from tensors import Tensor

FILL_NUMBERS = (0.0, 1.0, -0.5, 2.25)


def pad(draft: Draft, image: Image, low: dict[str, int], high: dict[str, int], number: float) -> Image:
    """Negative sizes cut off, as StableHLO's do."""
    of = draft.types[image.value]
    before = [low.get(letter, 0) for letter in image.layout]
    after = [high.get(letter, 0) for letter in image.layout]
    if min(*before, *after) < 0:
        sizes = [
            size + min(first, 0) + min(last, 0)
            for size, first, last in zip(of.shape, before, after, strict=True)
        ]
        if min(sizes) >= 1:
            offsets = tuple(max(-first, 0) for first in before)
            image = Image(
                draft.add(o.Slice(image.value, offsets, tuple(sizes), (1,) * len(sizes))), image.layout
            )
    before, after = [max(first, 0) for first in before], [max(last, 0) for last in after]
    if not any((*before, *after)):
        return image
    producer = draft.producer(image.value)
    if isinstance(producer, o.Insertion) and set(producer.steps) != {1}:
        # IREE 3.13 loses the steps of an insertion that it pads, and computes something else.
        return image
    return Image(draft.add(o.Pad(image.value, tuple(before), tuple(after), number)), image.layout)


def dilated(draft: Draft, image: Image, spatial: str) -> Image:
    """Zeros between elements, as in front of a transposed convolution."""
    steps = [draft.number(1, 3) if letter in spatial else 1 for letter in image.layout]
    margins = [draft.number(0, 2) if letter in spatial else 0 for letter in image.layout]
    of = draft.types[image.value]
    whole = [
        margin + (size - 1) * step + 1 + draft.number(0, 2) * (letter in spatial)
        for margin, size, step, letter in zip(margins, of.shape, steps, image.layout, strict=True)
    ]
    target = draft.fill(0.0, Tensor.of(whole))
    return Image(draft.add(o.Insertion(image.value, target, tuple(margins), tuple(steps))), image.layout)


def without_unread(
    draft: Draft, image: Image, window: dict[str, int], strides: dict[str, int], dilations: dict[str, int]
) -> Image:
    """The image without what a single window doesn't read.

    IREE 3.13 drops the loop over a single position, and with it the difference between the window and the
    image: "inferred input/output operand #1 has shape's dimension #1 to be 3, but found 2".
    """
    sizes = draft.sizes(image)
    kept = dict(sizes)
    for letter, taps in window.items():
        reach = dilations[letter] * (taps - 1) + 1
        if (sizes[letter] - reach) // strides[letter] == 0:
            kept[letter] = reach
    # A slice has elements, which a batch of no images doesn't.
    if kept == sizes or draft.types[image.value].is_empty:
        return image
    zeros, ones = (0,) * len(sizes), (1,) * len(sizes)
    return Image(draft.add(o.Slice(image.value, zeros, tuple(kept.values()), ones)), image.layout)


def filter_of(draft: Draft, shape: Sequence[int], scale: float, layout: str, spatial: str) -> int:
    """A constant, an argument, one that another convolution has, or a computed one."""
    kinds = ("constant", "constant", "constant", "argument", "shared", "computed", "reversed")
    # What has to be computed is one more kernel, most often of IREE's own.
    kind = draft.choice((*("constant",) * 5, "shared", *kinds) if draft.only_convolutions else kinds)
    if kind == "shared":
        same = [
            number
            for number, of in enumerate(draft.types)
            if of == Tensor(tuple(shape)) and _is_filter(draft, number)
        ]
        if same:
            return draft.choice(same)  # type: ignore[no-any-return]
    if kind == "argument" and not draft.is_nested:
        return _scaled(draft, draft.add(o.Input(tuple(shape))), scale)
    filters = draft.constant(shape, scale)
    if kind == "computed":
        position = draft.number(0, len(shape) - 1)
        factors = draft.constant([shape[position]], positive=True)
        identity = tuple(range(len(shape)))
        return draft.add(
            o.Elementwise(
                (filters, factors), (identity, (position,)), (apply("mul", a(0), a(1)),), tuple(shape)
            )
        )
    if kind == "reversed":
        return draft.add(o.Reversal(filters, tuple(layout.index(letter) for letter in spatial)))
    return filters


def _is_filter(draft: Draft, value: int) -> bool:
    return any(
        isinstance(operation, o.Convolution) and operation.filter == value for operation in draft.operations
    )


def _scaled(draft: Draft, value: int, scale: float) -> int:
    shape = draft.types[value].shape
    identity = tuple(range(len(shape)))
    return draft.add(o.Elementwise((value,), (identity,), (apply("mul", a(0), e.Number(scale)),), shape))


def init_of(draft: Draft, result: Tensor, layout: str, images: Sequence[Image]) -> int:
    """Zeros, a number, a bias along some dimension, or a tensor that the convolution is added to."""
    kinds = ("zeros", "zeros", "bias", "number", "broadcast", "image", "constant", "argument")
    kind = draft.choice((*("zeros", "bias") * 4, *kinds) if draft.only_convolutions else kinds)
    rank = len(layout)
    if kind == "number":
        return draft.fill(draft.choice(FILL_NUMBERS), result)
    if kind == "bias":
        position = layout.index("f" if "f" in layout else "g")
        bias = draft.constant([result.shape[position]])
        others = tuple(d for d in range(rank) if d != position)
        if draft.chance(2):
            return draft.add(o.Broadcast(bias, result.shape, others))
        return draft.add(o.Elementwise((bias,), ((position,),), (a(0),), result.shape))
    if kind == "broadcast":
        kept = [d for d in range(rank) if not is_open(result.shape[d]) and draft.chance(2)]
        source = draft.constant([result.shape[d] for d in kept])
        if draft.chance(2):
            kept = list(draft.draw(st.permutations(kept)))
            source = draft.constant([result.shape[d] for d in kept])
            return draft.add(o.Elementwise((source,), (tuple(kept),), (a(0),), result.shape))
        others = tuple(d for d in range(rank) if d not in kept)
        return draft.add(o.Broadcast(source, result.shape, others))
    if kind == "image":
        same = [image.value for image in images if draft.types[image.value] == result]
        if same:
            return draft.choice(same)  # type: ignore[no-any-return]
    if kind == "argument" and not draft.is_nested:
        return draft.add(o.Input(result.shape))
    if kind == "constant" and not result.is_open:
        return draft.constant(result.shape)
    return draft.fill(0.0, result)
