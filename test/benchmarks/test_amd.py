"""What is read from the output of AMD's compilers, and that default choices spill no registers.

By Mesa's where `make amd` has put it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.calibration.programs import backend_of
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.gpu.device.matrix_unit import MFMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.split import MfmaSchedule
from iree.winograd.pipelines.selection.chooser import TIME_TOLERANCE
from iree.winograd.pipelines.selection.implementation import Implementation

from benchmarks.amd.between import main as compile_between
from benchmarks.amd.blocks import blocks, bound, counted, sums_of_two_warps
from benchmarks.amd.bounds import Bound, architecture_of, waves_by_registers, waves_by_sharing
from benchmarks.amd.causes import CAUSES, FEW, FULLER, FUSED, HIGH, LEFT, MATRICES
from benchmarks.amd.chosen import kernel_key, summary
from benchmarks.amd.compiled import RADV, CompiledProgram, compiled_for, compiled_for_each
from benchmarks.amd.kernel import loop_of
from benchmarks.amd.layers import LAYERS, layer_problem, layer_text, problem_text
from benchmarks.amd.machine_code import Instructions, MatrixProduct, main_loop
from benchmarks.amd.page import program_page
from benchmarks.amd.predicted import predicted
from benchmarks.amd.radv import STAND_INS, kernels_of_log
from benchmarks.amd.rocm import kernels_of_assembly
from benchmarks.amd.zoo_layers import network_layers
from benchmarks.square_layer import SquareLayer
from benchmarks.tables.amd import between
from benchmarks.tables.amd import blocks as table_of_blocks

CODE = """\
kernel:
\tv_mov_b32_e32 v0, 0 ; 7e000280
.LBB0_1:
\tds_load_b128 v[1:4], v5 offset:16
\tds_load_2addr_b64 v[1:4], v5 offset1:1
\tv_dual_fmac_f32 v6, v1, v2 :: v_dual_fmac_f32 v7, v1, v3
\tv_fmac_f32_e32 v8, v1, v4 ; 56b50177
\tv_pk_fma_f32 v[8:9], v[1:2], v[3:4], v[8:9]
\tv_add_f32_e32 v8, v8, v9
\tscratch_load_b32 v9, off, off
\ts_cbranch_scc1 .LBB0_1
.LBB0_2:
\tv_fmac_f32_e32 v8, v1, v4
\ts_cbranch_scc1 .LBB0_2
\ts_endpgm
.Lfunc_end0:
"""
ASSEMBLY = f"""\
\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx1100"
{CODE}
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .name:           first
    .group_segment_fixed_size: 16384
    .max_flat_workgroup_size: 128
    .name:           kernel
    .sgpr_spill_count: 1
    .vgpr_count:     150
    .vgpr_spill_count: 3
    .wavefront_size: 32
"""
LOG = f"""\
SPIR-V assembly:
               OpEntryPoint GLCompute %kernel "kernel" %x
               OpExecutionMode %kernel LocalSize 16 8 1
