"""Hypothesis strategies for programs as torch-mlir, the ONNX importer and StableHLO write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
    normalization,
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
from open_size import at, named
from shrinking import used_values
from tensors import InvalidProgramError, Tensor


@st.composite
def programs(draw: st.DrawFn, only_open: bool = False, kinds: Sequence[str] | None = None) -> p.Program:
    """`only_open` says whether all functions have images of open sizes, `kinds` which steps they have."""
    # Compiling a program costs more than compiling one more function of it.
    count = draw(st.sampled_from((1, 4, 4, 6, 8)))
    drawn = [draw(functions(only_open, kinds)) for _ in range(count)]
    # IREE 3.13 fails on functions of dynamic sizes that are called: "operation's operand is unlinked".
    callable_ = [each for each in drawn if not each.output_argument and not _is_open(each)]
    if callable_ and draw(st.integers(0, 2)) == 2:
        drawn.append(draw(callers(draw(st.sampled_from(callable_)))))
    return p.Program(tuple(drawn))


def _is_open(function: p.Function) -> bool:
    return any(Tensor(each.shape).is_open for each in function.inputs)


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
def functions(
    draw: st.DrawFn, only_open: bool, kinds: Sequence[str] | None = None, *, repeats: bool = True
) -> p.Function:
    """`kinds` are those of its steps, if that isn't drawn; `repeats`: whether layers come several times."""
    rank = draw(st.sampled_from([2, 2, 2, 1, 3]))
    spatial = "".join(map(str, range(rank)))
    layouts = [f"n{spatial}c", f"nc{spatial}"]
    open_letters = draw(_open_letters(spatial, only_open))
    batch = draw(st.sampled_from((1, 2, 3, 1, 2, 3, 0) if "n" in open_letters else (1, 2, 3)))
    size = [draw(st.integers(1, (40, 14, 7)[rank - 1])) for _ in range(rank)]
    channels = draw(st.one_of(st.integers(1, 8), st.sampled_from([16, 17, 24, 32, 33, 64])))
    while batch * prod(size) * channels > MAX_TENSOR:
        channels = (channels + 1) // 2
        size = [(extent + 1) // 2 for extent in size]
    layout = draw(st.sampled_from(layouts))
    sizes = {"n": batch, "c": channels} | {str(d): extent for d, extent in enumerate(size)}
    sizes |= {letter: named(SIZE_NAMES[letter], sizes[letter]) for letter in open_letters}
    image = Tensor.of(sizes[letter] for letter in layout)
    drawn = (ONLY_CONVOLUTIONS, ONLY_CONVOLUTIONS, ANY_STEPS, WITH_ATTENTION)
    steps = kinds or draw(st.sampled_from(drawn))
    draft = Draft(draw, [], only_convolutions=steps == ONLY_CONVOLUTIONS)
    current = [Image(draft.add(o.Input(image.shape)), layout)]
    for _ in range(draw(st.sampled_from((1, 2, 4, 4, 6)))):
        _step(draft, current, steps, repeats=repeats)
    results = _results(draft)
    output_argument = draw(st.integers(0, 5)) == 5 and not draft.types[results[0]].is_open
    function = p.Function(tuple(draft.operations), results, output_argument)
    if not open_letters:
        return function
    names = [SIZE_NAMES[letter] for letter in open_letters]
    runs = draw(_runs(names, (RUN_SIZES, RUN_SIZES[:-5], RUN_SIZES[:-9])[rank - 1]))
    function = replace(function, sizes_of_arguments=draw(st.booleans()))
    return replace(function, other_runs=tuple(run for run in runs if _fits(function, run)))


SIZE_NAMES = {"n": "batch", "0": "first size", "1": "second size", "2": "third size"}
RUN_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17, 23, 31, 37, 64, 97)
"""Of a dimension of an image: below a tile and a register block, primes, and more than is expected."""
MAX_RUN_TENSOR = 4 * MAX_TENSOR


@st.composite
def _open_letters(draw: st.DrawFn, spatial: str, only_open: bool) -> list[str]:
    """The dimensions whose size is open: none, the batch, or any of them."""
    kinds = ("sizes", "sizes", "sizes") if only_open else ("none", "none", "batch", "sizes")
    kind = draw(st.sampled_from(kinds))
    if kind == "sizes":
        chosen = draw(st.lists(st.sampled_from(spatial), min_size=1, unique=True).map(sorted))
        return [*chosen, *(["n"] if draw(st.integers(0, 2)) == 2 else [])]
    return ["n"] if kind == "batch" else []


@st.composite
def _runs(draw: st.DrawFn, names: Sequence[str], sizes: Sequence[int]) -> list[p.Run]:
    """Runs to be tried; dimensions of no elements are rare."""

    def run() -> p.Run:
        return tuple(
            (name, draw(st.sampled_from((0, 1, 2, 3, 5) if name == "batch" else (*sizes, *sizes[-4:], 0))))
            for name in names
        )

    return [run() for _ in range(4)]


def _fits(function: p.Function, run: p.Run) -> bool:
    """Whether a function is defined in a run, and its tensors are small."""
    types: list[Tensor] = []
    try:
        p.infer_block(at(function, dict(run)), types)
    except InvalidProgramError:
        return False
    return max(of.element_count for of in types) <= MAX_RUN_TENSOR


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
    "normalization",
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

BETWEEN = (
    *("convolution",) * 3,
    *("normalization",) * 2,
    "pooling",
    "concatenation",
    "squeeze and excitation",
    "softmax",
    "elementwise",
    "resizing",
)
"""What there are kernels for on GPUs beside those of convolutions."""


def _step(draft: Draft, images: list[Image], steps: Sequence[str], *, repeats: bool) -> None:
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
    elif kind == "normalization":
        result = normalization(draft, image)
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
    if not repeats:
        return
    layer = Layer(tuple(draft.operations[before:]), first, image, result)
    # Of layers that ask for the same kernels, each costs a fraction of what others do.
    times = (0, 0, 1, 2) if kind == "attention" else (0, 4, 8, 16)
    for _ in range(draft.choice(times) if draft.convolutions else 0):
        same = [other for other in images if _has_type(draft, other, image)]
        images.append(repeated(draft, layer, draft.choice(same[-3:])))


def _has_type(draft: Draft, image: Image, other: Image) -> bool:
    return (image.layout, draft.types[image.value]) == (other.layout, draft.types[other.value])
