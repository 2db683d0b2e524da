"""The fused kernel for CUDA of images whose sizes are known only at run time: results, and registers.

By the interpreter of PTX; no GPU of NVIDIA takes part.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.compiling.assembler import installed_assembler
from iree.winograd.dialect.reference import filter_transform
from iree.winograd.pipelines.gpu.kernels.winograd.fused import FusedKernel
from iree.winograd.pipelines.gpu.packing.fused import FusedPacking
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from open_program import OpenProgram
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import F2X2
from wide import wide

F2X4 = FusedSchedule(24, 32, 32, 8, thread_products=1)
"""An H200 took 16.3 us for 192 x 160 x 32 of f16 to 3 channels where 1132 bytes of a thread were spilled, and
10.4 for known sizes."""


def interpreted(program: OpenProgram, kernel: Kernel) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The results of the fused kernel, and in float64."""
    assert isinstance(program.schedule, FusedSchedule)
    packing = FusedPacking(program.shape(), program.schedule)
    image, filters, bias = (each.astype(program.number) for each in program.arguments())
    transformed = filter_transform(filters.astype(np.float64), packing.shape.decomposition)
    packed = packing.pack_filters(transformed).astype(np.float32)
    result = np.full((program.batch, *program.output_size, program.outputs), np.nan, program.number)
    grid = [each.known or 0 for each in FusedKernel(packing).workgroups(program.sizes())]
    kernel.run([image, packed, bias, result, *program.words()], itertools.product(*map(range, grid)))
    return result, program.expected(*(each.astype(np.float64) for each in (image, filters, bias)))


SMALL = OpenProgram((9, 10), 6, 5, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1), schedule=F2X2)
SIZES = ((9, 10), (1, 3), (4, 8))


@pytest.mark.parametrize(
    "program",
    [
        replace(SMALL, element="f16"),
        *wide(
            [
                SMALL,
                replace(SMALL, channels=8, outputs=8, m=(2, 4), schedule=F2X4, element="f16"),
                replace(SMALL, schedule=replace(F2X2, buffers=2), low=(0, 2), high=(3, 1)),
                replace(SMALL, m=(3, 3), p=(2, 2), strides=(2, 2)),
                replace(SMALL, dilations=(3, 2), low=(3, 2), high=(3, 2)),
                # More products than a register has bits.
                replace(SMALL, m=(4, 4), schedule=FusedSchedule(36, 16, 16, 4, 1, 4, 4)),
            ]
        ),
    ],
    ids=str,
)
def test_agrees_with_float64(program: OpenProgram, tmp_path: Path) -> None:
    """Tiles that begin before an image and end behind it, blocks that have too many tiles and channels."""
    (text,) = program.ptx("sm_80", tmp_path)
    kernel = Kernel.by_stage(text)["fused"]
    for size in SIZES:
        result, exact = interpreted(replace(program, size=size), kernel)
        rounded = 2.0**-10 * (np.abs(exact) + 1) if program.element == "f16" else 0
        expect_within(result, exact, program.bound() + rounded)


@pytest.mark.skipif(installed_assembler() is None, reason="there is no assembler of NVIDIA's")
@pytest.mark.parametrize(
    "program",
    [
        replace(SMALL, channels=32, outputs=3, m=(2, 4), schedule=F2X4, element="f16"),
        *wide([replace(SMALL, channels=64, outputs=64, m=(2, 4), schedule=F2X4)]),
    ],
    ids=str,
)
def test_the_code_spills_nothing(program: OpenProgram, tmp_path: Path) -> None:
    program.ptx("sm_90a", tmp_path)
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
