"""CPU kernels for AArch64 against float64, within the a-priori error bound of their algorithm.

Convolutions that are compiled for the same processor share a program, which an emulator runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from agreement import expect_within
from checked_programs import compile_rewritten
from convolution_program import Program
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from joined_programs import as_one, load_or_skip
from wide import wide_combinations

# Which processor they are for is their own matter. One worker has an emulator of each.
pytestmark = [pytest.mark.this_machine, pytest.mark.xdist_group("aarch64")]

BY_BLOCKS = WinogradSchedule(
    vector_width=4,
    tile_block=6,
    register_tiles=3,
    register_vectors=2,
    reduction_block=3,
    channel_splits=2,
    input_block=4,
    filter_block=6,
)
"""Of which blocks of tiles and of output channels don't divide what there is."""
FETCHING = replace(BY_BLOCKS, filter_block=None, input_block=None, image_prefetch=2, sum_registers=2)

SMALL = [
    Program((9, 11), 12, 20, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)),
    Program((5, 9), 3, 10, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
]
WINOGRAD = [
    Program((9, 11), 12, 20, (3, 3), (6, 6), (3, 3), low=(1, 1), high=(1, 1)),
    Program((13, 9), 7, 33, (3, 3), (2, 4), (3, 3), low=(0, 2), high=(3, 1), batch=2),
    Program((14, 14), 8, 16, (3, 3), (4, 4), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    Program((12, 12), 8, 17, (5, 5), (4, 4), (3, 3), low=(2, 2), high=(2, 2)),
    Program((6, 7, 8), 4, 8, (3, 3, 3), (2, 2, 2), (3, 3, 3), low=(1, 1, 1), high=(1, 1, 1)),
    Program((13, 9), 18, 20, (3, 3), (4, 4), (3, 3), schedule=BY_BLOCKS, constant_filter=False),
    Program((13, 9), 18, 20, (3, 3), (4, 4), (3, 3), low=(0, 2), high=(3, 1), schedule=FETCHING),
    Program((9, 10), 9, 13, (3, 3), (4, 4), (3, 3), low=(1, 1), high=(1, 1)).channels_first,
    Program((9, 9), 8, 8, (3, 3), (4, 4), (3, 3), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True),
]
DIRECT = [
    Program((7, 9), 32, 40, (1, 1), (1, 1), (1, 1), activation="swish"),
    Program((9, 30), 3, 20, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    Program((13, 11), 5, 10, (5, 3), (1, 1), (1, 1), dilations=(2, 2), low=(2, 0), high=(1, 2)),
    Program((14, 14), 16, 17, (3, 3), (1, 1), (1, 1), strides=(2, 3), low=(3, 2), high=(3, 2)),
    Program((1, 1), 32, 9, (1, 1), (1, 1), (1, 1)),
    Program((9, 10), 9, 13, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)).channels_first,
]
DEPTHWISE = [
    Program((9, 11), 20, 20, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=20),
    Program((9, 11), 6, 6, (5, 3), (1, 1), (1, 1), strides=(2, 1), low=(2, 1), high=(2, 1), groups=6),
    Program((9, 11), 12, 24, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=6),
    Program((9, 11), 10, 10, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1), groups=10).channels_first,
]


def check(programs: Sequence[Program], cpu: str, threads: int = 1) -> None:
    """As `Program.check`, of several that are compiled as one, for so many threads."""
    drawn = [program.arguments() for program in programs]
    texts, arguments = [], []
    for program, (image, filters, bias) in zip(programs, drawn, strict=True):
        texts.append(program.text(filters if program.constant_filter else None))
        arguments += program.given(image, filters, bias)
    compiled = compile_rewritten(as_one(texts), f"cpu:{cpu}", threads=threads)
    results = load_or_skip(cpu, compiled, threads)(*arguments)
    for program, result, (image, filters, bias) in zip(programs, results, drawn, strict=True):
        expect_within(program.channels_last(result), program.expected(image, filters, bias), program.bound())


def test_agrees_with_float64_on_neon() -> None:
    check(SMALL, "cortex-a76")


@pytest.mark.parametrize(
    ("cpu", "programs"),
    wide_combinations(
        [
            ("neoverse-v1", WINOGRAD),
            ("neoverse-v1", DIRECT),
            ("cortex-a76", [*WINOGRAD[1::2], *DIRECT[1::2]]),
            ("cortex-a76", DEPTHWISE),
        ]
    ),
    ids=["winograd, SVE", "direct, SVE", "both", "depthwise"],
)
def test_every_kernel_agrees_with_float64(cpu: str, programs: Sequence[Program]) -> None:
    """For SVE, bf16 and fp16, and without the first two, for which `make test-aarch64` has the others."""
    check(programs, cpu)


@pytest.mark.wide
def test_shares_of_threads_agree_with_float64() -> None:
    check([*SMALL, WINOGRAD[1], DIRECT[3], DEPTHWISE[0]], "apple-m1", threads=4)