max_subgroup_size: 64
Compute Shader
disasm:
{CODE}
Compute Shader:
*** SHADER STATS ***
VGPRs: 96
Spilled SGPRs: 0
Spilled VGPRs: 2
LDS size: 0
Subgroups per SIMD: 16
Pre-Sched VGPRs: 80
********************
"""


def test_loop_is_the_one_that_multiplies_most() -> None:
    loop = main_loop(CODE)
    assert loop is not None
    assert (loop.total, loop.vector, loop.multiplying, loop.multiply_adds) == (8, 4, 3, 5)
    assert (loop.shared_bytes, loop.saved) == (16 + 2 * 8, 1)
    assert main_loop("\tv_fmac_f32 v0, v1, v2\n") is None


def test_matrices_are_counted_by_their_sizes() -> None:
    assert MatrixProduct.of("v_mfma_f32_16x16x4_f32") == MatrixProduct(1024, "f32")
    assert MatrixProduct.of("v_wmma_f32_16x16x16_f16") == MatrixProduct(4096, "f16")
    assert MatrixProduct.of("v_fma_f32") is None


@pytest.mark.parametrize(
    ("chip", "line", "wave", "of_peak"),
    [
        ("gfx1030", "v_fmac_f32 v0, v1, v2", 64, 1),
        # Of two multiply-adds in a cycle, one to an instruction for waves of 32.
        ("gfx1100", "v_fmac_f32 v0, v1, v2", 32, 1 / 2),
        ("gfx1100", "v_fmac_f32 v0, v1, v2", 64, 1),
        ("gfx1100", "v_dual_fmac_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v1, v4", 32, 1),
        ("gfx942", "v_fma_f32 v0, v1, v2, v0", 64, 1 / 2),
        ("gfx942", "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", 64, 1),
        ("gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", 64, 1),
    ],
)
def test_bounds_follow_from_rates(chip: str, line: str, wave: int, of_peak: float) -> None:
    loop = Instructions.of([f"\t{line}"])
    assert Bound.of(loop, architecture_of(chip), wave).of_peak == pytest.approx(of_peak)
    with pytest.raises(ValueError, match="gfx700"):
        architecture_of("gfx700")


def test_shared_memory_bounds_loops() -> None:
    # A multiply-add for 16 bytes: 2 * 32 * 16 / 128 cycles of shared memory for half a one of computing.
    loop = Instructions.of(
        ["\tds_load_b128 v[0:3], v4", "\tv_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v3, 0"]
    )
    bound = Bound.of(loop, architecture_of("gfx1100"), 32)
    assert (bound.by, bound.of_peak) == ("shared memory", 1 / 16)


def test_waves_are_those_with_room() -> None:
    large, small = architecture_of("gfx1100"), architecture_of("gfx1102")
    assert waves_by_registers(150, 32, large) == 1536 // 168
    assert waves_by_registers(150, 64, large) == 768 // 156
    assert waves_by_registers(150, 32, small) == 1024 // 160
    assert waves_by_registers(216, 64, architecture_of("gfx942")) == 2
    assert waves_by_sharing(36864, 256, 64, architecture_of("gfx942")) == 1
    assert waves_by_sharing(36864, 256, 64, architecture_of("gfx950")) == 4


def test_kernels_are_read_from_assembly_and_logs() -> None:
    (kernel,) = kernels_of_assembly(ASSEMBLY)
    assert (kernel.target, kernel.name, kernel.threads, kernel.wave) == ("gfx1100", "kernel", 128, 32)
    assert (kernel.registers, kernel.spilled, kernel.shared, kernel.waves) == (150, 4, 16384, 8)
    assert kernel.loop is not None and kernel.as_json["loop"]["multiply_adds"] == 5
    (kernel,) = kernels_of_log(LOG, "navi31")
    assert (kernel.target, kernel.name, kernel.threads, kernel.wave) == ("radv:navi31", "kernel", 128, 64)
    assert (kernel.registers, kernel.spilled, kernel.shared, kernel.waves) == (96, 2, 0, 8)
    with pytest.raises(ValueError, match="target"):
        next(kernels_of_assembly(""))


def test_the_first_cache_bounds_loops() -> None:
    """Stock IREE's on RDNA by ROCm: 17 numbers for 16 sums, or two for one, which other instructions add."""
    load, wide = "\tbuffer_load_b32 v0, v1, s[0:3], null offen", "\tglobal_load_b128 v[0:3], v[4:5], off"
    wide_sums = Instructions.of([load, *[wide] * 4, *["\tv_fmac_f32_e32 v0, v1, v2"] * 16])
    assert wide_sums.cached_bytes == 68
    bound = Bound.of(wide_sums, architecture_of("gfx1201"), 32)
    assert bound.by == "the first cache" and bound.of_peak == pytest.approx(16 / (4 * 17))
    loads = ["\tbuffer_load_dword v0, v1, s[0:3], 0 offen", "\tglobal_load_ushort v2, v[0:1], off"]
    assert Instructions.of([*loads, "\tbuffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen"]).cached_bytes == 22
    apart = ["\tv_dual_mul_f32 v0, v1, v2 :: v_dual_mul_f32 v3, v4, v5", "\tv_add_f32_e32 v6, v6, v0"]
    code = "\n".join(["kernel:", ".LBB0_1:", *[load] * 4, *apart, apart[1], "\ts_cbranch_scc1 .LBB0_1"])
    assert main_loop(code) is None
    loop = loop_of("main_dispatch_1_conv_7x7x512x3x3x512_f32", code)
    assert loop is not None and loop.multiply_adds == 2
    assert Bound.of(loop, architecture_of("gfx1201"), 32).of_peak == pytest.approx(1 / 8)
    assert loop_of("main_dispatch_0_elementwise_1024_f32", code) is None


