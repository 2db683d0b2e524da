"""Winograd transforms for CUDA of images whose sizes are known only at run time: results, and registers.

By the interpreter of PTX; no GPU of NVIDIA takes part.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from agreement import expect_within
from iree.winograd.compiling.assembler import installed_assembler
from iree.winograd.dialect.reference import filter_transform
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemm import MultiplyAddProduct
from iree.winograd.pipelines.gpu.kernels.matrix_products.products import ProductKernel
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import OutputTransformKernel
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from open_program import OpenProgram
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from wide import wide

SMALL = OpenProgram(
    (9, 10), 8, 8, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1), schedule=GemmSchedule(32, 32, 16, 4, 4)
)
FILM = replace(
    SMALL,
    size=(5, 6, 7),
    channels=16,
    outputs=32,
    kernel=(3,) * 3,
    m=(2, 4, 4),
    p=(3,) * 3,
    low=(1,) * 3,
    high=(1,) * 3,
)
"""Tiles of 144 elements, of which a thread has two channels."""


class Launched(Protocol):
    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]: ...


def _places(extents: tuple[Index, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(
        *(range(each.known or 0) for each in (*extents, *[Index(1)] * (3 - len(extents))))
    )


@pytest.mark.parametrize(
    "program",
    [
        replace(SMALL, m=(4, 4), element="f16"),
        *wide(
            [
                SMALL,
                replace(SMALL, low=(0, 2), high=(3, 1)),
                replace(SMALL, m=(3, 3), p=(2, 2), strides=(2, 2)),
                replace(SMALL, dilations=(3, 2), low=(3, 2), high=(3, 2)),
                replace(FILM, channels=8, outputs=8),
            ]
        ),
    ],
    ids=str,
)
def test_agrees_with_float64(program: OpenProgram, tmp_path: Path) -> None:
    """Tiles that begin before an image and end behind it."""
    (text,) = program.ptx("sm_80", tmp_path)
    kernels = Kernel.by_stage(text)
    for size in ((9, 10, 5), (1, 3, 2), (4, 8, 3)):
        here = replace(program, size=size[: program.rank])
        schedule, sizes, words = here.schedule, here.sizes(), here.words()
        assert isinstance(schedule, GemmSchedule)
        packing = MultiplyAddPacking(here.shape(), schedule)
        product = MultiplyAddProduct(packing)
        image, filters, bias = (each.astype(here.number) for each in here.arguments())
        packed = packing.pack_filters(
            filter_transform(filters.astype(np.float64), packing.shape.decomposition)
        )
        blocks = packing.row_blocks(sizes).known
        assert blocks is not None and product.input_kernel is not None
        transformed, products = (
            np.full((blocks, *extents), np.nan, np.float32)
            for extents in (packing.input_extents(), packing.product_extents())
        )
        result = np.full((1, *here.output_size, here.outputs), np.nan, here.number)
        stages: list[tuple[str, Launched, list[np.ndarray]]] = [
            ("input", product.input_kernel, [image, transformed]),
            ("products", ProductKernel(product), [transformed, packed.astype(np.float32), products]),
            ("output", OutputTransformKernel(packing), [products, bias, result]),
        ]
        for stage, launched, arrays in stages:
            kernel = kernels[stage]
            # What kernels pass to each other may begin anywhere in memory, which is told before the sizes.
            offsets = [np.array(0)] * (len(kernel.program.parameters) - len(arrays) - len(words))
            kernel.run([*arrays, *offsets, *words], _places(launched.workgroups(sizes)))
        exact = here.expected(*(each.astype(np.float64) for each in (image, filters, bias)))
        rounded = 2.0**-10 * (np.abs(exact) + 1) if here.element == "f16" else 0
        expect_within(result, exact, here.bound() + rounded)


@pytest.mark.wide
@pytest.mark.skipif(installed_assembler() is None, reason="there is no assembler of NVIDIA's")
def test_large_tiles_spill_nothing(tmp_path: Path) -> None:
    """By 4x6x6 elements of f16 of a film a thread spilled 272 bytes, and 804 by their outputs."""
    replace(FILM, element="f16").ptx("sm_90a", tmp_path)
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
