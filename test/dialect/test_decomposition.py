"""A decomposition is the convolution it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.dialect.attributes import decomposition_attribute, decomposition_of
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition, decompose

sizes = st.integers(1, 4)


@st.composite
def decompositions(draw, rank=None) -> Decomposition:
    rank = draw(st.integers(1, 2)) if rank is None else rank
    pick = st.lists(sizes, min_size=rank, max_size=rank)
    part_size = draw(st.none() | pick)
    return decompose(
        draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank)),
        draw(pick),
        strides=draw(pick),
        dilations=draw(pick),
        part_size=part_size,
    )


@given(decompositions(rank=1), st.integers(0, 2**16))
def test_parts_sum_to_the_convolution(decomposition, seed):
    """The formula of the class' docstring against the definition of a convolution, in one dimension."""
    generator = np.random.default_rng(seed)
    (taps,), (step,), (dilation,) = decomposition.kernel_size, decomposition.step, decomposition.dilation
    weights = generator.integers(-9, 9, taps)
    padded = generator.integers(-9, 9, 40)
    (outputs,) = decomposition.output_shape(padded.shape)
    for output in range(outputs):
        expected = sum(padded[step * output + dilation * tap] * weights[tap] for tap in range(taps))
        total = 0
        for view in decomposition.views:
            for index, tap in enumerate(decomposition.taps(view)):
                if tap is not None:
                    position = step * output + view[0] + decomposition.spacing[0] * index
                    total += padded[position] * weights[tap[0]]
        assert total == expected


@given(decompositions(), st.lists(st.integers(1, 30), min_size=2, max_size=2))
def test_tiles_cover_each_output_once(decomposition, output_shape):
    rank = decomposition.spatial_rank
    for d, outputs in enumerate(output_shape[:rank]):
        m, phases = decomposition.output_tile[d], decomposition.phases[d]
        per_phase = decomposition.tiles_per_phase(output_shape[:rank])[d]
        assert decomposition.tiles(output_shape[:rank])[d] == phases * per_phase
        covered = [
            phase + phases * (m * tile + element)
            for phase in range(phases)
            for tile in range(per_phase)
            for element in range(m)
        ]
        assert sorted(covered) == list(range(len(covered)))
        assert outputs <= len(covered) < outputs + phases * m


@given(decompositions())
def test_attribute_round_trip(decomposition):
    with ir.Context(), ir.Location.unknown():
        attribute = decomposition_attribute(decomposition)
        assert decomposition_of(ir.Attribute.parse(str(attribute))) == decomposition


def test_views_of_strides_and_large_kernels():
    assert decompose((3,), (2,)).views == ((0,),)
    assert decompose((5,), (2,), part_size=(3,)).views == ((0,), (3,))
    assert decompose((3,), (2,), strides=(2,)).views == ((0,), (1,))
    assert decompose((3,), (2,), dilations=(2,)).views == ((0,),)
    assert decompose((3, 3), (1, 1), part_size=(1, 1)).view_count == 9
    assert decompose((3,), (1,), strides=(2,), dilations=(3,), part_size=(1,)).views == ((0,), (3,), (6,))


def test_single_outputs_have_one_phase():
    assert decompose((3,), (1,), dilations=(2,), part_size=(1,)).phases == (1,)
    assert decompose((3,), (2,), dilations=(2,)).phases == (2,)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (((), ()), {}, "kernel_size () must have 1 to 3 dimensions"),
        (((3,), (2, 2)), {}, "output_tile (2, 2) and part_size (3,) must be 1 positive sizes"),
        (((3,), (0,)), {}, "output_tile (0,) must be at least 1 in every dimension"),
        (((0,), (2,)), {}, "kernel_size (0,) must be 1 sizes of at least 1"),
        (((3,), (2,)), {"strides": (0,)}, "strides (0,) must be 1 sizes of at least 1"),
        (((3,), (2,)), {"part_size": (0,)}, "must be 1 positive sizes"),
    ],
)
def test_bad_sizes_are_named(arguments, options, message):
    with pytest.raises(ValueError) as error:
        decompose(*arguments, **options)
    assert message in str(error.value)
