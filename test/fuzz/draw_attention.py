"""Attention between convolutions: products of matrices that are known when the program runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import expressions as e
import operations as o
from draft import Draft, Image
from draw_elementwise import a, apply, elementwise
from draw_layers import softmax_along
from open_size import is_open
from tensors import Tensor

TOKENS = (1, 7, 17, 49, 49, 197)
WIDTHS = (3, 8, 24, 33, 64)
MAX_SCORES = 90_000
"""Elements of the scores of all heads."""


@dataclass(frozen=True)
class Matrices:
    """A batch of matrices, and the letters of their dimensions."""

    value: int
    layout: str


def attention(draft: Draft, image: Image) -> Image | None:
    """Mixtures of tokens, weighted by the softmax of products, as an image; or the products themselves."""
    of = draft.types[image.value]
    if of.is_empty or any(map(is_open, of.shape[1:])):
        return None
    tokens = _tokens(draft, image)
    batch, _, width = draft.types[tokens].shape
    projected = _projected(draft, tokens) if draft.chance(2) else None
    queries = _stream(draft, tokens, projected, 0)
    width = draft.types[queries].shape[2]
    keys = _stream(draft, tokens, projected, 1, like=queries)
    heads = 1 if of.is_open else draft.choice([h for h in (1, 2, 3, 4, 8) if width % h == 0])
    rows, columns = draft.types[queries].shape[1], draft.types[keys].shape[1]
    if batch * heads * rows * columns > MAX_SCORES:
        return None
    scaled = draft.choice(("queries", "keys", "scores", "nothing"))
    factor = e.Number((width // heads) ** -0.5)
    left = _heads(draft, queries, heads, "bmk", factor if scaled == "queries" else None)
    # Keys are transposed, or read so.
    swapped = draft.chance(2)
    layout = "bkn" if swapped else "bnk"
    right = _heads(draft, keys, heads, layout, factor if scaled == "keys" else None, swapped)
    if draft.chance(6):
        # As in factorized attention, over all tokens.
        right = Matrices(softmax_along(draft, right.value, layout.index("n")), layout)
    scores = _product(draft, left, right)
    if scaled == "scores":
        scores = _times(draft, scores, factor)
    if draft.chance(6):
        return _as_image(draft, scores, image, heads)
    if draft.chance(3):
        scores = _masked(draft, scores)
    scores = _weights(draft, scores, batch, heads)
    values = _stream(draft, tokens, projected, 2, tokens_of=keys)
    inner = draft.types[values].shape[2]
    if inner % heads:
        return None
    weights = Matrices(scores, "bmk")
    if draft.chance(6):
        weights = Matrices(draft.add(o.Transposition(scores, (0, 2, 1))), "bkm")
    mixtures = _product(draft, weights, _heads(draft, values, heads, "bkn", None))
    return _as_image(draft, mixtures, image, heads)


def _tokens(draft: Draft, image: Image) -> int:
    """The pixels of an image, as n x tokens x channels."""
    value = image.value
    is_last = image.layout.endswith("c")
    for _ in range(len(image.layout) - 3):
        value = draft.add(o.Collapse(value, 1 if is_last else 2))
    return value if is_last else draft.add(o.Transposition(value, (0, 2, 1)))


def _projected(draft: Draft, tokens: int) -> int:
    """Queries, keys and values side by side, by a fully connected layer."""
    batch, count, channels = draft.types[tokens].shape
    width = draft.choice((*WIDTHS, channels))
    weights = draft.constant([1, channels, 3 * width], channels**-0.5)
    init = draft.fill(0.0, Tensor.of([batch, count, 3 * width]))
    draft.convolutions += 1
    return draft.add(o.Convolution(tokens, weights, init, ("n0c", "0cf", "n0f"), (1,), (1,), named=True))


def _stream(
    draft: Draft,
    tokens: int,
    projected: int | None,
    part: int,
    like: int | None = None,
    tokens_of: int | None = None,
) -> int:
    """Queries, keys or values: with the channels of `like`, or the tokens of `tokens_of`, if given."""
    known = [number for number in (like, tokens_of) if number is not None]

    def fits(of: Tensor) -> bool:
        return (like is None or of.shape[2] == draft.types[like].shape[2]) and (
            tokens_of is None or of.shape[1] == draft.types[tokens_of].shape[1]
        )

    of = draft.types[tokens]
    options = []
    if projected is not None:
        batch, count, width = draft.types[projected].shape
        width //= 3
        if fits(Tensor((batch, count, width))):
            options += ["slice"] * 4
    if fits(of):
        options += ["tokens", "elementwise", "part"]
    options += ["argument"] * (not draft.is_nested) + ["constant"] * (not of.is_open and bool(known))
    if not options:
        options = ["filled"]
    kind = draft.choice(options)
    if kind == "slice":
        assert projected is not None
        return draft.add(o.Slice(projected, (0, 0, part * width), (batch, count, width), (1, 1, 1)))
    if kind == "tokens":
        return tokens
    if kind == "elementwise":
        return elementwise(draft, Image(tokens, "n0c"), [], "unary").value
    count, width = draft.choice((*TOKENS, of.shape[1])), draft.choice((*WIDTHS, of.shape[2]))
    if like is not None:
        width = draft.types[like].shape[2]
    if tokens_of is not None:
        count = draft.types[tokens_of].shape[1]
    shape = (of.shape[0], count, width)
    if kind == "part":
        # Some of the tokens, or of the channels; other tokens of which there are several users.
        step = draft.number(1, 2)
        kept = of.shape[1] if tokens_of is not None else draft.number(1, (of.shape[1] - 1) // step + 1)
        step = 1 if tokens_of is not None else step
        inner = of.shape[2] if like is not None else draft.number(1, of.shape[2])
        first = draft.number(0, of.shape[1] - 1 - (kept - 1) * step)
        return draft.add(
            o.Slice(
                tokens,
                (0, first, draft.number(0, of.shape[2] - inner)),
                (of.shape[0], kept, inner),
                (1, step, 1),
            )
        )
    if kind == "constant":
        return draft.constant(shape)
    if kind == "filled":
        return draft.fill(0.5, Tensor.of(shape))
    return draft.add(o.Input(shape))


def _heads(
    draft: Draft, value: int, heads: int, layout: str, factor: e.Number | None, swapped: bool = False
) -> Matrices:
    """The matrices of each head, in one of several orders of operations; `swapped`, channels first."""
    batch, _, width = draft.types[value].shape
    early = draft.chance(2)
    if factor is not None and early:
        value = _times(draft, value, factor)
    if heads > 1 or (not draft.types[value].is_open and draft.chance(2)):
        value = draft.add(o.Expansion(value, 2, (heads, width // heads)))
        if batch == 1 and draft.chance(3):
            # Without the batch, as of one image.
            value = draft.add(o.Collapse(value, 0))
            value = draft.add(o.Transposition(value, (1, 2, 0) if swapped else (1, 0, 2)))
        else:
            value = draft.add(o.Transposition(value, (0, 2, 3, 1) if swapped else (0, 2, 1, 3)))
            value = draft.add(o.Collapse(value, 0))
    elif swapped:
        value = draft.add(o.Transposition(value, (0, 2, 1)))
    if factor is not None and not early:
        value = _times(draft, value, factor)
    return Matrices(value, layout)


def _times(draft: Draft, value: int, factor: e.Number) -> int:
    of = draft.types[value]
    identity = tuple(range(len(of.shape)))
    return draft.add(o.Elementwise((value,), (identity,), (apply("mul", a(0), factor),), of.shape))


def _product(draft: Draft, left: Matrices, right: Matrices) -> int:
    sizes = dict(zip(left.layout, draft.types[left.value].shape, strict=True))
    sizes |= dict(zip(right.layout, draft.types[right.value].shape, strict=True))
    of = Tensor.of([sizes[letter] for letter in "bmn"])
    init = draft.fill(0.0, of)
    if draft.chance(8):
        init = draft.fill(1.0, of) if of.is_open or draft.chance(2) else draft.constant(of.shape)
    layouts = (left.layout, right.layout, "bmn")
    return draft.add(o.Product(left.value, right.value, init, layouts, named=not draft.chance(6)))


def _masked(draft: Draft, scores: int) -> int:
    """Scores to which a number for each query and key is added."""
    of = draft.types[scores]
    mask = draft.constant(of.shape[1:])
    body = (apply("add", a(0), a(1)),)
    return draft.add(o.Elementwise((scores, mask), ((0, 1, 2), (1, 2)), body, of.shape))


def _weights(draft: Draft, scores: int, batch: int, heads: int) -> int:
    """The softmax of rows, or columns, whose heads may be a dimension of their own."""
    of = draft.types[scores]
    dimension = 1 if draft.chance(6) else 2
    if of.is_open or not draft.chance(2):
        return softmax_along(draft, scores, dimension)
    split = draft.add(o.Expansion(scores, 0, (batch, heads)))
    return draft.add(o.Collapse(softmax_along(draft, split, dimension + 1), 0))


def _as_image(draft: Draft, products: int, image: Image, heads: int) -> Image:
    """Products of heads side by side: an image like `image`, if rows are its pixels, or of tokens."""
    of = draft.types[image.value]
    value, layout = products, "n0c"
    rows = draft.types[products].shape[1]
    if not of.is_open:
        value = draft.add(o.Expansion(value, 0, (of.shape[0], heads)))
        value = draft.add(o.Collapse(draft.add(o.Transposition(value, (0, 2, 1, 3))), 2))
    spatial = [size for size, letter in zip(of.shape, image.layout, strict=True) if letter.isdigit()]
    if rows == prod(spatial) and not draft.chance(3):
        if len(spatial) > 1:
            value = draft.add(o.Expansion(value, 1, tuple(spatial)))
        digits = "".join(map(str, range(len(spatial))))
        layout = f"n{digits}c"
        if image.layout != layout:
            last = len(layout) - 1
            value = draft.add(o.Transposition(value, (0, last, *range(1, last))))
        layout = image.layout
    elif draft.chance(4):
        # Its user transposes and cuts it.
        value = draft.add(o.Transposition(value, (0, 2, 1)))
        batch, width, count = draft.types[value].shape
        kept = draft.number(1, count)
        first = draft.number(0, count - kept)
        value = draft.add(o.Slice(value, (0, 0, first), (batch, width, kept), (1, 1, 1)))
        layout = "nc0"
    result = Image(value, layout)
    if draft.types[value] == of and draft.chance(2):
        result = elementwise(draft, result, [image], "image")
    return result
