"""Elementwise operations: activations, biases, and what else follows convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import expressions as e
import operations as o
from draft import Draft, Image
from open_size import is_open
from tensors import Tensor

EPILOGUE_KINDS = ("relu", "unary", "channel", "row", "image", "index", "captured", "results", "reads init")


def a(number: int) -> e.Argument:
    return e.Argument(number)


def apply(operation: str, *operands: e.Expression) -> e.Apply:
    return e.Apply(operation, operands)


def unary_expressions(captured: bool) -> dict[str, e.Expression]:
    """Activations of the first argument, with constants inside or outside of the body."""

    def number(value: float) -> e.Number:
        return e.Number(value, captured)

    x = a(0)
    one = number(1.0)
    sigmoid = apply("div", one, apply("add", one, apply("exp", apply("neg", x))))
    gate = apply("min", apply("max", apply("add", x, number(3.0)), number(0.0)), number(6.0))
    return {
        "relu": apply("max", x, number(0.0)),
        "relu by select": apply("select_greater", x, number(0.0), x, number(0.0)),
        "leaky relu": apply("select_greater", x, number(0.0), x, apply("mul", x, number(0.1))),
        "relu6": apply("min", apply("max", x, number(0.0)), number(6.0)),
        "tanh": apply("tanh", x),
        "sigmoid": sigmoid,
        "silu": apply("mul", x, sigmoid),
        "hard swish": apply("div", apply("mul", x, gate), number(6.0)),
        "gelu": apply(
            "mul",
            apply("mul", x, number(0.5)),
            apply("add", one, apply("erf", apply("mul", x, number(0.70710678)))),
        ),
        "affine": apply("add", apply("mul", x, number(0.75)), number(-0.25)),
        "number": number(0.5),
        "negated": apply("neg", x),
        "root": apply("sqrt", apply("add", apply("abs", x), one)),
        "itself": x,
    }


BINARY: dict[str, Callable[[e.Expression, e.Expression], e.Expression]] = {
    "add": lambda x, y: apply("add", x, y),
    "sub": lambda x, y: apply("sub", x, y),
    "reversed sub": lambda x, y: apply("sub", y, x),
    "mul": lambda x, y: apply("mul", x, y),
    "max": lambda x, y: apply("max", x, y),
    "div": lambda x, y: apply("div", x, apply("add", apply("abs", y), e.Number(1.0))),
    "gate": lambda x, y: apply("mul", x, apply("tanh", y)),
    "add and relu": lambda x, y: apply("max", apply("add", x, y), e.Number(0.0)),
}


def elementwise(draft: Draft, image: Image, images: Sequence[Image], kind: str | None = None) -> Image:
    kind = draft.choice(EPILOGUE_KINDS) if kind is None else kind
    of = draft.types[image.value]
    rank = len(of.shape)
    identity = tuple(range(rank))
    captured = draft.chance(2)
    combine = BINARY[draft.choice(BINARY)]
    sources: list[int] = [image.value]
    maps: list[tuple[int | None, ...]] = [identity]
    body: tuple[e.Expression, ...]
    init = None
    if kind == "relu":
        body = (unary_expressions(captured)["relu"],)
    elif kind == "unary":
        known = unary_expressions(captured)
        body = (known[draft.choice(known)],)
    elif kind in ("channel", "row"):
        letter = "c" if kind == "channel" else draft.choice(_known_letters(of, image))
        position = image.layout.index(letter)
        size = of.shape[position]
        form = draft.choice(("vector", "with ones", "with a one"))
        if form == "vector":
            sources.append(draft.constant([size]))
            maps.append((position,))
        elif form == "with ones":
            sources.append(draft.constant([size if d == position else 1 for d in range(rank)]))
            maps.append(tuple(position if d == position else None for d in range(rank)))
        else:
            vector = draft.constant([size])
            sources.append(draft.add(o.Expansion(vector, 0, (size, 1))))
            maps.append((position, None))
        body = (combine(a(0), a(1)),)
    elif kind == "image":
        others = [other for other in images if draft.types[other.value] == of]
        sources.append(draft.choice(others).value if others else image.value)
        maps.append(identity)
        body = (combine(a(0), a(1)),)
    elif kind == "index":
        dimension = draft.number(0, rank - 1)
        body = (combine(a(0), apply("mul", e.Position(dimension), e.Number(0.125))),)
    elif kind == "captured":
        value = draft.constant(draft.choice([(), (1,), (3,)]))
        body = (combine(a(0), e.Captured(value)),)
    elif kind == "results":
        known = unary_expressions(captured)
        body = (known[draft.choice(known)], combine(a(0), e.Number(0.5)))
    else:
        others = [other for other in images if draft.types[other.value] == of]
        init = draft.choice(others).value if others else image.value
        body = (combine(a(0), a(1)),)
    value = draft.add(o.Elementwise(tuple(sources), tuple(maps), body, of.shape, init))
    return Image(value, image.layout)


def _known_letters(of: Tensor, image: Image) -> list[str]:
    """Those of dimensions whose size a constant may have."""
    return [letter for letter, size in zip(image.layout, of.shape, strict=True) if not is_open(size)]


def epilogue(draft: Draft, image: Image, images: Sequence[Image]) -> Image:
    if draft.only_convolutions:
        fused = ("relu", "unary", "channel", "image")
        return elementwise(draft, image, images, draft.choice(fused)) if draft.chance(2) else image
    for _ in range(draft.choice((0, 1, 1, 2, 3))):
        image = elementwise(draft, image, images)
    return image
