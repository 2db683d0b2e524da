"""Results of warpgroups of which a thread stores eight neighbours at once: what kernels compute, by an
interpreter."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from half_pointwise import choosing, pointwise_ptx
from iree.winograd.cuda.early_launch import with_waits
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import DirectProductKernel
from iree.winograd.pipelines.gpu.kernels.matrix_products.warpgroup import WarpgroupProduct
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import HOPPER
from wide import wide_combinations

ROUNDED = WarpgroupSchedule(
    128, 96, products=1, multiplied_type="f16", stages=2, walking_workgroups=2, store_width=8
)
MAPPING = replace(ROUNDED, box_rows=128)
ALTERNATING = replace(MAPPING, stages=4, alternating_warpgroups=2)
GATHERING = replace(ROUNDED, block_rows=64, block_columns=64, copying_warps=2)
SIZE = (2, 11, 9)
"""Images and pixels: blocks that aren't full."""
STORE, QUADS = "st.global.v4.b32", "st.global.v2.b32"


def shape(channels: int, outputs: int, number: str = "f16", result: str | None = None) -> ConvolutionShape:
    layer = f"{'x'.join(map(str, SIZE))}x{channels}->{outputs} kernel 1x1 stride 1x1"
    types = f"f32, operands of {number}" + ("" if result is None else f", result of {result}")
    problem = ConvolutionProblem.parse(f"{layer} dilation 1x1 padding 0x0 0x0 groups 1 {types}")
    return ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), part_size=(1, 1)))


def packing_of(channels: int, outputs: int, schedule: WarpgroupSchedule) -> SplitPacking:
    return SplitPacking(shape(channels, outputs, schedule.multiplied_type or "f16"), schedule)


