"""The blocks of IREE's own products of pixels and channels on RDNA, which its code is predicted by."""

from __future__ import annotations

import re
from math import prod

import pytest
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.iree_blocks import IreeBlock, block_by_rocm, block_by_vulkan
from iree.winograd.targets import target_flags
from wide import wide_combinations

from benchmarks.amd.layers import problem_text

WINDOW = "kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"


def configured(problem: ConvolutionProblem, target: str) -> str:
    """Stock IREE's program with the configurations that it chooses."""
    stages, errors = Stages(compile_to="executable-configurations"), []
    session = open_session(target_flags(target), None)
    with Compilation(session, None, stages, report=errors.append) as compilation:
        text = problem_text(problem, constant_filter=False)
        invocation = compilation.compile(open_source(compilation, text))
        assert invocation is not None, errors
        return invocation.export_module().get_asm(use_local_scope=True)


@pytest.mark.parametrize(
    ("target", "layer", "sizes", "threads"),
    [
        ("hip:gfx1201", "1x14x14x320->128", (32, 128), 256),
        *wide_combinations(
            [
                ("hip:gfx1201", "32x14x14x384->64", (128, 64), 128),
                ("hip:gfx1100", "1x28x28x288->128", (8, 32), 64),
                ("vulkan:rdna4", "32x7x7x960->128", (56, 64), 128),
                ("vulkan:rdna2", "1x14x14x896->128", (28, 64), 64),
                ("vulkan:rdna3", "1x35x35x192->32", (7, 32), 8),
            ]
        ),
    ],
)
def test_blocks_are_those_that_iree_chooses(
    target: str, layer: str, sizes: tuple[int, int], threads: int
) -> None:
    problem = ConvolutionProblem.parse(f"{layer} {WINDOW}")
    rows, terms = problem.batch * prod(problem.output_size), problem.input_channels
    columns = problem.output_channels
    if target.startswith("hip:"):
        block = block_by_rocm(rows, columns, terms)
    else:
        block = block_by_vulkan(rows, columns, terms, greatest=0.61, loaded=1 / 4)
    assert (block.rows, block.columns, block.threads) == (*sizes, threads)
    text = configured(problem, target)
    tile = re.search(r"(?:workgroup = |tile_sizes = \[)\[(\d+), (\d+)", text)
    group = re.search(r"workgroup_size = \[(\d+), (\d+), (\d+)\]", text)
    assert tile is not None and tuple(map(int, tile.groups())) == sizes
    assert group is not None and prod(map(int, group.groups())) == threads


def test_blocks_by_vulkan_are_bound_by_what_threads_load() -> None:
    """Seven by four sums load eleven numbers, which a compute unit does for 0.64 of its multiply-adds."""

    def block(rows: int, columns: int, terms: int, loaded: float = 1 / 4) -> IreeBlock:
        return block_by_vulkan(rows, columns, terms, greatest=0.94, loaded=loaded)

    large = block(1568, 128, 960)
    assert large.bound == pytest.approx(28 / 44) and large.awaited_terms is None
    assert block(1568, 128, 960, loaded=1 / 2).bound == pytest.approx(0.94)
    # Few threads read from caches, a step at a time; a sum in parts has one of each operand for a term.
    assert block(1225, 32, 192) == IreeBlock(7, 32, 8, 28 / 44, awaited_terms=16)
    assert block(1, 1024, 64) == IreeBlock(1, 1, 32, 1 / 8, awaited_terms=64)
    assert block(1, 1152, 48) == IreeBlock(1, 128, 32, 4 / 20, awaited_terms=4)
    assert block(3136, 58, 24).threads == 32
