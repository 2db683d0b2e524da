"""Results that are stored as the split numbers that the next product multiplies, by an interpreter."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from activations import ACTIVATIONS
from checked_programs import compile_rewritten
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice import pointwise_pair_schedules
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import DirectProductKernel, Product
from iree.winograd.pipelines.gpu.kernels.matrix_products.split import SplitProduct
from iree.winograd.pipelines.gpu.kernels.matrix_products.split_results import bound_of
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.packing.split_rows import storing_split
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import StagedSchedule
from iree.winograd.pipelines.gpu.schedules.split import SplitSchedule
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.split_result import SplitResult
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from schedule_text import schedule_text
from scheduled_program import HOPPER
from wide import wide

SMALL = WarpgroupSchedule(64, 64, summed_block=64, stages=2, walking_workgroups=4)
TALL = replace(SMALL, block_rows=128)
UNEVEN = replace(SMALL, block_columns=48)
ALTERNATING = replace(SMALL, walking_workgroups=2, alternating_warpgroups=2)
OF_WARPS = SplitSchedule(64, 64, 32, 32, summed_block=32, stages=3)
PIXELS = (2, 9, 8)
ROUNDOFF = 2.0**-22
"""Of split numbers, and of sums of so few products on units that truncate."""


@pytest.fixture(autouse=True)
def two_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both layers are left to kernels of their own."""
    monkeypatch.setattr(pointwise_pair_schedules, "EXPECTED_GAIN", 0.0)


def constant(name: str, array: np.ndarray) -> str:
    data = array.astype(np.float32)
    type_ = f"tensor<{'x'.join(map(str, data.shape))}xf32>"
    return f'%{name} = arith.constant dense<"0x{data.tobytes().hex()}"> : {type_}'


@dataclass(frozen=True)
class PlacedKernel:
    """A kernel, and the elements of buffers that its arguments begin at."""

    kernel: Kernel
    places: tuple[int, ...]


