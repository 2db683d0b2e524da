"""The three ops of any decomposition compute the convolution that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.dialect import reference
from iree.winograd.dialect.decomposition import Decomposition, decompose
from wide import examples


def composed(
    input: np.ndarray,
    filter: np.ndarray,
    decomposition: Decomposition,
    low: list[int],
    high: list[int],
    groups: int,
) -> np.ndarray:
    padded = [n + a + b for n, a, b in zip(input.shape[1:-1], low, high, strict=True)]
    transformed = reference.input_transform(input, decomposition, low, high, groups)
    weights = reference.filter_transform(filter, decomposition, groups)
    accumulated = transformed @ weights
    return reference.output_transform(accumulated, decomposition, decomposition.output_shape(padded), groups)


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, object]:
    rank = draw(st.integers(1, 3))

    def sizes(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel_size = sizes(1, 5 if rank < 3 else 3)
    return {
        "kernel_size": kernel_size,
        "output_tile": sizes(1, 4 if rank < 3 else 2),
        "part_size": draw(st.none() | st.just([min(3, size) for size in kernel_size])),
        "strides": sizes(1, 3),
        "dilations": sizes(1, 3 if rank < 3 else 2),
        "low": sizes(0, 2),
        "high": sizes(0, 2),
        "extra": sizes(0, 5 if rank < 3 else 2),
        "groups": draw(st.sampled_from([1, 1, 2, 3])),
    }


@examples(150)
@given(convolutions())
def test_composition_is_the_direct_convolution(case: dict) -> None:
    generator = np.random.default_rng(7)
    kernel_size, groups = case["kernel_size"], case["groups"]
    extent = [d * (r - 1) + 1 for d, r in zip(case["dilations"], kernel_size, strict=True)]
    spatial = [e + x for e, x in zip(extent, case["extra"], strict=True)]
    input = generator.uniform(-1, 1, (2, *spatial, 2 * groups))
    filter = generator.uniform(-1, 1, (*kernel_size, 2, 3 * groups))
    decomposition = decompose(
        kernel_size,
        case["output_tile"],
        strides=case["strides"],
        dilations=case["dilations"],
        part_size=case["part_size"],
    )
    expected = reference.convolution(
        input, filter, case["strides"], case["dilations"], case["low"], case["high"], groups
    )
    actual = composed(input, filter, decomposition, case["low"], case["high"], groups)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, atol=1e-10)


def test_direct_convolution_by_hand() -> None:
    input = np.arange(6.0).reshape(1, 6, 1)
    filter = np.array([1.0, 10.0]).reshape(2, 1, 1)
    assert reference.convolution(input, filter, [2], [3]).ravel().tolist() == [30.0, 52.0]
    assert reference.convolution(input, filter, [3], [1], [1], [1]).ravel().tolist() == [0.0, 32.0, 5.0]


def test_groups_only_see_their_own_channels() -> None:
    input = np.ones((1, 4, 2))
    filter = np.stack([np.full((1, 1), 2.0), np.full((1, 1), 5.0)], axis=-1).reshape(1, 1, 2)
    assert reference.convolution(input, filter, groups=2)[0, 0].tolist() == [2.0, 5.0]


def test_tiles_beyond_the_input_are_zeros() -> None:
    decomposition = decompose([3], [4])
    transformed = reference.input_transform(np.ones((1, 7, 1), np.float32), decomposition)
    assert transformed.shape == (6, 2, 1)
    assert transformed.dtype == np.float32
    # The second tile starts at element 4 and holds three elements of the input.
    alone = reference.input_transform(
        np.array([1, 1, 1, 0, 0, 0], np.float32).reshape(1, 6, 1), decomposition
    )
    np.testing.assert_array_equal(transformed[:, 1:], alone)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("3 input channels do not divide into 2 groups", {"groups": 2}),
        ("does not fit the padded input", {"size": 2}),
        ("padding", {"padding_low": [-1]}),
        ("dimensions", {"rank": 4}),
    ],
)
def test_bad_input_is_named(message: str, arguments: dict) -> None:
    shape = [1, arguments.pop("size", 8), 3] + [1] * (arguments.pop("rank", 3) - 3)
    with pytest.raises(ValueError, match=message):
        reference.input_transform(np.zeros(shape), decompose([3], [2]), **arguments)


def test_filter_of_the_wrong_size_is_named() -> None:
    with pytest.raises(ValueError, match="kernel_size"):
        reference.filter_transform(np.zeros((5, 1, 1)), decompose([3], [2]))


def test_channels_first_images() -> None:
    generator = np.random.default_rng(3)
    image = generator.uniform(-1, 1, (2, 7, 6, 4))
    decomposition = decompose([3, 3], [2, 4])
    expected = reference.input_transform(image, decomposition, [1, 1], [1, 1], 2)
    given = np.moveaxis(image, -1, 1)
    transformed = reference.input_transform(given, decomposition, [1, 1], [1, 1], 2, channels_first=True)
    np.testing.assert_array_equal(transformed, expected)
    last = reference.output_transform(transformed, decomposition, (7, 6), 2)
    first = reference.output_transform(transformed, decomposition, (7, 6), 2, channels_first=True)
    np.testing.assert_array_equal(first, np.moveaxis(last, -1, 1))
