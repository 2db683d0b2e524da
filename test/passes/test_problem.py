"""The text of a convolution problem names all of it."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem, MatmulProblem
from wide import examples


@st.composite
def problems(draw: st.DrawFn) -> ConvolutionProblem:
    rank = draw(st.integers(1, 3))

    def sizes(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(least, most), min_size=rank, max_size=rank)))

    groups, batch = draw(st.integers(1, 4)), draw(st.none() | st.integers(1, 64))
    return ConvolutionProblem(
        batch=batch,
        expected_batch=draw(st.none() | st.integers(1, 64)) if batch is None else None,
        input_size=sizes(20, 224),
        padding_low=sizes(0, 3),
        padding_high=sizes(0, 3),
        kernel_size=sizes(1, 7),
        strides=sizes(1, 4),
        dilations=sizes(1, 3),
        groups=groups,
        input_channels=groups * draw(st.integers(1, 512)),
        output_channels=groups * draw(st.integers(1, 512)),
        runtime_filter=draw(st.booleans()),
        input_channels_first=draw(st.booleans()),
        output_channels_first=draw(st.booleans()),
    )


@examples(100)
@given(problems())
def test_the_text_is_read_back(problem: ConvolutionProblem) -> None:
    assert ConvolutionProblem.parse(str(problem)) == problem


@examples(100)
@given(
    st.lists(st.integers(1, 64), min_size=2, max_size=4),
    st.integers(1, 512),
    st.integers(1, 512),
    st.sampled_from((None, "f16", "bf16")),
    st.sampled_from((None, "f16", "bf16")),
)
def test_the_text_of_a_product_is_read_back(
    pixels: list[int], channels: int, columns: int, exact: str | None, rounded: str | None
) -> None:
    problem = MatmulProblem.multiplying(
        tuple(pixels), channels, columns, exact_type=exact, rounded_type=rounded
    )
    assert problem.rows == prod(pixels)
    assert ConvolutionProblem.parse(str(problem)) == problem


def test_a_product_is_another_problem_than_the_convolution_that_it_is() -> None:
    convolution = ConvolutionProblem.parse(
        "1x32x512->1000 kernel 1 stride 1 dilation 1 padding 0 0 groups 1 f32"
    )
    product = ConvolutionProblem.parse("1x32x512->1000 matmul f32")
    assert product != convolution
    assert vars(product) == vars(convolution)


@pytest.mark.parametrize("text", ["", "1x56x56x64", "1x8x8x4->4 kernel 3x3", "32x512->1000 matmul f32"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a convolution problem"):
        ConvolutionProblem.parse(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("kernel 9x9", "exceeds the padded input"),
        ("groups 3", "3 groups must divide 4 and 4 channels"),
        ("stride 0x1", "strides"),
        ("padding 1 1x1", "padding_low"),
    ],
)
def test_impossible_sizes_are_refused(change: str, message: str) -> None:
    text = "1x6x6x4->4 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    name, value = change.split(" ", 1)
    fields = {"kernel": "3x3", "groups": "1", "stride": "1x1", "padding": "1x1 1x1"}
    with pytest.raises(ValueError, match=message):
        ConvolutionProblem.parse(text.replace(f"{name} {fields[name]}", f"{name} {value}"))


@pytest.mark.parametrize("text", ["f32", "bf16", "bf16*bf16+f32=bf16", "f16*f16@f16+f32=f32"])
def test_element_types_are_read_back(text: str) -> None:
    types = ElementTypes.parse(text)
    assert str(types) == text
    problem = ConvolutionProblem(1, (8,), (0,), (0,), (3,), (1,), (1,), 1, 4, 4, types)
    assert ConvolutionProblem.parse(str(problem)) == problem


def test_bytes_are_those_of_the_element_types() -> None:
    types = ElementTypes("bf16", "i8", "f32", "f64")
    sizes = types.input_bytes, types.filter_bytes, types.accumulator_bytes, types.result_bytes
    assert (*sizes, types.domain_bytes) == (2, 1, 4, 8, 4)
    with pytest.raises(ValueError, match="index have no known size"):
        _ = ElementTypes.all_of("index").input_bytes
    with pytest.raises(ValueError, match="not the element types"):
        ElementTypes.parse("f32->f32")
