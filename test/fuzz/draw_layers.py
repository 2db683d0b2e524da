"""What lies between convolutions, or holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import expressions as e
import operations as o
import program as p
from building import POOLINGS
from draft import MAX_TENSOR, Draft, Image, Layer
from draw_convolution import same_convolution
from draw_elementwise import a, apply, elementwise, epilogue
from draw_operands import FILL_NUMBERS, pad, without_unread
from open_size import is_open
from shrinking import renumbered
from tensors import Tensor


def pooling(draft: Draft, image: Image) -> Image | None:
    if image.layout not in POOLINGS:
        return None
    spatial = [letter for letter in image.layout if letter.isdigit()]
    kind = draft.choice(("max", "sum"))
    low = {letter: draft.number(0, 1) for letter in spatial}
    high = {letter: draft.number(0, 1) for letter in spatial}
    image = pad(draft, image, low, high, 0.0 if kind == "sum" else -3.0e38)
    sizes = draft.sizes(image)
    # A window of nothing but padding would give numbers that overflow in what follows.
    least = {letter: 1 + max(low[letter], high[letter]) for letter in spatial}
    windows = {letter: min(int(sizes[letter]), draft.number(least[letter], 3)) for letter in spatial}
    steps = {letter: draft.number(1, 3) for letter in spatial}
    image = without_unread(draft, image, windows, steps, dict.fromkeys(spatial, 1))
    window, strides = tuple(windows.values()), tuple(steps.values())
    value = draft.add(o.Pooling(image.value, image.layout, kind, window, strides, (1,) * len(spatial)))
    result = Image(value, image.layout)
    if kind == "sum":
        of = draft.types[value]
        share = e.Number(1.0 / prod(window))
        identity = tuple(range(len(of.shape)))
        scaled = o.Elementwise((value,), (identity,), (apply("mul", a(0), share),), of.shape)
        result = Image(draft.add(scaled), image.layout)
    return result


def concatenation(draft: Draft, image: Image, images: Sequence[Image]) -> Image | None:
    letter = draft.choice([*image.layout[1:], "c", "c"])
    dimension = image.layout.index(letter)

    def others(candidate: Image) -> Any:
        sizes = draft.sizes(candidate)
        return candidate.layout, {key: size for key, size in sizes.items() if key != letter}

    fitting = [other for other in images if others(other) == others(image)]
    parts = [image] + [draft.choice([*fitting, image]) for _ in range(draft.number(1, 2))]
    of = draft.types[image.value]
    if not of.is_open and draft.chance(3):
        number = draft.choice(FILL_NUMBERS)
        parts.append(Image(draft.add(o.Fill(number, of.shape, is_constant=True)), image.layout))
    if draft.chance(2):
        parts.reverse()
    if sum(draft.types[part.value].element_count for part in parts) > MAX_TENSOR:
        return None
    return Image(draft.add(o.Concatenation(tuple(part.value for part in parts), dimension)), image.layout)


def sliced(draft: Draft, image: Image) -> Image:
    of = draft.types[image.value]
    if of.is_empty:
        # A slice has elements, which a batch of no images doesn't.
        return image
    offsets, sizes, steps = [], [], []
    for size in of.shape:
        if not draft.chance(2):
            offset, kept, step = 0, size, 1
        else:
            offset = draft.number(0, size - 1)
            step = draft.number(1, 2)
            kept = draft.number(1, (size - offset - 1) // step + 1)
            if is_open(size) and not draft.chance(4):
                # So many less than all.
                kept = (size - offset - 1) // step + 1 - draft.number(0, int(size - offset - 1) // step)
        offsets.append(offset)
        sizes.append(kept)
        steps.append(step)
    return Image(draft.add(o.Slice(image.value, tuple(offsets), tuple(sizes), tuple(steps))), image.layout)


def insertion(draft: Draft, image: Image) -> Image:
    """A part of the image overwritten by another of its parts."""
    part = sliced(draft, image)
    if part == image:
        return image
    of, whole = draft.types[part.value], draft.types[image.value]
    offsets = tuple(draft.number(0, size - kept) for size, kept in zip(whole.shape, of.shape, strict=True))
    part = elementwise(draft, part, [part], "unary") if draft.chance(2) else part
    ones = (1,) * len(offsets)
    return Image(draft.add(o.Insertion(part.value, image.value, offsets, ones)), image.layout)


def squeeze_and_excitation(draft: Draft, image: Image) -> Image:
    """The mean over each image gives factors, by a convolution of 1x1 or by themselves."""
    of = draft.types[image.value]
    spatial = [d for d, letter in enumerate(image.layout) if letter.isdigit()]
    means = draft.add(o.Reduction(image.value, tuple(spatial), "sum"))
    squeezed = draft.types[means]
    share = e.Number(1.0 / prod(int(of.shape[d]) for d in spatial))
    means = draft.add(o.Elementwise((means,), ((0, 1),), (apply("mul", a(0), share),), squeezed.shape))
    channel = image.layout.index("c")
    if draft.chance(2):
        ones = [of.shape[d] if d not in spatial else 1 for d in range(len(of.shape))]
        last = image.layout.endswith("c")
        # n x c becomes n x 1... x c, or n x c x 1...
        sizes = tuple(ones[1:])
        expanded = Image(draft.add(o.Expansion(means, 1, sizes)), image.layout)
        one = {image.layout[d]: 1 for d in spatial}
        assert last or image.layout.startswith("nc")
        weights = draft.constant(
            [*(1 for _ in spatial), ones[channel], ones[channel]]
            if last
            else [ones[channel], ones[channel], *(1 for _ in spatial)],
            ones[channel] ** -0.5,
        )
        digits = "".join(one)
        layouts = (
            image.layout,
            f"{digits}cf" if last else f"fc{digits}",
            image.layout.replace("c", "f"),
        )
        init = draft.fill(0.0, draft.types[expanded.value])
        unit = (1,) * len(spatial)
        draft.convolutions += 1
        value = draft.add(o.Convolution(expanded.value, weights, init, layouts, unit, unit, named=True))
        read: tuple[int | None, ...] = tuple(None if d in spatial else d for d in range(len(of.shape)))
        factors = elementwise(draft, Image(value, image.layout), [], "unary").value
    else:
        factors, read = means, (0, channel)
    identity = tuple(range(len(of.shape)))
    body = (apply("mul", a(0), a(1)),)
    return Image(
        draft.add(o.Elementwise((image.value, factors), (identity, read), body, of.shape)),
        image.layout,
    )


def normalization(draft: Draft, image: Image) -> Image:
    """Each group of channels, or the channels of each pixel, less their mean, over their deviation."""
    of, channel = draft.types[image.value], image.layout.index("c")
    if of.is_open or of.is_empty:
        # What a sum is divided by isn't known.
        return image
    channels, value = int(of.shape[channel]), image.value
    of_groups = draft.chance(2)
    reduced: tuple[int, ...] = (channel,)
    if of_groups:
        groups = draft.choice([each for each in range(1, channels + 1) if channels % each == 0])
        value = draft.add(o.Expansion(value, channel, (groups, channels // groups)))
        reduced = tuple(d for d in range(1, len(of.shape) + 1) if d != channel)
    shape = draft.types[value].shape
    identity = tuple(range(len(shape)))
    kept = tuple(d for d in identity if d not in reduced)
    share = e.Number(1.0 / prod(int(shape[d]) for d in reduced))

    def of_all(operands: tuple[int, ...], body: e.Expression) -> int:
        return draft.add(o.Elementwise(operands, (identity, kept)[: len(operands)], (body,), shape))

    def mean(of_what: int, body: e.Expression) -> int:
        total = draft.add(o.Reduction(of_what, reduced, "sum"))
        sizes = draft.types[total].shape
        return draft.add(o.Elementwise((total,), (tuple(range(len(sizes))),), (body,), sizes))

    centered = of_all((value, mean(value, apply("mul", a(0), share))), apply("sub", a(0), a(1)))
    variance = apply("add", apply("mul", a(0), share), e.Number(1e-5))
    deviation = mean(of_all((centered,), apply("mul", a(0), a(0))), apply("sqrt", variance))
    value = of_all((centered, deviation), apply("div", a(0), a(1)))
    if of_groups:
        value = draft.add(o.Collapse(value, channel))
    scale, shift = (draft.constant((channels,)) for _ in range(2))
    body = apply("add", apply("mul", a(0), a(1)), a(2))
    affine = (tuple(range(len(of.shape))), (channel,), (channel,))
    return Image(draft.add(o.Elementwise((value, scale, shift), affine, (body,), of.shape)), image.layout)


def softmax(draft: Draft, image: Image) -> Image:
    of = draft.types[image.value]
    if of.is_empty:
        # Nothing is the largest of nothing.
        return image
    rank = len(of.shape)
    return Image(softmax_along(draft, image.value, draft.number(1, rank - 1)), image.layout)


def softmax_along(draft: Draft, value: int, d: int) -> int:
    """The softmax of `value` along dimension `d`."""
    of = draft.types[value]
    identity = tuple(range(len(of.shape)))
    kept = tuple(other for other in identity if other != d)
    top = draft.add(o.Reduction(value, (d,), "max", begins_with_infinity=not draft.chance(3)))
    shifted = apply("exp", apply("sub", a(0), a(1)))
    powers = draft.add(o.Elementwise((value, top), (identity, kept), (shifted,), of.shape))
    whole = draft.add(o.Reduction(powers, (d,), "sum"))
    quotient = apply("div", a(0), a(1))
    return draft.add(o.Elementwise((powers, whole), (identity, kept), (quotient,), of.shape))


def transposition(draft: Draft, image: Image) -> Image:
    """To the other layout."""
    spatial = "".join(letter for letter in image.layout if letter.isdigit())
    layout = f"nc{spatial}" if image.layout.endswith("c") else f"n{spatial}c"
    permutation = tuple(image.layout.index(letter) for letter in layout)
    return Image(draft.add(o.Transposition(image.value, permutation)), layout)


def shuffle(draft: Draft, image: Image) -> Image:
    """Of channels, as in ShuffleNet, where a group may be the only one."""
    channel, size = image.layout.index("c"), draft.sizes(image)["c"]
    groups = [g for g in (1, 2, 3, 4) if size % g == 0]
    count = draft.choice(groups)
    value = draft.add(o.Expansion(image.value, channel, (count, size // count)))
    order = list(range(len(image.layout) + 1))
    order[channel], order[channel + 1] = channel + 1, channel
    value = draft.add(o.Transposition(value, tuple(order)))
    return Image(draft.add(o.Collapse(value, channel)), image.layout)


def resized(draft: Draft, image: Image) -> Image | None:
    """Larger by whole factors, or to other sizes, the nearest pixels repeated or left out."""
    of = draft.types[image.value]
    if of.is_empty:
        return None
    shape = list(of.shape)
    by_factors = not draft.chance(3)
    for d, letter in enumerate(image.layout):
        if letter.isdigit() and not draft.chance(4):
            shape[d] = _resized(draft, shape[d], by_factors)
    if Tensor.of(shape).is_empty or Tensor.of(shape).element_count > 2 * MAX_TENSOR:
        return None
    value = draft.add(o.Resizing(image.value, tuple(shape), in_floats=draft.chance(2)))
    return epilogue(draft, Image(value, image.layout), [])


def _resized(draft: Draft, size: int, by_factors: bool) -> int:
    if by_factors:
        return size * draft.number(1, 4)
    if is_open(size) and not draft.chance(4):
        return size * draft.number(1, 3) // draft.number(1, 4) + draft.number(0, 2)
    return draft.number(1, 2 * int(size) + 3)


def residual(draft: Draft, image: Image, images: Sequence[Image]) -> Image:
    """A block that keeps the shape, added to what it was applied to."""
    inner = same_convolution(draft, image)
    inner = epilogue(draft, inner, [image])
    return elementwise(draft, inner, [image], "image")


def repeated(draft: Draft, layer: Layer, image: Image) -> Image:
    """`layer` on an `image` of the same type, with constants and arguments of its own.

    As blocks of networks do, it asks for the kernels that there are.
    """
    count, shift = len(draft.types), draft.number(1, 1000)
    numbers = {value: value for value in range(layer.first)} | {layer.image.value: image.value}
    for operation in layer.operations:
        if isinstance(operation, o.Constant):
            operation = replace(operation, seed=(operation.seed + shift) % 1001)
        draft.add(renumbered(operation, numbers, layer.first, count))
    return Image(layer.result.value - layer.first + count, layer.result.layout)


def _block(draft: Draft, image: Image) -> p.Block:
    """Operations on `image` that keep its type, with values and types of their own."""
    inner = Draft(draft.draw, list(draft.types), is_nested=True)
    result = image
    if draft.chance(3):
        result = elementwise(inner, result, [image], draft.choice(("relu", "unary", "channel")))
    result = same_convolution(inner, result)
    result = epilogue(inner, result, [image])
    # What a loop repeats has to stay small.
    result = elementwise(inner, result, [image], "unary")
    draft.convolutions += inner.convolutions
    return p.Block(tuple(inner.operations), (result.value,))


def loop(draft: Draft, image: Image) -> Image:
    state = len(draft.types)
    inner = Draft(draft.draw, [*draft.types, draft.types[image.value]], is_nested=True)
    body = _block(inner, Image(state, image.layout))
    draft.convolutions += inner.convolutions
    return Image(draft.add(p.Loop(draft.number(1, 3), image.value, body)), image.layout)


def branch(draft: Draft, image: Image) -> Image:
    of = draft.types[image.value]
    candidates = (0, draft.constant([2]))
    # An image may be one of no images.
    first = draft.types[0]
    condition = draft.choice(candidates[1:] if first.is_empty or first.is_open else candidates)
    then, otherwise = _block(draft, image), _block(draft, image)
    return Image(draft.add(p.Branch(condition, then, otherwise, of)), image.layout)