def test_layers_have_names_of_their_own() -> None:
    assert len(LAYERS) == 2 * 11 + 7
    assert "tensor<32x16x16x256xf32>" in layer_text(LAYERS["32x14x14 3x3 256->256"])
    text = layer_text(LAYERS["1x7x7 3x3 512->512"], constant_filter=False)
    assert text.count("tensor<3x3x512x512xf32>") == 2


def test_layers_of_groups_are_programs() -> None:
    window = "kernel 3x5 stride 2x1 dilation 1x2 padding 1x4 1x4"
    grouped = problem_text(ConvolutionProblem.parse(f"2x14x16x64->96 {window} groups 32 f32"))
    assert "tensor<2x16x24x64xf32> into tensor<2x16x24x32x2xf32>" in grouped
    assert "tensor<32x3x3x5x2xf32>" in grouped
    assert "strides = dense<[2, 1]>" in grouped and "dilations = dense<[1, 2]>" in grouped
    each = problem_text(ConvolutionProblem.parse(f"2x14x16x64->64 {window} groups 64 f32"))
    assert "depthwise" in each and "tensor<3x5x64xf32>" in each


def test_layers_have_the_same_kernels_whose_blocks_are_as_full() -> None:
    schedule = GemmSchedule(64, 64, 16)
    algorithm = Algorithm((2, 2), (3, 3))

    def key(size: int, channels: int, filters: int, schedule: GemmSchedule = schedule) -> object:
        problem = layer_problem(SquareLayer(1, size, channels, filters))
        return kernel_key(problem, Implementation(algorithm, schedule))

    assert key(32, 128, 64) == key(64, 256, 128)
    assert key(32, 128, 64) == key(32, 128, 64, replace(schedule, reduction_parts=1))
    other = (
        key(28, 128, 64),  # Rows that are no whole blocks.
        key(33, 128, 64),  # Tiles that reach over the edge.
        key(32, 128, 62),
        key(32, 126, 64),
        key(32, 16, 64),  # A loop that may be unrolled.
        key(32, 128, 64, replace(schedule, reduction_parts=2)),
        key(32, 128, 64, replace(schedule, thread_columns=4)),
    )
    assert key(32, 128, 64) not in other


@pytest.mark.parametrize(
    ("block", "thread", "of_peak"),
    [
        ((32, 32), (4, 4), 0.44),
        ((32, 32), (8, 4), 0.57),
        ((64, 32), (8, 8), 0.84),
        ((64, 64), (8, 8), 0.89),
        ((128, 128), (16, 8), 0.95),
    ],
)
def test_blocks_are_bound_by_what_threads_load(
    block: tuple[int, int], thread: tuple[int, int], of_peak: float
) -> None:
    """Of r x c sums r c / (4 (r + c + (R + C) / t)) on RDNA 3, where computing doesn't bound them."""
    schedule = GemmSchedule(*block, 16, thread_rows=thread[0], thread_columns=thread[1])
    found = bound(schedule, architecture_of("gfx1100"), by_mesa=False)
    assert found == pytest.approx(of_peak, abs=0.005)
    by_pairs = bound(schedule, architecture_of("gfx1100"), by_mesa=True)
    assert by_pairs == pytest.approx(min(of_peak, 0.75) if schedule.threads == 32 else of_peak, abs=0.005)


