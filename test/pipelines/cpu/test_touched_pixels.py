"""Which pixels workgroups read and write, by which kernels say what they wait for: none may be left out."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.default_schedule import fastest_by_kernel
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_for
from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel
from iree.winograd.pipelines.cpu.kernels.winograd import WinogradKernel
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.problems.windows import Windows

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.filters import CpuKernel

Pixels = npt.NDArray[np.int64]

TARGET = CpuTarget.of("skylake-avx512", "+avx512f,+avx512vl,+avx512dq,+fma")
THREADS = (2, 16)


def shape(
    batch: int,
    size: tuple[int, ...],
    taps: int,
    tile: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    padding: int | None = None,
) -> ConvolutionShape:
    """A convolution of 32 channels, padded to the size of its input where nothing else is said."""

    def each(value: int) -> tuple[int, ...]:
        return (value,) * len(size)

    pad = each(dilation * (taps // 2) if padding is None else padding)
    part = each(1) if tile == 1 else None
    problem = ConvolutionProblem(
        batch, size, pad, pad, each(taps), each(stride), each(dilation), groups, 32, 32
    )
    decomposition = decompose(
        each(taps), each(tile), strides=each(stride), dilations=each(dilation), part_size=part
    )
    return ConvolutionShape.decomposed(problem, decomposition)


SHAPES = [
    *(shape(batch, (23, 19), 3, tile) for batch in (1, 3) for tile in (1, 2, 4)),
    *(shape(batch, (14, 14), 1, 1) for batch in (1, 8)),
    shape(2, (13, 13), 1, 1, stride=2),
    shape(2, (23, 20), 3, 1, stride=2),
    shape(2, (23, 20), 3, 3, stride=2),
    shape(2, (23, 20), 7, 2, stride=2, padding=3),
    shape(2, (20, 20), 3, 2, dilation=2),
    shape(2, (20, 20), 3, 1, dilation=3),
    shape(3, (23, 19), 5, 1, groups=32),
    shape(3, (23, 19), 3, 1, groups=32, stride=2),
    shape(2, (64,), 3, 1),
    shape(2, (64,), 3, 4),
    shape(2, (5, 9, 8), 3, 2),
    shape(2, (5, 9, 8), 3, 1),
]


def kernels(shape: ConvolutionShape, threads: int) -> list[CpuKernel]:
    machine = CpuBackend(TARGET).default_machine
    return [
        kernel_for(shape, TARGET, schedule) for schedule in fastest_by_kernel(shape, TARGET, machine, threads)
    ]


def written_pixels(kernel: CpuKernel, number: int) -> Pixels:
    """Those of the outputs that the workgroups of an x coordinate compute."""
    if isinstance(kernel, WinogradKernel):
        return tile_pixels(kernel, number)
    outputs = kernel._outputs(Index(number))
    width = getattr(kernel.schedule, "pixel_block", kernel.shape.output_size[-1])
    known = (outputs.number, outputs.first_row, outputs.rows, outputs.first_pixel)
    image, first_row, rows, first_pixel = (each.known for each in known)
    assert image is not None
    assert first_row is not None
    assert rows is not None
    assert first_pixel is not None
    all_pixels = np.arange(image_pixels(kernel.shape, kernel.shape.output_size))
    lines = all_pixels.reshape(-1, kernel.shape.output_rows, kernel.shape.output_size[-1])
    return lines[image, first_row : first_row + rows, first_pixel : first_pixel + width].ravel()


def tile_pixels(kernel: WinogradKernel, number: int) -> Pixels:
    """The same of a block of tiles, whose outputs lie as many apart as the dilation has phases."""
    shape, decomposition = kernel.shape, kernel.shape.decomposition
    assert shape.batch is not None
    all_pixels = np.arange(image_pixels(shape, shape.output_size)).reshape(-1, *shape.output_size)
    lines = [
        [
            range(phase + tile * m * phases, size, phases)[:m]
            for phase in range(phases)
            for tile in range(tiles)
        ]
        for size, m, phases, tiles in zip(
            shape.output_size,
            decomposition.output_tile,
            decomposition.phases,
            decomposition.tiles_per_phase(shape.output_size),
            strict=True,
        )
    ]
    tiles = list(product(range(shape.batch), *lines))
    first = number * kernel.schedule.tile_block
    block = tiles[first : first + kernel.schedule.tile_block]
    return np.concatenate([all_pixels[np.ix_([image], *outputs)].ravel() for image, *outputs in block])


def image_pixels(shape: ConvolutionShape, size: tuple[int, ...]) -> int:
    assert shape.batch is not None
    return int(shape.batch * np.prod(size))


def needed_pixels(shape: ConvolutionShape, outputs: Pixels) -> Pixels:
    """The pixels of the input that a convolution computes outputs from."""
    image, *position = np.unravel_index(outputs, (image_pixels(shape, ()), *shape.output_size))
    needed = []
    for taps in product(*map(range, shape.kernel_size)):
        coordinates = [
            output * stride + tap * dilation - low
            for output, stride, tap, dilation, low in zip(
                position, shape.strides, taps, shape.dilations, shape.padding_low, strict=True
            )
        ]
        inside = np.logical_and.reduce(
            [(at >= 0) & (at < size) for at, size in zip(coordinates, shape.input_size, strict=True)]
        )
        places = [image[inside], *(at[inside] for at in coordinates)]
        needed.append(np.ravel_multi_index(places, (image_pixels(shape, ()), *shape.input_size)))
    return np.unique(np.concatenate(needed))


def expect_among(pixels: Pixels, span: range) -> None:
    assert span.start <= pixels.min()
    assert pixels.max() < span.stop


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_spans_hold_what_workgroups_touch(shape: ConvolutionShape, threads: int) -> None:
    for kernel in kernels(shape, threads):
        batch = kernel.shape.batch
        assert batch is not None
        count = kernel.workgroups(Sizes.of_batch(batch))[0].known
        assert count is not None
        written: set[int] = set()
        for number in range(count):
            outputs = written_pixels(kernel, number)
            written.update(outputs.tolist())
            touched = kernel.touched_pixels(number)
            expect_among(outputs, touched.written)
            expect_among(needed_pixels(shape, outputs), touched.read)
        assert written == set(range(image_pixels(shape, shape.output_size)))


@pytest.mark.parametrize(("size", "stride", "low"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (1, 2, 0)])
def test_spans_hold_what_pooling_touches(size: int, stride: int, low: int) -> None:
    extents = (13, 11)
    rows, columns = ((extent + 2 * low - size) // stride + 1 for extent in extents)
    windows = Windows(extents, 8, (size, size), (stride, stride), (low, low), (low, low), (rows, columns))
    kernel = PoolingKernel(windows, TARGET)
    for image, row in product(range(3), range(rows)):
        number = image * rows + row
        touched = kernel.touched_pixels(number)
        assert touched.written == range(number * columns, (number + 1) * columns)
        inside = [each for each in range(row * stride - low, row * stride - low + size) if 0 <= each < 13]
        read = np.arange(3 * 13 * 11).reshape(3, 13, 11)[image, inside]
        expect_among(read.ravel(), touched.read)


def test_pointwise_convolutions_read_what_they_write() -> None:
    """Those of 3x3 read a row more on either side: a share waits for its neighbours alone."""
    for kernel in kernels(shape(8, (14, 14), 1, 1), threads=16):
        touched = kernel.touched_pixels(0)
        assert touched.read == touched.written
    for kernel in kernels(shape(1, (23, 19), 3, 1), threads=16):
        touched = kernel.touched_pixels(1)
        outputs = touched.written
        rows = range(outputs.start // 19 - 1, (outputs.stop - 1) // 19 + 2)
        assert touched.read == range(max(rows.start, 0) * 19, min(rows.stop, 23) * 19)