def places(source: str) -> tuple[int, ...]:
    """Those of each argument of a kernel, as IREE has it when it is configured."""
    numbers = dict(re.findall(r"(%c\d+) = arith.constant (\d+) : index", source))
    moved = dict(re.findall(r"(%\d+) = arith.addi %\d+, (%c\d+) : index", source))
    spans = dict.fromkeys(re.findall(r" binding\((\d)\) alignment\(64\) offset\((%\d+)\)", source))
    return tuple(int(numbers[moved[offset]]) // 4 if offset in moved else 0 for _, offset in spans)


@dataclass(frozen=True)
class Chain:
    """Two pointwise layers, each by a schedule, with bias and activation between them."""

    filters: tuple[np.ndarray, np.ndarray]
    """Each [C, K]."""
    bias: np.ndarray
    schedules: tuple[WarpgroupSchedule, StagedSchedule] = (SMALL, TALL)
    activation: str = "gelu"
    pixels: tuple[int, int, int] = PIXELS

    def text(self) -> str:
        channels, between = self.filters[0].shape
        outputs = self.filters[1].shape[1]
        image, hidden, result = (
            f"tensor<{'x'.join(map(str, (*self.pixels, each)))}xf32>" for each in (channels, between, outputs)
        )
        algorithm = "winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}"
        weights = [constant(f"w{i}", each[None, None]) for i, each in enumerate(self.filters)]
        identity = "affine_map<(n, h, w, k) -> (n, h, w, k)>"

        def layer(number: int, read: str, type_: str, name: str, of: str) -> str:
            shape = "x".join(map(str, (1, 1, *self.filters[number].shape)))
            return f"""
    %e{number} = tensor.empty() : {of}
    %z{number} = linalg.fill ins(%zero : f32) outs(%e{number} : {of}) -> {of}
    %{name} = linalg.conv_2d_nhwc_hwcf {{{algorithm}, {schedule_text(self.schedules[number])}}}
      ins(%{read}, %w{number} : {type_}, tensor<{shape}xf32>) outs(%z{number} : {of}) -> {of}"""

        return f"""func.func @main(%x: {image}) -> {result} {{
    %zero = arith.constant 0.0 : f32
    {weights[0]}
    {weights[1]}
    {constant("b", self.bias)}
    {layer(0, "x", image, "s", hidden)}
    %y = linalg.generic {{indexing_maps = [{identity}, affine_map<(n, h, w, k) -> (k)>, {identity}],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%s, %b : {hidden}, tensor<{between}xf32>) outs(%e0 : {hidden}) {{
    ^bb0(%accumulated: f32, %bias: f32, %unused: f32):
      %biased = arith.addf %accumulated, %bias : f32
      {ACTIVATIONS[self.activation].text}
      linalg.yield %finished : f32
    }} -> {hidden}
    {layer(1, "y", hidden, "r", result)}
    return %r : {result}
}}"""

    def kernels(self, folder: Path) -> dict[str, list[PlacedKernel]]:
        """By stage, in the order in which they run; `folder` gets what the compiler writes."""
        compile_rewritten(self.text(), "cuda:sm_90a", [f"--iree-hal-dump-executable-files-to={folder}"])
        (text,) = (path.read_text() for path in folder.glob("*.ptx"))
        names = re.findall(r"\.entry (winograd_(\w+?)_\w+?_from_(\d+)\w*)\(", text)
        order = {self.filters[0].shape[0]: 0, self.filters[1].shape[0]: 1}
        stages: dict[str, list[PlacedKernel]] = {}
        for name, stage, _ in sorted(names, key=lambda each: order[int(each[2])]):
            (source,) = (path.read_text() for path in folder.glob(f"configured_*_{name}.mlir"))
            stages.setdefault(stage, []).append(PlacedKernel(Kernel.parsed(text, name), places(source)))
        return stages

    def packing(self, number: int) -> SplitPacking:
        channels, outputs = self.filters[number].shape
        problem = ConvolutionProblem.parse(
            f"2x9x8x{channels}->{outputs} kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
        )
        shape = ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))
        schedule = self.schedules[number]
        if number == 0:
            assert isinstance(schedule, WarpgroupSchedule)
            schedule = storing_split(schedule)
        return SplitPacking(shape, schedule)

    def run(self, image: np.ndarray, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        """The numbers that are stored between the layers, as they are split, and the result."""
        kernels = self.kernels(folder)
        assert {stage: len(each) for stage, each in kernels.items()} == {"input": 1, "direct": 2}
        rows, packings = image.size // image.shape[-1], [self.packing(number) for number in range(2)]
        blocks = [-(-rows // each.schedule.block_rows) for each in packings]
        sizes = [count * each.input_extents()[0] for count, each in zip(blocks, packings, strict=True)]
        # IREE has all that is constant in one buffer, and all that passes between kernels in another one.
        constants, passed = np.zeros(1 << 20, np.float32), np.full(sum(sizes), np.nan, np.float32)
        result = np.full((*PIXELS, self.filters[1].shape[1]), np.nan, np.float32)
        first, second = kernels["direct"]
        (beginning, split) = kernels["input"][0].places[1], first.places[-1]
        assert {beginning, split} == {0, sizes[0]}, "operands lie side by side"
        per_workgroup = kernels["input"][0].kernel.threads // packings[0].tile_threads
        every = ((i, 0) for i in range(-(-rows // per_workgroup)))
        kernels["input"][0].kernel.run([image, passed], every)
        for kernel, packing, filters, written in zip(
            (first, second), packings, self.filters, (passed, result), strict=True
        ):
            weights = packing.pack_filters(filters.astype(np.float64)[None]).ravel()
            read = (weights, *((bound_of(self.bound()), self.bias) if written is passed else ()))
            for place, array in zip(kernel.places[1:-1], read, strict=True):
                constants[place : place + array.size] = array
            schedule = packing.schedule
            product: Product
            if isinstance(schedule, WarpgroupSchedule):
                product = WarpgroupProduct(packing, schedule)
            else:
                assert isinstance(schedule, SplitSchedule)
                product = SplitProduct(packing, schedule)
            counts = DirectProductKernel(product).workgroups(Sizes.of_batch(2))
            grid = itertools.product(*(range(each.known or 0) for each in counts))
            kernel.kernel.run([passed, constants, written], grid)
        operand = passed[split : split + sizes[1]].reshape(blocks[1], -1)
        return unpacked(operand, packings[1])[:rows].reshape(*PIXELS, -1), result

    def bound(self) -> SplitResult:
        """That of the numbers between the layers, a little larger."""
        sums = np.abs(self.filters[0]).sum(axis=0)
        return SplitResult(self.schedules[1].block_rows, 1.01 * sums.max(), 1.01 * np.abs(self.bias).max())

    def exact(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both in float64."""
        first, second = (each.astype(np.float32).astype(np.float64) for each in self.filters)
        sums = image.astype(np.float64) @ first + self.bias.astype(np.float32)
        between = ACTIVATIONS[self.activation].exact(sums)
        return between, between @ second


def unpacked(packed: np.ndarray, packing: SplitPacking) -> np.ndarray:
    """The rows of an operand, in float64."""
    rows, channels = packing.schedule.block_rows, packing.padded_reduction
    halves, scales = packed[:, :-rows].copy().view(np.float16), packed[:, -rows:].astype(np.float64)
    lines = halves.reshape(len(packed), channels // 32, rows, 8, 8)
    chunk = np.arange(8)[None] ^ (np.arange(rows)[:, None] % 8)
    read = np.take_along_axis(lines, chunk[None, None, :, :, None], axis=3).astype(np.float64)
    high, low = (read[:, :, :, part : part + 4].reshape(*read.shape[:3], 32) for part in (0, 4))
    numbers = (high + low * 2.0**-11).transpose(0, 2, 1, 3).reshape(len(packed), rows, channels)
    return (numbers * scales[:, :, None]).reshape(-1, channels)


def drawn(channels: int = 64, between: int = 96, outputs: int = 40) -> tuple[np.ndarray, Chain]:
    generator = np.random.default_rng(0)
    image, first, second, bias = (
        generator.standard_normal(extents).astype(np.float32)
        for extents in ((*PIXELS, channels), (channels, between), (between, outputs), (between,))
    )
    return image, Chain((first, second), bias)


def expect_right(chain: Chain, image: np.ndarray, folder: Path) -> None:
    """Errors of both layers are within what f32's sums may have, also where a pixel's scale is a bound.

    Where float64 has no number, there is none.
    """
    between, result = chain.run(image, folder)
    with np.errstate(invalid="ignore", over="ignore"):
        exact, expected = chain.exact(image)
    first, second = (np.abs(each.astype(np.float64)) for each in chain.filters)
    slope, is_number = ACTIVATIONS[chain.activation].slope, np.isfinite(image).all(axis=-1)
    assert np.isnan(between[~is_number]).all() and np.isnan(result[~is_number]).all()
    # The largest of a pixel's sums errs by as much where the largest of its numbers is multiplied.
    sums = np.abs(image[is_number].astype(np.float64)) @ first + np.abs(chain.bias)
    most = slope * ROUNDOFF * sums + 2.0**-23 * sums.max(axis=-1, keepdims=True)
    assert (np.abs(between - exact)[is_number] <= most).all()
    most_of_result = (most + ROUNDOFF * np.abs(exact[is_number])) @ second
    assert (np.abs(result - expected)[is_number] <= most_of_result).all()


@pytest.mark.parametrize(
    "schedules",
    [(UNEVEN, TALL), *wide([(TALL, SMALL), (SMALL, OF_WARPS), (ALTERNATING, SMALL)])],
    ids=["up", "down", "warps", "turns"],
)
def test_products_hand_over_split_numbers(
    schedules: tuple[WarpgroupSchedule, StagedSchedule], tmp_path: Path
) -> None:
    """Blocks of rows and columns that aren't full, of layers whose blocks differ.

    Those of 48 columns begin within stages.
    """
    image, chain = drawn()
    expect_right(replace(chain, schedules=schedules), image, tmp_path)
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())


def test_pixels_of_all_magnitudes_stay_accurate(tmp_path: Path) -> None:
    """Those of zeros, very small and very large ones, and of no numbers; with the bias of each of them."""
    image, chain = drawn()
    pixels = image.reshape(-1, image.shape[-1])
    for number, exponent in enumerate((-149, -126, -100, -20, 20, 100, 118)):
        pixels[number] *= np.float32(2.0**exponent)
    pixels[7] = 0
    pixels[8, 3], pixels[9, 5], pixels[10, 0] = np.nan, np.inf, -np.inf
    expect_right(replace(chain, activation="relu"), image, tmp_path)


def test_denormal_sums_are_kept(tmp_path: Path) -> None:
    image, chain = drawn()
    image *= np.float32(2.0**-134)
    chain = replace(chain, bias=chain.bias * np.float32(2.0**-134), activation="relu")
    between, _ = chain.run(image, tmp_path)
    exact, _ = chain.exact(image)
    # A few of the denormal numbers that are nearest to each other.
    assert np.abs(exact).max() > 2.0**-129 and np.abs(between - exact).max() <= 2.0**-147


def test_pixels_far_below_the_bound_stay_accurate(tmp_path: Path) -> None:
    """Each is one number that hardly counts in the bound, or numbers whose products cancel each other."""
    _, chain = drawn()
    first, second = chain.filters
    first[5] *= np.float32(2.0**-16)
    first[7] = -first[6]
    image = np.zeros((*PIXELS, 64), np.float32)
    image[0, ..., 5] = np.linspace(1, 2, 72).reshape(9, 8)
    image[1, ..., 6] = image[1, ..., 7] = np.linspace(3, 5, 72).reshape(9, 8)
    image[1, ..., 8] = 2.0**-18
    chain = Chain((first, second), chain.bias * np.float32(2.0**-60))
    expect_right(chain, image, tmp_path)


def test_schedules_are_chosen_for_images_that_come_split() -> None:
    """384 channels take longer to be split and multiplied than to stream, but not to be multiplied."""
    widening, narrowing = (
        ConvolutionShape.decomposed(
            ConvolutionProblem.parse(
                f"32x56x56x{channels} kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
            ),
            decompose((1, 1), (1, 1), part_size=(1, 1)),
        )
        for channels in ("96->384", "384->96")
    )

    def fastest(space: GpuSearchSpace, shape: ConvolutionShape) -> GpuSchedule:
        return next(each for each in space.default_schedules(shape) if each.matrix_products == 3)

    space = GpuSearchSpace(HOPPER, default_gpu_machine("sm_90a"))
    before = fastest(space, widening)
    assert isinstance(before, WarpgroupSchedule)
    assert isinstance(fastest(space, narrowing), StreamedSchedule)
    behind = space.behind(widening, before)
    chosen = fastest(behind, narrowing)
    assert isinstance(chosen, WarpgroupSchedule)
    assert "input" in space.stage_seconds(narrowing, chosen)
    assert "input" not in behind.stage_seconds(narrowing, chosen)
    # What is streamed, or summed in parts, is left as it is.
    assert space.behind(narrowing, fastest(space, narrowing)) == space
    assert space.behind(widening, replace(before, reduction_parts=3)) == space


def test_layers_know_the_layer_before(tmp_path: Path) -> None:
    """That of the second one is chosen by what the first one's leaves, behind bias and activation."""
    generator = np.random.default_rng(0)
    first, second = (
        generator.standard_normal(extents).astype(np.float32) for extents in ((96, 384), (384, 96))
    )
    text = Chain((first, second), np.ones(384, np.float32), activation="gelu", pixels=(32, 56, 56)).text()
    text = re.sub(r"\{winograd.algorithm.*?\}\}", "", text)
    report = tmp_path / "report.json"
    iree.winograd.compile(text, target="cuda:sm_90a", report=report, strict=True)
    layers = json.loads(report.read_text())["layers"]
    chosen = [each["candidates"][each["chosen"]] for each in layers]
    assert [each["schedule"]["kind"] for each in chosen] == ["warpgroup", "warpgroup"]
    assert ["input" in each["stage_seconds"] for each in chosen] == [True, False]
