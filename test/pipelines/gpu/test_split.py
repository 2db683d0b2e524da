"""Products of split numbers: their parts, their layout, their error, and the code that they become for CUDA.

No GPU of NVIDIA takes part: `benchmarks/gpu_split.py` checks the kernels on one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.dialect.algebra.numerics import predicted_error
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.warp_schedules import SPLIT_SCHEDULES
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.packing.split import SplitPacking, scale_of, split
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.prediction import error_limit, predict
from matrix_unit_sums import summed_on_matrix_units
from scheduled_program import AMPERE, ScheduledProgram
from wide import sampled

Array = npt.NDArray[np.float64]

SMALL = SplitSchedule(64, 64, 32, 32, stages=2)
WINOGRAD = ScheduledProgram(
    (14, 14), 64, 64, (3, 3), (4, 4), (3, 3), batch=4, low=(1, 1), high=(1, 1), schedule=SMALL
)
PROGRAMS = [
    WINOGRAD,
    replace(WINOGRAD, constant_filter=False),
    replace(WINOGRAD, channels=30, outputs=19, dynamic_batch=True, schedule=SPLIT_SCHEDULES[0]),
    replace(WINOGRAD, kernel=(1, 1), m=(1, 1), p=(1, 1), low=None, high=None, channels=1100),
    replace(WINOGRAD, groups=2, strides=(2, 2), p=(2, 2)),
    replace(WINOGRAD, channels=160, schedule=replace(SMALL, summed_block=32)),
]


def _shape(
    channels: int, outputs: int, m: tuple[int, int] = (2, 2), groups: int = 1, batch: int = 32, size: int = 28
) -> ConvolutionShape:
    problem = ConvolutionProblem(
        batch, (size, size), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), groups, channels, outputs
    )
    return ConvolutionShape.decomposed(problem, decompose((3, 3), m))


@pytest.mark.parametrize("summed_block", sampled([None, 64], [64]))
def test_most_of_what_sums_lack_is_given_back(summed_block: int | None) -> None:
    """Of sums to which 16 products at a time are added, cut off and truncated to 24 bits."""
    schedule = replace(SMALL, summed_block=summed_block)
    packing = SplitPacking(_shape(576, 64, m=(1, 1)), schedule)
    factors = np.random.default_rng(0).standard_normal((2, 20000, packing.reduction // 16, 16))
    products = np.prod(factors.astype(np.float16).astype(np.float64), 0)
    block = products.shape[1] if summed_block is None else summed_block // 16
    found = np.zeros(len(products))
    for first in range(0, products.shape[1], block):
        found += _truncated_sums(products[:, first : first + block].reshape(len(products), -1))
    exact = products.sum((1, 2))
    lacking = (exact - found) @ exact / (exact @ exact)
    assert lacking > 0 and abs(lacking - packing.truncated) < lacking / 20


def test_parts_hold_22_bits() -> None:
    generator = np.random.default_rng(0)
    exact = np.ldexp(generator.uniform(-1, 1, 10000), generator.integers(-40, 15, 10000))
    high, low = split(exact, MMA.low_bits)
    error = np.abs(high.astype(np.float64) + 2.0**-11 * low.astype(np.float64) - exact)
    assert (error <= np.maximum(2.0**-22 * np.abs(exact), 2.0**-36)).all()


@pytest.mark.parametrize("largest", [1.0, 3e38, 1e-30, 1e-44])
def test_scales_are_powers_of_two_that_bring_all_numbers_into_range(largest: float) -> None:
    scale = scale_of(np.array([largest], np.float32))
    assert np.frexp(scale)[0] == 0.5
    for number in (scale, 1 / scale):
        assert np.finfo(np.float32).tiny <= number <= np.finfo(np.float32).max
    assert largest / scale <= 2.0**14


def test_rounded_filters_are_in_the_same_order_without_low_parts() -> None:
    packing = SplitPacking(_shape(40, 72), replace(SMALL, products=1))
    filters = np.random.default_rng(0).standard_normal((packing.products, 40, 72)).astype(np.float32)
    packed = packing.pack_filters(filters).ravel()
    halves = packed[: packing.filter_elements].view(np.float16).astype(np.float64)
    rows = halves.reshape(packing.products, packing.column_blocks, packing.stages, 64, 8, 8)
    scales = packed[packing.filter_elements :].astype(np.float64)
    exact = packing.by_quads(filters)
    for r, k in ((0, 0), (13, 5), (39, 70), (22, 66)):
        among, column = divmod(k % 16, 4)
        row = k % 64 // 16 * 16 + 8 * (column // 2) + 2 * among + column % 2
        read = rows[:, k // 64, r // 64, row, (r % 64 // 8) ^ (row % 8), r % 8] * scales[k]
        expect_within(read, exact[:, r, k], 2.0**-11 * np.abs(exact[:, r, k]))


@pytest.mark.parametrize(("bits", "smallest"), [(11, -27), (8, -30)])
def test_scaled_numbers_of_half_precision_stay_what_they_are(bits: int, smallest: int) -> None:
    """Of f16, and of bf16, down to so small a part of the largest; below that to 2^-38 of it."""
    generator = np.random.default_rng(0)
    exponents = generator.integers(-45, 1, 10000)
    numbers = np.ldexp(generator.integers(1 << (bits - 1), 1 << bits, 10000), exponents - bits)
    for largest in (1.0, 2.0**-100, 2.0**90):
        scaled = largest * numbers / scale_of(np.array([largest], np.float32))
        error = np.abs(scaled.astype(np.float16).astype(np.float64) - scaled) / 2.0**13
        assert error[exponents > smallest].max() == 0
        assert error.max() <= 2.0**-38


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(40, 72, 1), (36, 40, 2)])
def test_packed_filters_are_in_the_order_of_reading(channels: int, outputs: int, groups: int) -> None:
    shape = _shape(channels, outputs, groups=groups)
    packing = SplitPacking(shape, SMALL)
    generator = np.random.default_rng(0)
    extents = (packing.products, channels // groups, outputs // groups)
    # Channels of very different scales.
    filters = generator.standard_normal(extents) * np.ldexp(1.0, generator.integers(-90, 90, extents[-1]))
    read = _read(packing, packing.pack_filters(filters.astype(np.float32)))
    exact = packing.by_quads(filters)
    expect_within(read, exact, 2.0**-21 * np.abs(exact).max(axis=(0, 1)))


def _read(packing: SplitPacking, packed: npt.NDArray[np.float32]) -> Array:
    """The filters [A*g, r, k] of the packed layout, one element after the other."""
    block = packing.schedule.block_columns
    groups = packing.shape.groups
    halves = packed.ravel()[: packing.filter_elements].view(np.float16).astype(np.float64)
    stages = halves.reshape(packing.products, packing.column_blocks, packing.stages, block, 64)
    scales = packed.ravel()[packing.filter_elements :].astype(np.float64).reshape(groups, -1)
    read = np.zeros((packing.products, packing.padded_reduction, packing.padded_filters))
    for product, r, k in np.ndindex(*read.shape):
        among, column = divmod(k % 16, 4)
        row = k % block // 16 * 16 + 8 * (column // 2) + 2 * among + column % 2
        stage = stages[product, k // block, r // 32, row]
        chunk, place = divmod(r % 32, 8)
        high, low = (stage[((chunk + part) ^ (row % 8)) * 8 + place] for part in (0, 4))
        read[product, r, k] = scales[product % groups, k] * (high + 2.0**-11 * low)
    return read


@pytest.mark.parametrize("terms", [64, 1024])
def test_the_error_of_rounded_numbers_is_as_predicted(terms: int) -> None:
    generator = np.random.default_rng(0)
    rows, columns = (generator.standard_normal((2000, terms)).astype(np.float32) for _ in range(2))
    rounded = _truncated_sums(_products(rows.astype(np.float16), columns.astype(np.float16)))
    exact = (rows.astype(np.float64) * columns).sum(axis=1)
    error = np.abs(rounded - exact).sum() / np.abs(exact).sum()
    predicted = predicted_error((1,), (1,), terms, matrix_products=1)
    assert predicted / 1.25 <= error <= predicted * 1.25


@pytest.mark.parametrize("terms", [256, 4096])
def test_the_error_of_numbers_that_are_halves_is_that_of_their_sums(terms: int) -> None:
    generator = np.random.default_rng(0)
    rows, columns = (generator.standard_normal((2000, terms)).astype(np.float16) for _ in range(2))
    products = _products(rows, columns)
    exact = products.sum(axis=1)
    error = np.abs(_truncated_sums(products) - exact).sum() / np.abs(exact).sum()
    predicted = predicted_error((1,), (1,), terms, matrix_products=1, exact_products=True)
    assert predicted / 1.25 <= error <= predicted * 1.25


def test_numbers_that_are_halves_are_multiplied_once() -> None:
    """Transformed they have more bits: those are split, as others are."""
    space = GpuBackend(AMPERE).search_space(default_gpu_machine("sm_80"))
    convolution = "32x28x28x128->128 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    for operands, multiplied in (("", {0, 3}), (", operands of bf16, result of bf16", {0, 1, 3})):
        problem = ConvolutionProblem.parse(convolution + operands)
        limit = error_limit(problem, space, None, None)
        kept = [each.implementation for each in predict(problem, space) if each.keeps(limit)]
        direct = {each.schedule.matrix_products for each in kept if each.algorithm.is_direct}
        assert direct == multiplied
        assert all(each.algorithm.is_direct for each in kept if each.schedule.matrix_products == 1)


def test_other_numbers_of_products_are_an_error() -> None:
    with pytest.raises(ValueError, match="1 or 3 for each, not 2"):
        predicted_error((1,), (1,), 64, matrix_products=2)


def test_operands_are_rounded_only_where_an_error_is_admitted() -> None:
    problem = ConvolutionProblem.parse(
        "32x28x28x128->128 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    space = GpuBackend(AMPERE).search_space(default_gpu_machine("sm_80"))
    candidates = predict(problem, space)

    def admitted(limit: float | None) -> set[int]:
        return {each.implementation.schedule.matrix_products for each in candidates if each.keeps(limit)}

    assert admitted(4e-6) == admitted(None) == {0, 3}
    assert admitted(1e-3) == {0, 1, 3}


def _error_of_split(terms: int, block: int | None, given_back: float) -> float:
    """Of sums of products of split numbers, to which the part `given_back` of the large ones is added."""
    generator = np.random.default_rng(0)
    rows, columns = (generator.standard_normal((2000, terms)).astype(np.float32) for _ in range(2))
    (high_row, low_row), (high_column, low_column) = (
        split(each.astype(np.float64), MMA.low_bits) for each in (rows, columns)
    )
    products = _products(high_row, high_column)
    large = np.zeros(len(products), np.float32)
    for first in range(0, terms, block or terms):
        large += _truncated_sums(products[:, first : first + (block or terms)])
    small = _truncated_sums(_products(high_row, low_column) + _products(low_row, high_column))
    small += np.float32(given_back * 2.0**MMA.low_bits) * large
    result = (large + np.float32(2.0**-MMA.low_bits) * small).astype(np.float64)
    exact = (rows.astype(np.float64) * columns).sum(axis=1)
    return float(np.abs(result - exact).sum() / np.abs(exact).sum())


@pytest.mark.parametrize("block", [None, 32, 64])
@pytest.mark.parametrize("terms", [64, 256, 1024])
def test_the_error_is_as_predicted(terms: int, block: int | None) -> None:
    """Matrix units are imitated: 16 products at a time, cut off, are added to a sum, which is truncated."""
    error = _error_of_split(terms, block, given_back=0.0)
    predicted = predicted_error((1,), (1,), terms, reduction_block=block, matrix_products=3)
    assert predicted / 1.25 <= error <= predicted * 1.25


@pytest.mark.parametrize(("block", "least"), [(32, 0.9), (64, 0.8), (128, 0.65), (None, 0.45)])
@pytest.mark.parametrize("terms", [64, 256, 1024])
def test_sums_that_are_given_what_they_lack_err_less_than_predicted(
    terms: int, block: int | None, least: float
) -> None:
    """Predictions are of sums without that, from which those in short blocks differ little."""
    pointwise = ConvolutionProblem(1, (16, 16), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), 1, terms, 64)
    shape = ConvolutionShape.decomposed(pointwise, decompose((1, 1), (1, 1)))
    given_back = SplitPacking(shape, replace(SMALL, summed_block=block)).truncated
    predicted = predicted_error((1,), (1,), terms, reduction_block=block, matrix_products=3)
    assert least * predicted <= _error_of_split(terms, block, given_back) <= 1.1 * predicted


@pytest.mark.parametrize("block", [None, 64])
@pytest.mark.parametrize("terms", [64, 256, 1024])
def test_the_error_of_joined_sums_is_as_predicted(terms: int, block: int | None) -> None:
    """Of each 16 products the small ones are added to the sum before the large ones."""
    generator = np.random.default_rng(0)
    rows, columns = (2.0**12 * generator.standard_normal((2000, terms)) for _ in range(2))
    (high_row, low_row), (high_column, low_column) = (split(each, 0) for each in (rows, columns))
    pairs = (high_row, low_column), (low_row, high_column), (high_row, high_column)
    products = np.stack([_products(*pair).reshape(-1, terms // 16, 16) for pair in pairs], axis=2)
    products = products.reshape(-1, 3 * terms)
    total = np.zeros(len(products), np.float32)
    for first in range(0, 3 * terms, 3 * (block or terms)):
        total += _truncated_sums(products[:, first : first + 3 * (block or terms)])
    exact = (rows * columns).sum(axis=1)
    error = np.abs(total - exact).sum() / np.abs(exact).sum()
    predicted = predicted_error((1,), (1,), terms, reduction_block=block, matrix_products=3, joined=True)
    assert predicted / 1.25 <= error <= predicted * 1.25


def _products(left: npt.NDArray[np.float16], right: npt.NDArray[np.float16]) -> Array:
    return left.astype(np.float64) * right.astype(np.float64)


def _truncated_sums(products: Array) -> npt.NDArray[np.float32]:
    """As matrix units have them, which add 16 at a time."""
    total = np.zeros(len(products), np.float32)
    for first in range(0, products.shape[1], 16):
        total = summed_on_matrix_units(np.column_stack([products[:, first : first + 16], total]))
    return total


@pytest.mark.parametrize("program", sampled(PROGRAMS, PROGRAMS[:1]), ids=str)
def test_becomes_instructions_of_matrix_units(program: ScheduledProgram, tmp_path: Path) -> None:
    kernels = program.kernels("sm_80", tmp_path)
    (multiplying,) = (each for each in kernels if "mma.sync" in each)
    stages = SplitPacking(_shape_of(program), _split_schedule(program)).stages
    # Two steps of three products of 2 x 4 tiles for each stage in the code: all, or that of a loop.
    unrolled = stages if stages <= _split_schedule(program).stages else 1
    assert multiplying.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 2 * 3 * 8 * unrolled
    for instruction in ("ldmatrix.sync.aligned.m8n8.x4", "cp.async.cg.shared.global", "cp.async.wait_group"):
        assert instruction in multiplying
    assert ".local" not in multiplying, "registers are spilled"


def _split_schedule(program: ScheduledProgram) -> SplitSchedule:
    assert isinstance(program.schedule, SplitSchedule)
    return program.schedule


def _shape_of(program: ScheduledProgram) -> ConvolutionShape:
    ones, zeros = (1,) * program.rank, (0,) * program.rank
    strides = program.strides or ones
    problem = ConvolutionProblem(
        program.batch,
        program.size,
        program.low or zeros,
        program.high or zeros,
        program.kernel,
        strides,
        ones,
        program.groups,
        program.channels,
        program.outputs,
    )
    decomposition = decompose(program.kernel, program.m, strides=strides, part_size=program.p)
    return ConvolutionShape.decomposed(problem, decomposition)


def test_matrix_units_are_read_from_the_target() -> None:
    def has_matrix_units(architecture: str) -> bool:
        # As IREE says of sm_70, too.
        text = f'arch = "{architecture}", wgp = <mma = [<NV_MMA_SYNC_F32_16x8x16_F16>]>'
        return GpuTarget.of(ExecutableTarget("cuda", "cuda-nvptx-fb", text)).matrix_unit == MMA

    assert all(has_matrix_units(name) for name in ("sm_80", "sm_86", "sm_90a"))
    assert not any(has_matrix_units(name) for name in ("sm_60", "sm_70", "sm_75", ""))
    assert not AMPERE.least(replace(AMPERE, matrix_unit=None)).matrix_unit


def test_other_targets_have_no_split_products() -> None:
    shape, machine = _shape(128, 128, (4, 4)), default_gpu_machine("sm_90")
    target = replace(AMPERE, matrix_unit=None)
    assert "no matrix units" in (kernel_misfit(shape, target, SMALL) or "")
    assert not any(isinstance(each, SplitSchedule) for each in schedules(shape, target, machine))
    unknown = replace(machine, matrix_flops=None)
    assert not any(isinstance(each, SplitSchedule) for each in schedules(shape, AMPERE, unknown))


def test_matrix_units_that_were_not_measured_are_as_fast_beside_others_as_by_default() -> None:
    machine = replace(default_gpu_machine("sm_90"), matrix_flops=None)
    expected = 312 / 19.5 * machine.flops
    assert GpuBackend(AMPERE).search_space(machine).machine.matrix_flops == pytest.approx(expected)
    known = replace(machine, matrix_flops=1e14)
    assert GpuBackend(AMPERE).search_space(known).machine == known


def test_large_batches_are_multiplied_by_matrix_units() -> None:
    machine = default_gpu_machine("sm_90")

    def default(batch: int) -> GpuSchedule:
        return default_schedules(_shape(128, 128, (4, 4), batch=batch), AMPERE, machine)[0]

    assert isinstance(default(32), SplitSchedule)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((64, 64, 24, 32, 2), "block_rows 64 must be a multiple of warp_rows 24"),
        (
            (64, 72, 32, 24, 2),
            "block_columns 72 must be a multiple of warp_columns 24, and that a multiple of 16",
        ),
        ((64, 64, 32, 32, 1), "stages must be at least 2, not 1"),
        ((48, 64, 16, 16, 2), "384 threads can't share the copies"),
    ],
)
def test_blocks_that_do_not_divide_are_an_error(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitSchedule(*sizes[:4], stages=sizes[4])
