"""A decomposition is the convolution it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.dialect.attributes import decomposition_attribute, decomposition_of
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.decomposition import Decomposition, decompose
from iree.winograd.dialect.reference import filter_transform
from wide import examples

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


@examples(100)
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


@examples(100)
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


@examples(100)
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


@examples(100)
@given(decompositions(), st.integers(0, 2**16))
def test_filters_of_views_that_do_not_contribute_are_zero(decomposition, seed):
    """And `product_count` has no others: of random filters nothing else is zero."""
    filters = np.random.default_rng(seed).uniform(1, 2, (*decomposition.kernel_size, 1, 1))
    transformed = filter_transform(filters, decomposition).reshape(*decomposition.alpha, -1)
    tables = decomposition.contributing_views
    offsets = [sorted({view[d] for view in decomposition.views}) for d in range(decomposition.spatial_rank)]
    if tables is None:
        is_without_views = (transformed == 0).all(axis=-1).any()
        assert is_without_views or (transformed != 0).all()
        return
    for element in np.ndindex(decomposition.alpha):
        contributes = [
            all(
                each.index(o) < table[a]
                for each, o, table, a in zip(offsets, view, tables, element, strict=True)
            )
            for view in decomposition.views
        ]
        assert ((transformed[element] != 0) == contributes).all()
    assert decomposition.product_count == np.count_nonzero(transformed)


def test_a_stride_of_two_leaves_out_products_with_zero():
    f4 = decompose((3, 3), (4, 4), strides=(2, 2))
    assert (f4.product_count, f4.point_count * f4.view_count) == (81, 100)
    assert f4.contributing_views == ((2, 2, 2, 2, 1),) * 2
    assert decompose((3, 3), (4, 4)).contributing_views is None


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