def test_matrix_units_are_bound_by_what_warps_load() -> None:
    """Of 64 x 64 sums in four warps, three products of two parts: less on CDNA 4 than on CDNA 3."""
    small = MfmaSchedule(64, 64, 32, 32, stages=2, summed_block=32)
    large = MfmaSchedule(96, 128, 48, 64, stages=2, summed_block=32, terms=32)
    found = [
        bound(each, architecture_of(chip), by_mesa=False)
        for each, chip in ((small, "gfx942"), (small, "gfx950"), (large, "gfx950"))
    ]
    assert found == pytest.approx([1.0, 0.5, 0.857], abs=0.001)
    fused = FusedSchedule(16, 8, 8, 4, thread_products=1, thread_tiles=4, thread_columns=4)
    assert bound(fused, architecture_of("gfx1100"), by_mesa=True) is None


def test_lower_bounds_have_a_cause_and_are_predicted_to_be_faster() -> None:
    """On a GPU of 96 compute units, and on CDNA 4: of all that has a higher bound nothing takes less.

    What blocks of 64 x 64 leave over is counted by what a unit has to do.
    """

    def layer(batch: int, size: int, channels: int, filters: int, taps: int = 1) -> ConvolutionProblem:
        return layer_problem(SquareLayer(batch, size, channels, filters, taps))

    assert sums_of_two_warps(96) == 786432
    expected = {
        "vulkan:rdna3": {
            layer(1, 35, 192, 32): FEW,
            # Of 196 blocks three for a unit, of twice as many halves five.
            layer(32, 14, 256, 128): FULLER,
            layer(32, 14, 1024, 256): HIGH,
            layer(1, 56, 64, 64, 3): FUSED,
            layer(32, 7, 672, 192): LEFT,
        },
        "hip:gfx950": {layer(1, 28, 512, 512, 3): MATRICES, layer(1, 14, 1024, 256): HIGH},
    }
    for target, causes in expected.items():
        found = list(blocks(list(causes), target))
        assert [cause for cause, _ in found] == list(causes.values())
        for cause, block in found:
            assert (block is None) == (cause in (HIGH, LEFT))
            # A slower one may be chosen for its accuracy.
            assert block is None or block.times >= 1 - TIME_TOLERANCE
        rows = counted(target, found)
        assert sum(row["layers"] for row in rows.values()) == len(causes)  # type: ignore[misc]
        heads, _, line = table_of_blocks([{"blocks": rows}])
        assert line.startswith(f"| {target} | 1 |") and heads.count("|") == len(CAUSES) + 2


@pytest.mark.parametrize(
    "target",
    ["vulkan:rdna3", *(pytest.param(each, marks=pytest.mark.wide) for each in ("hip:gfx1201", "hip:gfx942"))],
)
def test_no_layer_is_predicted_to_take_longer_than_by_stock_iree(target: str) -> None:
    """By more than is a difference in predicted times."""
    space = backend_of(target).search_space()
    assert isinstance(space, GpuSearchSpace)
    for layer in LAYERS.values():
        found = predicted(layer_problem(layer), space)
        assert 0 < found.seconds <= (1 + TIME_TOLERANCE) * found.stock_seconds, layer.name


