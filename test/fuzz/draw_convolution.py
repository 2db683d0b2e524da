"""Convolutions of every kind, layout and size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import operations as o
from building import NAMES
from draft import MAX_TENSOR, Draft, Image
from draw_elementwise import elementwise, epilogue
from draw_operands import dilated, filter_of, init_of, pad, without_unread
from hypothesis import strategies as st
from tensors import Tensor

MAX_PRODUCTS = 400_000
"""Of a convolution."""
KINDS = ("plain", "plain", "plain", "grouped", "depthwise", "multiplied")


def convolution(draft: Draft, image: Image, images: Sequence[Image]) -> Image:
    spatial = "".join(letter for letter in image.layout if letter.isdigit())
    rank = len(spatial)
    is_dilated = not draft.only_convolutions and draft.chance(8)
    if is_dilated:
        image = dilated(draft, image, spatial)
    sizes = draft.sizes(image)
    kernel, strides, dilations = {}, {}, {}
    low, high = {}, {}
    largest = {1: 9, 2: 5, 3: 3}[rank]
    window = draft.choice(("3", "3", "1", "any"))
    same = draft.chance(2)
    for letter in spatial:
        kernel[letter] = int(window) if window != "any" else draft.number(1, largest)
        strides[letter] = draft.choice((1, 1, 1, 2, 3))
        dilations[letter] = draft.choice((1, 1, 1, 2, 3)) if kernel[letter] > 1 else 1
        if is_dilated:
            # It has its margins already.
            kernel[letter] = min(kernel[letter], int(sizes[letter] - 1) // dilations[letter] + 1)
        reach = dilations[letter] * (kernel[letter] - 1)
        if same:
            low[letter] = high[letter] = reach // 2
        else:
            low[letter], high[letter] = draft.number(-1, 3), draft.number(-1, 3)
        missing = reach + 1 - (low[letter] + sizes[letter] + high[letter])
        if missing > 0:
            high[letter] += int(missing)
    number = draft.choice((0.0, 0.0, 0.0, 0.0, 0.5, -1.5))
    if not is_dilated:
        image = pad(draft, image, low, high, number)
    image = without_unread(draft, image, kernel, strides, dilations)
    return _convolution_of(draft, image, images, kernel, strides, dilations)


def _convolution_of(
    draft: Draft,
    image: Image,
    images: Sequence[Image],
    kernel: dict[str, int],
    strides: dict[str, int],
    dilations: dict[str, int],
) -> Image:
    spatial = "".join(letter for letter in image.layout if letter.isdigit())
    sizes = draft.sizes(image)
    channels = sizes["c"]
    kind = draft.choice(KINDS)
    groups = 1
    if kind == "grouped":
        groups = draft.choice([g for g in (2, 3, 4, 8) if channels % g == 0] or [1])
        kind = "grouped" if groups > 1 else "plain"
    outputs = draft.draw(st.one_of(st.integers(1, 8), st.sampled_from([16, 17, 31, 32, 48])))
    if kind in ("grouped", "multiplied"):
        outputs = min(outputs, 4)
    positions = o.windows(
        sizes,
        tuple(kernel[d] for d in spatial),
        tuple(strides[d] for d in spatial),
        tuple(dilations[d] for d in spatial),
    )
    group_inputs = 1 if kind in ("depthwise", "multiplied") else channels // groups
    output_channels = {"plain": outputs, "grouped": groups * outputs, "depthwise": channels}.get(
        kind, channels * outputs
    )
    elements = prod(map(int, (sizes["n"], *positions.values())))
    while (
        (
            elements * output_channels > MAX_TENSOR
            or elements * output_channels * group_inputs * prod(kernel.values()) > MAX_PRODUCTS
        )
        and outputs > 1
        and kind != "depthwise"
    ):
        output_channels, outputs = output_channels // outputs, 1
    last = image.layout.endswith("c")
    channel_letters = {"plain": "c", "grouped": "gc", "depthwise": "g", "multiplied": "g"}[kind]
    result_letters = {"plain": "f", "grouped": "gf", "depthwise": "g", "multiplied": "gf"}[kind]
    source_layout = image.layout.replace("c", channel_letters)
    result_layout = image.layout.replace("c", result_letters)
    filter_letters = [*dict.fromkeys(channel_letters + result_letters)]
    layouts = _filter_layouts(draft, source_layout, result_layout, filter_letters, spatial, last)
    value = image.value
    if kind == "grouped":
        value = draft.add(o.Expansion(value, image.layout.index("c"), (groups, channels // groups)))
    letters = {"g": groups if kind == "grouped" else channels, "c": group_inputs, "f": outputs}
    letters |= kernel
    scale = 1.0 / (group_inputs * prod(kernel.values())) ** 0.5
    filters = filter_of(draft, [letters[letter] for letter in layouts[1]], scale, layouts[1], spatial)
    letters |= positions | {"n": sizes["n"]}
    result = Tensor(tuple(letters[letter] for letter in result_layout))
    init = init_of(draft, result, result_layout, images)
    draft.convolutions += 1
    convolution = draft.add(
        o.Convolution(
            value,
            filters,
            init,
            layouts,
            tuple(strides[d] for d in spatial),
            tuple(dilations[d] for d in spatial),
            named=not draft.chance(4),
        )
    )
    # The epilogue may come before the groups are joined, or after.
    if result_letters == "gf" and draft.chance(3):
        convolution = elementwise(
            draft, Image(convolution, result_layout), [], draft.choice(("relu", "unary", "row"))
        ).value
    if result_letters == "gf":
        convolution = draft.add(o.Collapse(convolution, result_layout.index("g")))
    outputs_image = Image(convolution, image.layout)
    return epilogue(draft, outputs_image, images)


def _filter_layouts(
    draft: Draft, source: str, result: str, channels: Sequence[str], spatial: str, last: bool
) -> tuple[str, str, str]:
    """The layouts of input, filter and output: those of a named operation, or with any filter."""
    named = [
        name
        for name in NAMES
        if name[0] == source and name[2] == result and set(name[1]) == {*channels, *spatial}
    ]
    if named and not draft.chance(5):
        return draft.choice(named)  # type: ignore[no-any-return]
    letters = draft.draw(st.permutations([*channels, *spatial]))
    # A window's loops have to be those of the image in order.
    taps = iter(spatial)
    return source, "".join(next(taps) if letter.isdigit() else letter for letter in letters), result


def same_convolution(draft: Draft, image: Image) -> Image:
    """A convolution that keeps the shape, 1x1 or 3x3."""
    spatial = [letter for letter in image.layout if letter.isdigit()]
    size = draft.choice((1, 3))
    reach = dict.fromkeys(spatial, size // 2)
    padded = pad(draft, image, reach, reach, 0.0)
    channels = draft.sizes(image)["c"]
    last = image.layout.endswith("c")
    digits, kernel = "".join(spatial), [size] * len(spatial)
    shape = [*kernel, channels, channels] if last else [channels, channels, *kernel]
    weights = draft.constant(shape, (channels * prod(kernel)) ** -0.5)
    init = init_of(draft, draft.types[image.value], image.layout.replace("c", "f"), [])
    layouts = (image.layout, f"{digits}cf" if last else f"fc{digits}", image.layout.replace("c", "f"))
    unit = (1,) * len(spatial)
    draft.convolutions += 1
    named = not draft.chance(4)
    value = draft.add(o.Convolution(padded.value, weights, init, layouts, unit, unit, named))
    return Image(value, image.layout)
