"""Direct convolutions as implicit matrix products: what they multiply, their code, and when they are chosen.

No GPU of NVIDIA takes part: `benchmarks/gpu_split.py` checks the kernels on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.patch import CELL
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.prediction import predict
from ptx_interpreter import Kernel
from scheduled_program import HOPPER, ScheduledProgram
from wide import sampled, wide

SCHEDULE = ImplicitGemmSchedule(64, 64, warpgroups=2, walking_workgroups=132)
PLAIN = ScheduledProgram(
    (14, 14), 64, 64, (3, 3), (1, 1), (1, 1), batch=4, low=(1, 1), high=(1, 1), schedule=SCHEDULE
)
STEM = replace(PLAIN, size=(30, 30), channels=3, kernel=(7, 7), strides=(2, 2), low=(3, 3), high=(3, 3))
PROGRAMS = [
    PLAIN,
    STEM,
    replace(STEM, constant_filter=False),
    replace(PLAIN, schedule=replace(SCHEDULE, summed_block=64)),
    replace(PLAIN, channels=4, schedule=replace(SCHEDULE, products=1)),
    replace(PLAIN, channels=24),
    replace(PLAIN, channels=13, constant_filter=False),
    replace(PLAIN, channels=32, strides=(2, 2), dynamic_batch=True, constant_filter=False),
    replace(
        PLAIN, kernel=(1, 1), low=None, high=None, outputs=20, schedule=replace(SCHEDULE, block_columns=32)
    ),
]
X3_STRIDED = "kernel 3x3 stride 2x2 dilation 1x1 padding 1x1 1x1 groups"
X3 = "kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups"


def _known(sizes: Sequence[Index]) -> list[int]:
    return [size.known for size in sizes if size.known is not None]


def _shape(text: str) -> ConvolutionShape:
    problem = ConvolutionProblem.parse(text)
    ones = (1,) * len(problem.kernel_size)
    direct = decompose(
        problem.kernel_size, ones, strides=problem.strides, dilations=problem.dilations, part_size=ones
    )
    return ConvolutionShape.decomposed(problem, direct)


@pytest.mark.parametrize("program", sampled(PROGRAMS[::2], PROGRAMS[:1]), ids=str)
def test_is_one_kernel_of_warpgroups(program: ScheduledProgram, tmp_path: Path) -> None:
    kernels = program.kernels("sm_90a", tmp_path)
    (multiplying,) = (each for each in kernels if "wgmma.mma_async" in each)
    assert [each for each in kernels if "input" in each.split("(")[0]] == []
    schedule = program.schedule
    assert isinstance(schedule, ImplicitGemmSchedule)
    products = multiplying.count(f"wgmma.mma_async.sync.aligned.m64n{schedule.block_columns}k16.f32.f16.f16")
    assert products and products % schedule.products == 0
    if schedule.summed_block is not None:
        # Blocks of four steps each wait for their large products alone.
        assert multiplying.count("wgmma.wait_group.sync.aligned 1") == 9
    for instruction in ("cp.async.bulk.shared::cluster.global.mbarrier", "fence.proxy.async", "bar.sync"):
        assert instruction in multiplying
    assert ".local" not in multiplying, "registers are spilled"


OPEN = replace(
    PLAIN,
    channels=16,
    outputs=20,
    batch=1,
    dynamic_size=True,
    schedule=replace(SCHEDULE, block_columns=32, warpgroups=1, walking_workgroups=1),
)


@pytest.mark.parametrize(
    "program",
    [
        OPEN,
        *wide(
            [
                replace(OPEN, kernel=(1, 1), low=None, high=None),
                replace(OPEN, channels=3, strides=(2, 2), dynamic_batch=True),
            ]
        ),
    ],
    ids=str,
)
def test_tiles_of_images_of_any_size_are_right(program: ScheduledProgram, tmp_path: Path) -> None:
    """Below a tile, a row, a column, and several tiles of a warpgroup, by the interpreter of PTX."""
    schedule = program.schedule
    assert isinstance(schedule, ImplicitGemmSchedule)
    (text,) = program.ptx("sm_90a", tmp_path)
    kernel = Kernel.by_stage(text)["direct"]
    strides, low, high = (program.per_dimension(*each) for each in (("strides", 1), ("low", 0), ("high", 0)))
    kernel_size, stride, before, after = (
        "x".join(map(str, each)) for each in (program.kernel, strides, low, high)
    )
    shape = _shape(
        f"1x?14x?14x{program.channels}->{program.outputs} kernel {kernel_size} stride {stride} dilation 1x1 "
        f"padding {before} {after} groups 1 f32"
    )
    packing = ImplicitGemmPacking(shape, schedule)
    images = (1, 2) if program.dynamic_batch else (1,)
    _, filters, bias = program.arguments()
    taps = [filters[view] for view in shape.decomposition.views]
    packed = packing.pack_filters(np.concatenate(taps)[None].astype(np.float64))
    generator = np.random.default_rng(0)
    for batch, size in product(images, [(5, 6), (1, 9), (17, 1), (11, 19)]):
        image = generator.uniform(-1, 1, (batch, *size, program.channels)).astype(np.float32)
        expected, most = (
            convolution(
                *(of(each).astype(np.float64) for each in (image, filters)), strides, (1, 1), low, high
            )
            for of in (np.asarray, np.abs)
        )
        result = np.full(expected.shape, np.nan, np.float32)
        told = (*size, *result.shape[1:3]) if program.strides else size
        told = (batch, *told) if program.dynamic_batch else told
        numbers = [np.uint32(half) for each in told for half in (each, 0)]
        kernel.run([image, packed, bias, result, *map(np.asarray, numbers)], iter([(0, 0, 0)]))
        # Matrix units truncate each of their sums, whose numbers have 22 bits.
        bound = (packing.reduction + 4) * 2.0**-22 * (most + np.abs(bias))
        assert (np.abs(result - np.maximum(expected + bias, 0)) <= bound).all(), (batch, size)


@pytest.mark.wide
def test_blocks_of_sums_are_added_as_they_come(tmp_path: Path) -> None:
    """Only some threads store what is behind the last channel: added there, sums of all blocks were spilled.

    ptxas then lost some: results of 64 to 80 channels of 80 x 80 pixels were wrong by a third.
    """
    schedule = replace(SCHEDULE, warpgroups=3, walking_workgroups=66, summed_block=64)
    program = replace(PLAIN, size=(80, 80), outputs=80, batch=1, schedule=schedule)
    (multiplying,) = (each for each in program.kernels("sm_90a", tmp_path) if "wgmma.mma_async" in each)
    _, first, *others = multiplying.split("wgmma.wait_group.sync.aligned 1;")
    assert "add.rn.f32" not in first
    sums_of_a_thread = 64 * schedule.block_columns // 128
    for block in others[:-1]:
        assert block.partition("wgmma.mma_async")[0].count("add.rn.f32") == sums_of_a_thread
    assert others[-1].partition("wgmma.wait_group")[0].count("add.rn.f32") == sums_of_a_thread


@pytest.mark.parametrize(
    "text",
    [
        f"1x8x8x32->4 {X3} 1 f32",
        "1x16x16x16->4 kernel 3x3 stride 2x2 dilation 1x1 padding 1x0 1x1 groups 1 f32",
        "1x8x8x16->4 kernel 3x3 stride 1x1 dilation 2x2 padding 2x2 2x2 groups 1 f32",
        "1x8x8x48->4 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32",
        "1x16x16x3->4 kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32",
        "1x8x8x4->4 kernel 5x5 stride 1x1 dilation 1x1 padding 2x2 2x2 groups 1 f32",
        f"1x8x8x1->4 {X3} 1 f32",
        f"1x8x8x24->4 {X3} 1 f32",
        "1x8x8x13->4 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32",
        "1x16x8x2->4 kernel 3x2 stride 2x1 dilation 1x1 padding 1x0 1x1 groups 1 f32",
    ],
)
def test_cells_of_a_patch_are_what_a_tile_multiplies(text: str) -> None:
    """The first tile, of integers, multiplied as matrix units do: cells at the distances they are told."""
    shape = _shape(text)
    channel_blocks = 3 if shape.input_channels == 48 else 2 if shape.input_channels == 32 else 1
    packing = ImplicitGemmPacking(shape, replace(SCHEDULE, channel_blocks=channel_blocks))
    patch = packing.patch
    generator = np.random.default_rng(0)
    image = generator.integers(-9, 10, (1, *shape.input_size, shape.input_channels)).astype(np.float64)
    filters = generator.integers(-9, 10, (*shape.kernel_size, shape.input_channels, 4)).astype(np.float64)
    exact = convolution(
        image, filters, shape.strides, shape.dilations, shape.padding_low, shape.padding_high, 1
    )
    plane = image.reshape(*_known(patch.plane(shape.input_size)), -1)
    views = shape.decomposition.views
    by_view = np.stack([filters[tuple(np.array(view) // shape.dilations)] for view in views])
    columns = packing.by_quads(by_view.reshape(1, -1, 4))[0].astype(np.float64)
    sums = np.zeros((64, packing.padded_filters))
    multiplied = set()
    for block in range(channel_blocks):
        memory = np.full((patch.part_bytes // 2,), np.nan)
        for row, column, quad in np.ndindex(*patch.extents, patch.channel_quads):
            y, x = (at - low for at, low in zip((row, column), shape.padding_low, strict=True))
            inside = 0 <= y < plane.shape[0] and 0 <= x < plane.shape[1]
            first = 4 * (quad + block * patch.channel_quads)
            values = np.zeros(4)
            if inside:
                channels = plane[y, x, first : first + 4]  # None behind the image's.
                values[: len(channels)] = channels
            for place in patch.places(Index(row), Index(column), Index(quad)):
                assert place.known is not None
                memory[place.known // 2 : place.known // 2 + 4] = values
        for step, begin in patch.steps(block):
            multiplied.add(step)
            for output, half in np.ndindex(64, 2):
                line, within = divmod(output, 8)
                place_of_cell = begin + line * patch.line_bytes + within * 16 + half * patch.pair_bytes
                cell = memory[place_of_cell // 2 : place_of_cell // 2 + CELL]
                sums[output] += cell @ columns[16 * step + 8 * half :][:CELL]
    assert multiplied == set(range(packing.reduction // 16))
    tile = sums[:, :4].reshape(*patch.tile, 4)
    expected = exact.reshape(*_known(patch.plane(shape.output_size)), 4)[: patch.tile[0], : patch.tile[1]]
    np.testing.assert_array_equal(tile, expected)


def test_filters_of_few_channels_are_padded_by_taps() -> None:
    packing = ImplicitGemmPacking(
        _shape("1x16x16x3->8 kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32"), SCHEDULE
    )
    assert packing.reduction == 7 * 8 * 4
    for row in range(packing.reduction):
        tap, exists = packing.offsets_of(Index(row))
        assert [each.known for each in tap] == [row // 32, row // 4 % 8]
        assert exists.known == (row // 4 % 8 < 7)


@pytest.mark.parametrize("batch", [32, 128])
def test_they_are_chosen_for_64_channels_and_for_images(batch: int) -> None:
    machine = default_gpu_machine("sm_90a")
    stem = "kernel 7x7 stride 2x2 dilation 1x1 padding 3x3 3x3 groups 1 f32"
    for text in (f"{batch}x56x56x64->64 {X3} 1 f32", f"{batch}x224x224x3->64 {stem}"):
        offered = default_schedules(_shape(text), HOPPER, machine)
        for products in (1, 3):
            fastest = next(each for each in offered if each.matrix_products == products)
            assert isinstance(fastest, ImplicitGemmSchedule)


def test_filters_of_other_counts_of_channels_are_padded_by_zeros() -> None:
    packing = ImplicitGemmPacking(_shape(f"1x8x8x24->8 {X3} 1 f32"), SCHEDULE)
    assert packing.reduction == 9 * 32
    packed = packing.by_quads(np.ones((1, 9 * 24, 8)))
    np.testing.assert_array_equal(packed[0, : 9 * 32, 0].reshape(9, 32).sum(axis=0), [9] * 24 + [0] * 8)
    for row in range(packing.reduction):
        (tap, _), channel = packing.offsets_of(Index(row)), row % packing.padded_channels
        assert [each.known for each in tap] == [row // 32 // 3, row // 32 % 3]
        assert channel == row % 32


def test_they_are_chosen_for_strided_and_padded_layers_of_few_channels() -> None:
    """Strided ones of more blocks of columns load patches as often: 59 us, by separate kernels 43."""
    machine = default_gpu_machine("sm_90a")
    layers = {
        f"112x112x64->64 {X3_STRIDED}": True,
        f"112x112x48->48 {X3_STRIDED}": True,
        f"56x56x64->128 {X3_STRIDED}": False,
        f"112x112x24->24 {X3}": True,
        f"56x56x40->160 {X3}": True,
    }
    for layer, is_chosen in layers.items():
        problem = ConvolutionProblem.parse(f"32x{layer} 1 f32")
        candidates = predict(problem, GpuSearchSpace(HOPPER, machine))
        accurate = (each for each in candidates if not each.rounds_operands)
        fastest = min(accurate, key=lambda each: each.predicted_seconds)
        assert isinstance(fastest.implementation.schedule, ImplicitGemmSchedule) == is_chosen


def test_all_that_are_offered_fit_in_registers_and_memory() -> None:
    shape = _shape(f"32x56x56x64->64 {X3} 1 f32")
    offered = [
        each
        for each in schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
        if isinstance(each, ImplicitGemmSchedule)
    ]
    assert {each.products for each in offered} == {1, 3}
    for each in offered:
        needed = each.bytes_for(shape)
        assert needed is not None and needed <= HOPPER.shared_memory_bytes
        assert each.threads * (each.sums + 64) <= 65536


@pytest.mark.parametrize(("channels", "blocks"), [(288, {1}), (320, {4}), (384, {4}), (480, set())])
def test_none_is_offered_whose_threads_lack_registers(channels: int, blocks: set[int]) -> None:
    """28 x 28 x 384 to 128 channels took an H200 88 us, predicted 40: threads spilled 248 bytes each."""
    pointwise = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    shape = _shape(f"32x28x28x{channels}->128 {pointwise}")
    offered = [
        each
        for each in schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
        if isinstance(each, ImplicitGemmSchedule) and each.products == 3 and each.block_columns == 64
    ]
    assert {each.channel_blocks for each in offered} == blocks


def test_none_is_offered_whose_threads_lack_registers_for_places() -> None:
    """17 x 17 x 192 by 7 x 1 taps took an H200 18 us, predicted 10: threads had 21 places of half of the
    channels, and spilled 336 bytes."""
    shape = _shape("1x17x17x192->192 kernel 7x1 stride 1x1 dilation 1x1 padding 3x3 0x0 groups 1 f32")
    offered = [
        each
        for each in schedules(shape, HOPPER, default_gpu_machine("sm_90a"))
        if isinstance(each, ImplicitGemmSchedule) and each.products == 3
    ]
    assert offered and all(each.channel_blocks > 2 for each in offered)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"4x14x14x64->64 {X3} 2 f32", "one group"),
        (f"4x14x14x64->62 {X3} 1 f32", "output channels are fours"),
        ("4x16x16x3->64 kernel 4x4 stride 4x4 dilation 1x1 padding 0x0 0x0 groups 1 f32", "one group"),
        (f"4x14x14x256->64 {X3} 1 f32", "the target has fewer"),
        ("4x14x14x64->64 kernel 1x1 stride 2x2 dilation 1x1 padding 0x0 0x0 groups 1 f32", "one group"),
        ("4x14x64->64 kernel 3 stride 1 dilation 1 padding 1 1 groups 1 f32", "one group"),
    ],
)
def test_other_convolutions_are_refused(text: str, reason: str) -> None:
    assert reason in (kernel_misfit(_shape(text), HOPPER, SCHEDULE) or "")


def test_only_sm_90a_has_them() -> None:
    target = replace(HOPPER, architecture="sm_80", has_warpgroup_products=False)
    assert "no matrix units that warpgroups use" in (
        kernel_misfit(_shape(f"4x14x14x64->64 {X3} 1 f32"), target, SCHEDULE) or ""
    )


@pytest.mark.parametrize(
    ("sizes", "fields", "message"),
    [
        ((128, 64), {}, "block_rows must be 64, not 128"),
        ((64, 72), {}, "block_columns 72 must be a multiple of 16"),
        ((64, 256), {}, "at most 128 sums, not the 256"),
        ((64, 64), {"warpgroups": 5}, "warpgroups must be at most 4, not 5"),
    ],
)
def test_blocks_that_do_not_fit_are_an_error(
    sizes: tuple[int, int], fields: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ImplicitGemmSchedule(*sizes, **{"warpgroups": 2, "walking_workgroups": 132} | fields)
