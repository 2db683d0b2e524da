from functools import cache
from typing import Any

import numpy as np
import pytest
from iree.winograd.dialect.algebra.numerics import predicted_error
from iree.winograd.pipelines.cpu.choice.tile_schedules import SHORT_BLOCK
from wide import wide

from benchmarks.accuracy import (
    DISTRIBUTIONS,
    Distribution,
    Error,
    Layer,
    accuracy_table,
    convolution_program,
    error_of,
    measure,
)
from benchmarks.compiled import compile_plain

# One worker measures what several of them look at.
pytestmark = pytest.mark.xdist_group("accuracy")


@cache
def measured(taps: int, channels: int, distribution: Distribution) -> dict[str, Any]:
    return measure(Layer(taps, channels, distribution))


def winograd(record: dict[str, Any], output_tile: int, part_size: int) -> Error:
    (found,) = (
        each
        for each in record["winograd"]
        if (each["output_tile"], each["part_size"]) == (output_tile, part_size)
    )
    return Error(found["relative"], found["maximum"])


@pytest.mark.wide
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_predictions_are_within_a_factor_of_two(distribution: Distribution) -> None:
    for taps in (3, 5) if distribution == "normal" else (3,):
        for each in measured(taps, 64, distribution)["winograd"]:
            assert 0.5 < each["predicted_by_measured"] < 2, each


@pytest.mark.parametrize("distribution", wide(DISTRIBUTIONS))
def test_largest_errors(distribution: Distribution) -> None:
    record = measured(3, 64, distribution)
    direct = record["direct"]["torch-nhwc"]["maximum"]
    assert winograd(record, 2, 3).maximum <= 2 * direct
    assert winograd(record, 4, 3).maximum < 1e-5
    assert winograd(record, 6, 3).maximum < 1e-4


@pytest.mark.wide
def test_winograd_is_as_accurate_as_a_direct_convolution_in_one_sum() -> None:
    record = measured(3, 128, "normal")
    direct = record["direct"]["iree"]
    # Where a processor's caches don't have sums interleaved they are in blocks, the longest of these. What is
    # measured is within 10% of what is predicted, of both.
    in_blocks = predicted_error((4, 4), (3, 3), 128, reduction_block=SHORT_BLOCK)
    in_one_sum = predicted_error((1, 1), (1, 1), 128, views=9)
    assert winograd(record, 4, 3).relative <= 1.1**2 * in_blocks / in_one_sum * direct["relative"]
    assert winograd(record, 4, 3).maximum <= 1.5 * direct["maximum"]


@pytest.mark.wide
def test_kernels_of_five_taps_are_as_far_from_a_direct_convolution_as_predicted() -> None:
    record = measured(5, 64, "normal")
    direct = record["direct"]["iree"]
    # Three times, or somewhat more where vectors are long. Of both, what is measured is within 10%.
    ratio = predicted_error((4, 4), (5, 5), 64) / predicted_error((1, 1), (1, 1), 64, views=25)
    assert winograd(record, 4, 5).relative <= 1.1**2 * ratio * direct["relative"]


@pytest.mark.wide
def test_a_row_per_algorithm() -> None:
    record = measured(3, 64, "normal")
    rows = accuracy_table([record])
    assert len(rows) == 2 + len(record["direct"]) + len(record["winograd"])
    assert rows[3].startswith("| 3x3, 64 channels, normal | direct: torch-nhwc |")
    assert rows[3].endswith("| 1.00 | 1.00 |  |")


def test_an_error_is_relative_to_the_exact_output() -> None:
    exact = np.array([1.0, -4.0, 3.0])
    assert error_of(np.array([1, -3, 4], np.float32), exact) == Error(0.25, 0.25)
    with pytest.raises(ValueError, match="shapes differ"):
        error_of(np.zeros(2, np.float32), exact)


def test_the_annotation_forces_the_algorithm() -> None:
    image, filters = Layer(3, 16, "normal").operands()
    program = convolution_program(image, filters, (4, 3))
    assert "output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>" in program
    assert "winograd" not in convolution_program(image, filters)
    # An attribute that only we read.
    assert compile_plain(program)