def test_sizes_that_irees_blocks_dont_divide_are_not_left_to_it() -> None:
    """By Vulkan it spills registers there, or leaves a SIMD one wave."""
    window = "stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    left, *others = (
        ConvolutionProblem.parse(f"{layer} kernel 1x1 {window}")
        for layer in ("1x28x28x512->256", "1x7x7x512->2048", "1x14x14x512->256", "2x32x32x320->48")
    )
    space = GpuBackend(GpuTarget(1024, 48 << 10, architecture="rdna4")).search_space()
    assert predicted(left, space).chosen is None
    assert all(predicted(each, space).chosen is not None for each in others)


def test_kernels_of_the_same_blocks_are_summed_up() -> None:
    schedule = {"kind": "gemm", "block_rows": 64, "block_columns": 32, "thread_rows": 8, "thread_columns": 4}

    def row(layers: int, spilled: int, waves: int, bound: float) -> dict[str, object]:
        kernel = {"name": "winograd_products_x", "registers": 90 + waves, "spilled": spilled, "waves": waves}
        chosen = {"schedule": schedule}
        return {
            "target": "gfx1100",
            "layers": layers,
            "chosen": chosen,
            "kernels": [kernel | {"bound": bound}],
        }

    (found,) = summary({"a": row(3, 0, 4, 0.5), "b": row(2, 7, 1, 0.6)}).values()
    assert (found["stage"], found["schedule"], found["block"], found["part"]) == (
        "products",
        "gemm",
        "64x32",
        "8x4",
    )
    assert (found["layers"], found["kernels"], found["spilling"]) == (5, 2, 1)
    assert (found["most_registers"], found["fewest_waves"], found["bounds"]) == (94, 1, [0.5, 0.6])


def test_kernels_between_convolutions_are_summed_up() -> None:
    def row(target: str, *kernels: dict[str, object]) -> dict[str, object]:
        return {"operation": "attention", "target": target, "kernels": list(kernels)}

    ours = {"name": "winograd_safe_attention_16x1024x1024_from_40_to_40", "waves": 6}
    theirs = {"name": "main_dispatch_12_elementwise_transpose_2x64_f32", "waves": 16, "spilled": 0}
    rows = {
        "a": row("gfx1100", ours | {"registers": 144, "spilled": 0, "bound": 0.5}, theirs | {"registers": 9}),
        "b": row("radv:navi31", ours | {"registers": 192, "spilled": 3, "bound": 0.625}),
    }
    *_, line = between([{"operations": rows}])
    cells = ["attention", "2", "safe attention", "elementwise transpose", "radv:navi31", "144", "192", "0"]
    assert line == f"| {' | '.join([*cells, '6', '0.50 to 0.62'])} |"


def test_an_operation_between_convolutions_is_compiled(tmp_path: Path) -> None:
    output = tmp_path / "between.json"
    arguments = ["--operations", "softmax of channels", "--targets", "gfx1100", "--output", str(output)]
    assert compile_between(arguments) == 0
    (row,) = json.loads(output.read_text())["operations"].values()
    names = [kernel["name"] for kernel in row["kernels"]]
    assert any("softmax" in name for name in names)
    assert not any("direct" in name for name in names)


def test_layers_of_networks_are_predicted_beside_irees_code() -> None:
    """On CDNA that multiplies as we do: no layer may be predicted to take longer."""
    layers = list(network_layers("resnet18", 1))
    assert len(layers) == 20
    assert str(layers[0]).startswith("1x224x224x3->64 kernel 7x7 stride 2x2")
    target = GpuTarget(1024, 64 << 10, architecture="gfx942", matrix_unit=MFMA)
    space = GpuBackend(target).search_space()
    for layer in (layers[0], layers[1], layers[-1]):
        found = predicted(layer, space)
        assert found.chosen is not None
        assert 0 < found.seconds <= (1 + TIME_TOLERANCE) * found.stock_seconds


