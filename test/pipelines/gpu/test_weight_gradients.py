"""GPU kernels of weight gradients: on Vulkan against float64, and what they become for CUDA."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from checked_programs import check_together, compile_rewritten
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    GpuWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from weight_gradient_program import WeightGradientProgram
from wide import batches, sampled, wide

BLOCKS = MultiplyAddWeightGradientSchedule(32, 32, tile_block=16, thread_rows=4, thread_columns=4)
"""Few tiles are several blocks of them."""
TILES = [
    WeightGradientProgram((14, 13), (3, 3), (m, m), (3, 3), 20, 24, padding=(1, 1), schedule=BLOCKS)
    for m in (4, 6)
]
CHANNELS = [
    # Channels that are no whole quads, and more than one block of them.
    WeightGradientProgram((10, 10), (3, 3), (4, 4), (3, 3), *channels, padding=(1, 1))
    for channels in [(3, 10), (17, 33)]
]
VIEWS = [
    WeightGradientProgram((15, 14), (3, 3), (4, 4), (2, 2), strides=(2, 2), padding=(1, 1)),
    WeightGradientProgram(
        (19, 17), (3, 3), (2, 2), (2, 3), 8, 16, strides=(2, 1), dilations=(3, 2), padding=(3, 2)
    ),
]
DIRECT = [
    # Both operands are multiplied where they are, the gradients, or none.
    WeightGradientProgram((8, 8), (1, 1), (1, 1), (1, 1), 32, 64, schedule=BLOCKS),
    WeightGradientProgram((14, 14), (1, 1), (1, 1), (1, 1), 32, 40, strides=(2, 2), schedule=BLOCKS),
    WeightGradientProgram((21, 21), (7, 7), (1, 1), (1, 1), 3, 64, strides=(2, 2), padding=(3, 3)),
]
OTHERS = [
    WeightGradientProgram((12, 11), (3, 3), (4, 4), (3, 3), 8, 16, padding=(1, 1), groups=2),
    WeightGradientProgram((12, 11), (3, 3), (4, 4), (3, 3), 8, 16, padding=(1, 1), channels_last=False),
    WeightGradientProgram((33,), (5,), (4,), (5,), 16, 24, padding=(2,)),
    WeightGradientProgram((6, 7, 8), (3, 3, 3), (2, 2, 2), (3, 3, 3), 8, 16, padding=(1, 1, 1)),
]
OPEN = replace(TILES[0], dynamic_size=True, dynamic_batch=True)
OPEN_SIZES = [
    OPEN,
    replace(DIRECT[0], dynamic_size=True),
    replace(DIRECT[2], dynamic_size=True, static_width=True),
    replace(VIEWS[1], dynamic_size=True),
    replace(OTHERS[1], dynamic_size=True),
    replace(OTHERS[3], dynamic_size=True),
    replace(TILES[0], dynamic_batch=True),
]
"""Of images whose sizes, or numbers, are known only at run time."""
SAMPLE = [OTHERS[0]]
ALL = [VIEWS[1], *SAMPLE, *TILES[:1], *CHANNELS[::2], *DIRECT, *OTHERS[1:]]


@pytest.mark.parametrize("programs", batches(ALL, SAMPLE))
def test_agrees_with_float64(programs: list[WeightGradientProgram], gpu_target: str, gpu_device: str) -> None:
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize("program", sampled(OPEN_SIZES, OPEN_SIZES[:1]), ids=str)
def test_agrees_with_float64_at_sizes_known_at_run_time(
    program: WeightGradientProgram, gpu_target: str, gpu_device: str
) -> None:
    sizes = program.random_sizes(6) if program.dynamic_size else [program.size]
    batches = (1, 3) if program.dynamic_batch else (program.batch,)
    program.check_sizes(sizes, batches, target=gpu_target, device=gpu_device)


@pytest.mark.parametrize("architecture", ["sm_90a", *wide(["sm_80"])])
@pytest.mark.parametrize(
    ("schedule", "products"),
    [
        (MultiplyAddWeightGradientSchedule(128, 64, tile_block=16), "fma.rn.f32"),
        (
            MatrixWeightGradientSchedule(128, 64, tile_block=32),
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_every_stage_is_a_kernel_for_cuda(
    schedule: GpuWeightGradientSchedule, products: str, architecture: str, tmp_path: Path
) -> None:
    program = replace(TILES[0], channels=128, outputs=64, batch=4, schedule=schedule)
    flags = [f"--iree-hal-dump-executable-binaries-to={tmp_path}"]
    compile_rewritten(program.function("main"), f"cuda:{architecture}", flags)
    kernels = "".join(path.read_text() for path in tmp_path.glob("*.ptx")).split(".visible .entry")[1:]
    stages = {
        kernel.split("winograd_")[1].split("_")[0]: kernel for kernel in kernels if "winograd_" in kernel
    }
    assert sorted(stages) == ["gradients", "images", "products", "total", "weights"]
    assert products in stages["products"]
    assert ".local" not in stages["products"], "sums are kept in registers"