def operands(channels: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    image, filters = (
        generator.standard_normal(extents).astype(np.float16)
        for extents in ((*SIZE, channels), (channels, outputs))
    )
    return image, filters


def run(text: str, packing: SplitPacking, arguments: list[np.ndarray]) -> None:
    """All workgroups of the kernel that multiplies."""
    schedule = packing.schedule
    assert isinstance(schedule, WarpgroupSchedule)
    kernels = Kernel.by_stage(text)
    assert set(kernels) == {"direct"}
    (count,) = DirectProductKernel(WarpgroupProduct(packing, schedule)).workgroups(Sizes.of_batch(SIZE[0]))
    kernels["direct"].run(arguments, ((i,) for i in range(count.known or 0)))


def exact_and_bound(image: np.ndarray, filters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In float64, and what sums of units that truncate to f32 may be off by."""
    exact, magnitudes = (
        f(image.astype(np.float64)) @ f(filters.astype(np.float64)) for f in (lambda x: x, np.abs)
    )
    return exact, image.shape[-1] * 2.0**-22 * magnitudes


@pytest.mark.parametrize(
    ("schedule", "channels", "outputs"),
    [
        (MAPPING, 136, 192),
        (replace(MAPPING, result_bytes=2), 64, 288),
        (replace(MAPPING, block_rows=192, block_columns=256, box_rows=64), 64, 256),
        (ALTERNATING, 136, 288),
        (replace(ALTERNATING, block_columns=160), 136, 296),
        (GATHERING, 64, 72),
        *wide_combinations(
            [(replace(GATHERING, block_columns=96), 64, 72), (replace(GATHERING, result_bytes=2), 64, 72)]
        ),
    ],
    ids=[
        "boxes",
        "results that are copied",
        "several instructions for a step",
        "warpgroups that alternate",
        "a last block that isn't full",
        "gathered rows",
        "a block that is wider than all outputs",
        "gathered rows whose results are copied",
    ],
)
def test_agrees_with_float64(
    schedule: WarpgroupSchedule,
    channels: int,
    outputs: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image, filters = operands(channels, outputs)
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = pointwise_ptx(image, filters[None, None], tmp_path)
    stores = STORE if schedule.result_bytes is None else "st.shared.v4.b32"
    assert stores in text and QUADS not in text
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
    packing = packing_of(channels, outputs, schedule)
    weights = packing.pack_filters(filters.astype(np.float64)[None])
    result = np.full((*SIZE, outputs), np.nan, np.float16)
    run(text, packing, [image, weights, result])
    exact, bound = exact_and_bound(image, filters)
    assert (np.abs(result.astype(np.float64) - exact) <= bound + 2.0**-11 * np.abs(exact)).all()


def finished_ptx(filters: np.ndarray, number: str, result: str, batch: str, folder: Path) -> str:
    """A layer with a bias and a shortcut in half precision, and ReLU of their sum."""
    channels, outputs = filters.shape
    bits = filters if number == "f16" else bf16_bits(filters.astype(np.float32))
    image, layer, final = (
        f"tensor<{batch}x11x9x{extent}x{type_}>"
        for extent, type_ in ((channels, number), (outputs, number), (outputs, result))
    )
    vector, weights = f"tensor<{outputs}x{number}>", f"tensor<1x1x{channels}x{outputs}x{number}>"
    size = "%n" if batch == "?" else ""
    widened = [f"%{each} = arith.extf %{each}0 : {number} to f32" for each in "abc"]
    body = [
        "%d = arith.addf %a, %b : f32",
        "%e = arith.addf %d, %c : f32",
        "%f = arith.maximumf %e, %z : f32",
    ]
    narrowed = (
        "%g = arith.addf %f, %z : f32" if result == "f32" else f"%g = arith.truncf %f : f32 to {result}"
    )
    of_all, of_channel = "affine_map<(n, h, w, k) -> (n, h, w, k)>", "affine_map<(n, h, w, k) -> (k)>"
    source = f"""func.func @main(%x: {image}, %bias: {vector}, %y: {layer}) -> {final} {{
      %c0 = arith.constant 0 : index
      %z = arith.constant 0.0 : f32
      %zero = arith.constant 0.0 : {number}
      %n = tensor.dim %x, %c0 : {image}
      %w = arith.constant dense<"0x{bits.tobytes().hex()}"> : {weights}
      %empty = tensor.empty({size}) : {layer}
      %zeros = linalg.fill ins(%zero : {number}) outs(%empty : {layer}) -> {layer}
      %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : {image}, {weights}) outs(%zeros : {layer}) -> {layer}
      %o = tensor.empty({size}) : {final}
      %s = linalg.generic {{indexing_maps = [{of_all}, {of_channel}, {of_all}, {of_all}],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
          ins(%r, %bias, %y : {layer}, {vector}, {layer}) outs(%o : {final}) {{
      ^bb0(%a0: {number}, %b0: {number}, %c0_: {number}, %old: {result}):
        {chr(10).join([*widened, *body, narrowed]).replace("%c0 :", "%c0_ :")}
        linalg.yield %g : {result}
      }} -> {final}
      return %s : {final}
    }}"""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    iree.winograd.compile(source, target="cuda:sm_90a", strict=True, flags=flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    return text


@pytest.mark.parametrize(
    ("number", "result", "batch"),
    [
        ("f16", "f16", "2"),
        ("f16", "f16", "?"),
        *wide_combinations([("bf16", "bf16", "2"), ("f16", "f32", "2")]),
    ],
)
def test_epilogues_agree_with_float64(
    number: str, result: str, batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shortcuts and biases in half precision are read by 16 bytes, too; f32 is stored by two quads."""
    schedule = replace(ALTERNATING, multiplied_type=number)
    generator = np.random.default_rng(1)
    image, filters = operands(64, 288)
    bias, shortcut = (generator.standard_normal(each).astype(np.float16) for each in ((288,), (*SIZE, 288)))
    if number == "bf16":
        image, filters, bias, shortcut = (
            bf16_numbers(bf16_bits(each)) for each in (image, filters, bias, shortcut)
        )
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = finished_ptx(filters, number, result, batch, tmp_path)
    packing = packing_of(64, 288, schedule)
    weights = packing.pack_filters(filters.astype(np.float64)[None])
    stored = [each if number == "f16" else bf16_bits(each) for each in (image, bias, shortcut)]
    finished = np.zeros((*SIZE, 288), {"f16": np.float16, "bf16": np.uint16, "f32": np.float32}[result])
    words = [np.array(word) for word in (SIZE[0], 0) if batch == "?"]
    arguments = [stored[0], weights, *stored[1:], finished, *words]
    run(text, packing, arguments)
    assert STORE in text and QUADS not in text and not re.search(r"ld\.global\S*\.v2", text)
    exact, bound = exact_and_bound(image, filters)
    # The layer's own rounding, and that of its result.
    unit = {"f16": 2.0**-11, "bf16": 2.0**-8}[number]
    summed = exact + bias + shortcut
    bound = 1.01 * (bound + unit * np.abs(exact) + unit * np.abs(summed)) + 2.0**-22 * np.abs(summed)
    found = bf16_numbers(finished) if result == "bf16" else finished
    assert (np.abs(found - np.maximum(summed, 0)) <= bound).all()


def test_filters_known_at_run_time_lie_as_constant_ones() -> None:
    packing = packing_of(64, 96, replace(MAPPING, store_width=8))
    filters = np.arange(1, 64 * 96 + 1, dtype=np.float64) % 2039
    packed = packing.pack_filters(filters.reshape(1, 64, 96)).view(np.float16)[0]
    for channel in range(64):
        for first in range(0, 96, 4):
            for i, line in enumerate(packing.stage_lines(Index(first))):
                place = packing.stage_place(line, Index(channel)).known
                assert place is not None and packed[place] == filters[channel * 96 + first + i]


def test_images_that_are_mapped_have_it() -> None:
    """But for results of f32, which are 16 bytes by quads. Only tuners are offered it for gathered rows."""
    machine = default_gpu_machine("sm_90a")
    space = GpuSearchSpace(HOPPER, machine)
    for result in ("f16", None):
        layer = replace(shape(768, 3072, "f16", result), batch=128)
        chosen = next(each for each in default_schedules(layer, HOPPER, machine) if each.matrix_products == 1)
        assert isinstance(chosen, WarpgroupSchedule) and chosen.maps_image
        assert is_wide(chosen) == (result == "f16")
        offered = {
            (each.maps_image, is_wide(each))
            for each in space.schedules(layer)
            if isinstance(each, WarpgroupSchedule) and (each.maps_image or each.gathers)
        }
        of_f16 = {(True, True), (False, True), (False, False)}
        assert offered == (of_f16 if result == "f16" else {(True, False), (False, False)})


def is_wide(schedule: object) -> bool:
    return isinstance(schedule, WarpgroupSchedule) and schedule.store_width is not None


def test_outputs_that_are_no_octets_do_not_fit() -> None:
    assert kernel_misfit(shape(64, 200), HOPPER, GATHERING) is None
    assert "whole 8 outputs" in (kernel_misfit(shape(64, 196), HOPPER, GATHERING) or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"store_width": 4},
        {"block_columns": 112},
        {"reduction_parts": 2},
    ],
)
def test_other_schedules_are_invalid(changes: dict[str, int | None]) -> None:
    with pytest.raises(ValueError, match="threads store 8 neighbours of whole sums"):
        replace(MAPPING, **changes)


@pytest.mark.parametrize("block", [(64, 192, 7), (128, 192, 5)])
def test_layers_with_shortcuts_spill_nothing(
    block: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the text that is assembled, whose kernels wait for those ahead."""
    rows, columns, stages = block
    schedule = replace(
        ALTERNATING,
        block_rows=rows,
        block_columns=columns,
        stages=stages,
        box_rows=rows,
        walking_workgroups=132,
    )
    with choosing(monkeypatch) as choose:
        choose(schedule)
        text = finished_ptx(np.zeros((768, 3072), np.float16), "f16", "f16", "32", tmp_path)
    (path,) = tmp_path.glob("*.ptx")
    path.write_bytes(with_waits(text.encode()))
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