def test_layers_are_left_to_irees_code_that_is_predicted_to_be_faster() -> None:
    """On AMD's GPUs: nothing is known of it elsewhere, nor of what it makes of gradients."""
    target = GpuTarget(1024, 64 << 10, architecture="gfx1201", orders_steps=True)
    space = GpuBackend(target).search_space()
    window = "stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    left = ConvolutionProblem.parse(f"1x28x28x192->32 kernel 1x1 {window}")
    found = predicted(left, space)
    assert found.chosen is None and found.seconds == found.stock_seconds
    of_many_taps = ConvolutionProblem.parse(f"1x9x9x512->2048 kernel 3x3 {window}")
    assert predicted(of_many_taps, space).chosen is not None
    assert space.iree_stage_seconds(of_many_taps)
    assert not space.iree_stage_seconds(ConvolutionProblem.parse(f"weight gradient of {of_many_taps}"))
    elsewhere = GpuBackend(GpuTarget(1024, 48 << 10, architecture="sm_90")).search_space()
    assert not elsewhere.iree_stage_seconds(left)


def test_layers_that_irees_code_fails_on_are_not_left_to_it() -> None:
    """Of one tap whose filter is a single number, as those of `problem_text`: "failed to distribute"."""
    layer = "1x28x28x192->32 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    compiled = compiled_for(problem_text(ConvolutionProblem.parse(layer)), "gfx1201")
    assert len(compiled.layers) == 1


def test_a_page_has_the_report_and_the_kernels() -> None:
    """By LLVM; of stock IREE's programs there is no report."""
    layer = "1x7x7x64->64 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
    compiled = compiled_for(problem_text(ConvolutionProblem.parse(layer)), "gfx1100")
    page = program_page(compiled)
    assert page.index("<h2>Layers</h2>") < page.index("<h2>Kernels, as compiled</h2>")
    for kernel in compiled.kernels:
        cells = "".join(f'<td class="number">{each}</td>' for each in kernel.row[2:8])
        assert f"<td>{kernel.name}</td>{cells}" in page
    with pytest.raises(ValueError, match="stock IREE"):
        program_page(replace(compiled, report=None))


@pytest.mark.wide
@pytest.mark.parametrize(
    ("layer", "target"),
    [
        ("32x56x56 1x1 64->256", "gfx1100"),
        ("32x28x28 3x3 128->128", "gfx942"),
        # Rows that are no whole blocks, tiles that don't divide the image, and large tiles.
        ("1x56x56 1x1 64->256", "gfx1201"),
        ("32x14x14 3x3 256->256", "gfx90a"),
        ("32x56x56 3x3 256->256", "gfx1201"),
        # A direct convolution, whose loop finds what of the image a view has.
        ("1x7x7 3x3 512->512", "gfx1201"),
    ],
)
def test_default_choices_spill_no_registers(layer: str, target: str) -> None:
    compiled = compiled_for(layer_text(LAYERS[layer]), target)
    (choice,) = compiled.layers
    assert choice["predicted_seconds"] > 0
    assert {kernel.name: kernel.spilled for kernel in compiled.kernels if kernel.spilled} == {}
    assert {kernel.name: kernel.waves for kernel in compiled.kernels if kernel.waves < 2} == {}
    multiplying = [kernel for kernel in compiled.kernels if "_products_" in kernel.name]
    assert all(kernel.bound.of_peak > 0.85 for kernel in multiplying if kernel.bound)


@pytest.mark.wide
@pytest.mark.mesa
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_load_on_gpus_that_mesa_is_made_to_believe_in(layer: str) -> None:
    """By IREE's own runtime; no kernel spills registers or leaves a SIMD less than two waves."""
    targets = [f"{RADV}{name}" for name in STAND_INS]
    compiled = dict(compiled_for_each(layer_text(LAYERS[layer]), targets))
    assert compiled.keys() == set(targets)
    for target, program in compiled.items():
        assert isinstance(program, CompiledProgram), f"{target}: {program}"
        assert program.kernels
        assert {kernel.name for kernel in program.kernels if kernel.spilled or kernel.waves < 2} == set()
