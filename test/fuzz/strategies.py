"""Hypothesis strategies for programs as torch-mlir, the ONNX importer and StableHLO write them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import operations as o
import program as p
from draft import MAX_TENSOR, Draft, Image, Layer
from draw_attention import attention
from draw_convolution import convolution
from draw_elementwise import elementwise
from draw_layers import (
    branch,
    concatenation,
    insertion,
    loop,
    pooling,
    repeated,
    residual,
    resized,
    shuffle,
    sliced,
    softmax,
    squeeze_and_excitation,
    transposition,
)
from hypothesis import strategies as st
from shrinking import used_values
from tensors import Tensor


@st.composite
def programs(draw: st.DrawFn) -> p.Program:
    # Compiling a program costs more than compiling one more function of it.
    count = draw(st.sampled_from((1, 4, 4, 6, 8)))
    drawn = [draw(functions()) for _ in range(count)]
    # IREE 3.13 fails on functions of dynamic sizes that are called: "operation's operand is unlinked".
    callable_ = [each for each in drawn if not each.output_argument and not _is_dynamic(each)]
    if callable_ and draw(st.integers(0, 2)) == 2:
        drawn.append(draw(callers(draw(st.sampled_from(callable_)))))
    return p.Program(tuple(drawn))


def _is_dynamic(function: p.Function) -> bool:
    return any(each.dynamic for each in function.inputs)


@st.composite
def callers(draw: st.DrawFn, callee: p.Function) -> p.Function:
    """A function that calls another, with layers before, between and after."""
    draft = Draft(draw, [])
    arguments = [draft.add(o.Input(each.shape)) for each in callee.inputs]
    for _ in range(draft.number(1, 2)):
        taken = list(arguments)
        for number, argument in enumerate(arguments):
            # What was computed before, where it is of the type.
            same = [value for value, of in enumerate(draft.types) if of == draft.types[argument]]
            taken[number] = draft.choice([argument, *same])
        first = len(draft.types)
        draft.add(p.Call(tuple(taken), callee))
        for value in range(first, len(draft.types)):
            spatial = "".join(map(str, range(len(draft.types[value].shape) - 2)))
            if spatial:
                image = Image(value, draft.choice((f"n{spatial}c", f"nc{spatial}")))
                layer = draft.choice((elementwise, convolution))
                layer(draft, image, [image])
    return p.Function(tuple(draft.operations), _results(draft))


@st.composite
def functions(draw: st.DrawFn) -> p.Function:
    rank = draw(st.sampled_from([2, 2, 2, 1, 3]))
    spatial = "".join(map(str, range(rank)))
    layouts = [f"n{spatial}c", f"nc{spatial}"]
    dynamic = draw(st.integers(0, 3)) == 3
    batch = draw(st.sampled_from((1, 2, 3, 1, 2, 3, 0) if dynamic else (1, 2, 3)))
    size = [draw(st.integers(1, (40, 14, 7)[rank - 1])) for _ in range(rank)]
    channels = draw(st.one_of(st.integers(1, 8), st.sampled_from([16, 17, 24, 32, 33, 64])))
    while batch * prod(size) * channels > MAX_TENSOR:
        channels = (channels + 1) // 2
        size = [(extent + 1) // 2 for extent in size]
    layout = draw(st.sampled_from(layouts))
    sizes = {"n": batch, "c": channels} | {str(d): extent for d, extent in enumerate(size)}
    image = Tensor(tuple(sizes[letter] for letter in layout), dynamic)
    steps = draw(st.sampled_from((ONLY_CONVOLUTIONS, ONLY_CONVOLUTIONS, ANY_STEPS, WITH_ATTENTION)))
    draft = Draft(draw, [], only_convolutions=steps == ONLY_CONVOLUTIONS)
    current = [Image(draft.add(o.Input(image.shape, image.dynamic)), layout)]
    for _ in range(draw(st.sampled_from((1, 2, 4, 4, 6)))):
        _step(draft, current, steps)
    results = _results(draft)
    output_argument = draw(st.integers(0, 5)) == 5 and not draft.types[results[0]].dynamic
    return p.Function(tuple(draft.operations), results, output_argument)


def _results(draft: Draft) -> tuple[int, ...]:
    """Of a function: what nothing uses, as operations without a use are removed, and some other value."""
    used = {operand for operation in draft.operations for operand in used_values(operation)}
    computed = [value for value in range(len(draft.types)) if not _is_given(draft.producer(value))]
    unused = [value for value in computed if value not in used]
    results = unused or [len(draft.types) - 1]
    if draft.chance(8):
        results.append(draft.number(0, len(draft.types) - 1))
    return tuple(results)


def _is_given(operation: p.Operation | None) -> bool:
    """Whether nothing has to be computed."""
    return isinstance(operation, o.Input | o.Constant | o.Fill)


ONLY_CONVOLUTIONS = ("convolution",)
WITH_ATTENTION = ("attention", "attention", "attention", "convolution", "resizing", "concatenation")
ANY_STEPS = (
    *("convolution",) * 11,
    "pooling",
    "concatenation",
    "slice",
    "squeeze and excitation",
    "softmax",
    "transposition",
    "shuffle",
    "residual",
    "loop",
    "branch",
    "elementwise",
    "insertion",
    "attention",
    "resizing",
)


def _step(draft: Draft, images: list[Image], steps: Sequence[str]) -> None:
    """Add one of `steps`, a layer, to `images`, those that may be read."""
    image = images[-1] if not draft.chance(4) else draft.choice(images)
    first, before = len(draft.types), len(draft.operations)
    kind = draft.choice(steps)
    result: Image | None
    if kind == "convolution":
        result = convolution(draft, image, images)
    elif kind == "pooling":
        result = pooling(draft, image)
    elif kind == "concatenation":
        result = concatenation(draft, image, images)
    elif kind == "slice":
        result = sliced(draft, image)
    elif kind == "squeeze and excitation":
        result = squeeze_and_excitation(draft, image)
    elif kind == "softmax":
        result = softmax(draft, image)
    elif kind == "transposition":
        result = transposition(draft, image)
    elif kind == "shuffle":
        result = shuffle(draft, image)
    elif kind == "residual":
        result = residual(draft, image, images)
    elif kind == "loop":
        result = loop(draft, image)
    elif kind == "branch":
        result = branch(draft, image)
    elif kind == "insertion":
        result = insertion(draft, image)
    elif kind == "attention":
        result = attention(draft, image)
    elif kind == "resizing":
        result = resized(draft, image)
    else:
        result = elementwise(draft, image, images)
    if result is None:
        return
    images.append(result)
    layer = Layer(tuple(draft.operations[before:]), first, image, result)
    # Of layers that ask for the same kernels, each costs a fraction of what others do.
    times = (0, 0, 1, 2) if kind == "attention" else (0, 4, 8, 16)
    for _ in range(draft.choice(times) if draft.convolutions else 0):
        same = [other for other in images if _has_type(draft, other, image)]
        images.append(repeated(draft, layer, draft.choice(same[-3:])))


def _has_type(draft: Draft, image: Image, other: Image) -> bool:
    return (image.layout, draft.types[image.value]) == (other.layout, draft.types[other.value])
