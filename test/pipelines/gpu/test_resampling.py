"""Images that a kernel resizes, or pads by their own pixels, against float64."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.passes.match.pixels.resampling import Axis
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu import tensor_kernels
from iree.winograd.pipelines.gpu.device.memory import OCTET, PAIR, QUAD
from iree.winograd.pipelines.gpu.kernels.images import resampling
from iree.winograd.pipelines.gpu.kernels.images.tap_line import TapLine
from iree.winograd.pipelines.gpu.kernels.images.tap_window import TapWindow
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from torch import nn
from torch.nn import functional
from wide import wide, wide_combinations

UNIT_ROUNDOFF = 2.0**-24
_POSITION_ROUNDINGS = 4
"""Of a position, as torch computes it: of the scale, a product, and two sums."""


@dataclass(frozen=True)
class Case:
    """An image, and what is made of it: `slope` is what a pixel changes at most by a step of its position."""

    resample: Callable[[torch.Tensor], torch.Tensor]
    shape: tuple[int, ...]
    slope: float = 2.0
    """Of pixels whose absolute values are at most 1."""
    taps: int = 4
    """Of an element of the result."""
    gain: float = 1.0
    """The sum of absolute values of weights."""

    @property
    def bound(self) -> float:
        """Of the error in f32, of pixels whose absolute values are at most 1."""
        dimensions = len(self.shape) - 2
        shift = _POSITION_ROUNDINGS * UNIT_ROUNDOFF * max(self.shape[2:])
        # Weights are rounded, and the products and sums of the taps.
        roundings = (2 * dimensions + self.taps + 1) * self.gain * UNIT_ROUNDOFF
        return 1.01 * (dimensions * self.slope * shift + roundings)


def _resized(mode: str, *, corners: bool = False, **size: object) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: functional.interpolate(x, mode=mode, align_corners=corners, **size)  # type: ignore[arg-type]


def _padded(mode: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: functional.pad(x, (1, 2, 3, 0), mode=mode)


# Images of the same sizes share kernels before and behind those that are tested.
_QUADS, _PAIRS = (2, 12, 9, 7), (1, 6, 7, 5)
CASES = {
    "twice": Case(_resized("bilinear", scale_factor=2), _QUADS),
    "corners": Case(_resized("bilinear", corners=True, size=(17, 12)), (1, 20, 8, 6)),
    "odd channels": Case(_resized("bilinear", scale_factor=1.3), _PAIRS),
    # Of rows at the border torch reads another one by a weight of zero.
    "classes": Case(_resized("bilinear", scale_factor=4), _PAIRS),
    "smaller": Case(_resized("bilinear", size=(5, 6)), _QUADS),
    # Cubic weights are polynomials of positions, whose coefficients are up to 3.75.
    "cubic": Case(_resized("bicubic", scale_factor=2), _QUADS, slope=8.0, taps=16, gain=2.0),
    "reflected": Case(_padded("reflect"), _QUADS, slope=0, taps=0, gain=0),
    "replicated": Case(_padded("replicate"), _QUADS, slope=0, taps=0, gain=0),
}


class Resampling(nn.Module):
    """Images between filters that read no channel but one, and one that only leaves the program."""

    def __init__(self, cases: list[Case], last: Case) -> None:
        super().__init__()
        self.cases, self.last = cases, last
        channels = [case.shape[1] for case in (*cases, *cases, last)]
        self.convolutions = nn.ModuleList(nn.Conv2d(each, each, 1, bias=False) for each in channels)
        for convolution in self.convolutions:
            nn.init.dirac_(convolution.weight)

    def forward(self, *images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = len(self.cases)
        read = [
            convolution(each) for convolution, each in zip(self.convolutions[:count], images, strict=False)
        ]
        made = [case.resample(each) for case, each in zip(self.cases, read, strict=True)]
        written = [
            convolution(each) for convolution, each in zip(self.convolutions[count:-1], made, strict=True)
        ]
        return *written, self.last.resample(self.convolutions[-1](images[-1]))


def of_filters(channels: int) -> float:
    """A bound of the error of filters before and behind an image, as that of sums of so many products in f32.

    Of filters that read no channel but one, matrix units, too, err by less: they are given what they truncate
    of sums on average, less than a roundoff for each 16 products.
    """
    return 2 * channels * UNIT_ROUNDOFF


def images(cases: list[Case]) -> list[torch.Tensor]:
    """Of multiples of 2^-7, which matrix units multiply exactly."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(-128, 129, case.shape, generator=generator) / 128 for case in cases]


def expected_names(cases: list[Case], last: Case) -> list[str]:
    """The kernels, whose images are channels last unless they leave the program."""
    shapes = [tuple(case.resample(torch.zeros(case.shape)).shape) for case in cases]
    extents = [(batch, *size, channels) for batch, channels, *size in shapes]
    extents.append(tuple(last.resample(torch.zeros(last.shape)).shape))
    return [f"winograd_resampled_{'x'.join(map(str, each))}" for each in extents]


@pytest.mark.parametrize(
    ("many_threads", "names"),
    [
        # Two taps of pairs and cubic ones, taps without weights and a single one.
        (1, ("odd channels", "cubic")),
        (1 << 17, ("smaller", "classes")),
        *wide_combinations(
            [
                (1, ("twice", "corners", "smaller", "classes", "replicated", "reflected")),
                (1 << 17, ("twice", "corners", "odd channels", "cubic", "replicated", "reflected")),
            ]
        ),
    ],
    ids=["rows", "a row", "other rows", "another row"],
)
def test_images_are_those_of_float64(
    many_threads: int,
    names: tuple[str, ...],
    gpu_target: str,
    gpu_device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resampling, "_MANY_THREADS", many_threads)
    # Quads of columns, or single ones.
    last = Case(_resized("bilinear", size=(10, 16 if many_threads == 1 else 15)), (1, 5, 4, 6))
    cases = [CASES[name] for name in names]
    model, given = Resampling(cases, last).eval(), images([*cases, last])
    program = bytes(compile(iree.winograd.import_torch(model, *given), target=gpu_target, strict=True))
    for name in expected_names(cases, last):
        assert name.encode() in program
    results = iree.winograd.load(program, gpu_device)(*(each.numpy() for each in given))
    with torch.no_grad():
        exact = model.double()(*(each.double() for each in given))
    for case, result, each in zip((*cases, last), results, exact, strict=True):
        of_products = 0.0 if gpu_device == "vulkan" else of_filters(case.shape[1])
        assert np.abs(np.asarray(result) - each.numpy()).max() <= case.bound + of_products


class Decoder(nn.Module):
    """An enlarged image beside another that a convolution computes, as U-Nets concatenate them."""

    def __init__(self, channels: int, mode: str) -> None:
        super().__init__()
        self.size: dict[str, object] = {"scale_factor": 2, "mode": mode}
        if mode != "nearest":
            self.size["align_corners"] = True
        self.inner, self.outer = (nn.Conv2d(8, channels, 1, bias=False) for _ in range(2))
        self.mixed = nn.Conv2d(2 * channels, 2 * channels, 1, bias=False)
        for convolution in (self.inner, self.outer, self.mixed):
            nn.init.dirac_(convolution.weight)

    def forward(self, small: torch.Tensor, large: torch.Tensor) -> torch.Tensor:
        enlarged = functional.interpolate(self.inner(small), **self.size)  # type: ignore[arg-type]
        result: torch.Tensor = self.mixed(torch.cat([self.outer(large), enlarged], 1))
        return result


@pytest.mark.parametrize(
    "channels, mode", [(8, "bilinear"), *wide_combinations([(6, "bilinear"), (8, "nearest")])]
)
def test_what_is_concatenated_is_written_to_its_place(
    channels: int, mode: str, gpu_target: str, gpu_device: str
) -> None:
    case = Case(_resized("bilinear"), (1, 8, 6, 10))
    small, large = images([case, Case(_resized("bilinear"), (1, 8, 12, 20))])
    model = Decoder(channels, mode).eval()
    program = bytes(compile(iree.winograd.import_torch(model, small, large), target=gpu_target, strict=True))
    assert f"winograd_resampled_1x12x20x{channels}".encode() in program
    # Nothing copies it.
    assert b"slow_memcpy" not in program and b"main_dispatch_" not in program
    result = np.asarray(iree.winograd.load(program, gpu_device)(small.numpy(), large.numpy()))
    with torch.no_grad():
        exact = model.double()(small.double(), large.double()).numpy()
    of_products = 0.0 if gpu_device == "vulkan" else of_filters(2 * channels)
    assert np.abs(result - exact).max() <= case.bound + of_products


class Enlarged(nn.Module):
    """An image of half precision that is enlarged between filters that read no channel but one."""

    def __init__(self, channels: int, rows: int) -> None:
        super().__init__()
        self.size = rows, 9
        self.first, self.last = (nn.Conv2d(channels, channels, 1, bias=False) for _ in range(2))
        for convolution in (self.first, self.last):
            nn.init.dirac_(convolution.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        enlarged = functional.interpolate(self.first(x), size=self.size, mode="bilinear")
        result: torch.Tensor = self.last(enlarged)
        return result


@pytest.mark.parametrize(
    ("channels", "together", "rows"),
    [(6, PAIR, 10), *wide_combinations([(8, OCTET, 10), (12, QUAD, 8), (8, OCTET, 8)])],
)
def test_images_of_half_precision_are_read_and_written_so(
    channels: int, together: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through CUDA: the kernel's text is run here, by the tables of torch's convention on pixels.

    Of twice as many rows threads have several, which are blended of what they share.
    """
    if rows == 10:
        monkeypatch.setattr(resampling, "_MANY_THREADS", 1)
    x = torch.randn((1, channels, 5, 6), generator=torch.Generator().manual_seed(0)).half()
    flags = [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    imported = iree.winograd.import_torch(Enlarged(channels, rows).half().eval(), x)
    compile(imported, target="cuda:sm_90a", strict=True, flags=flags)
    assert set(spilled_bytes(tmp_path, "sm_90a").values()) == {0}
    (text,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    axes = {1: half_pixel_axis(5, rows), 2: half_pixel_axis(6, 9)}
    kernel = resampling.ResamplingKernel(
        (1, rows, 9, channels), ((1, 2), (2, 2)), together=max(together, QUAD)
    ).stored_by(PAIR)
    assert kernel.together_stored == together
    kernel = kernel.of_image(axes, (1, 5, 6, channels))
    assert (kernel.window is not None) == (rows == 10)
    # Rows that are blended once have constants for weights.
    tables = [resampling.TapTable(2).of(each) for each in reversed(list(kernel.read_by(axes).values()))]
    assert len(tables) == (1 if rows == 10 else 2)
    image = np.ascontiguousarray(np.moveaxis(x.numpy(), 1, -1))
    result = np.full((1, rows, 9, channels), np.nan, np.float16)
    # A buffer is a part of a larger one: constants are in one, in which columns are looked up first, and all
    # before the image is read.
    body = text[text.index(f".entry {kernel.name}(") :].partition("\n}")[0]
    loads, stores = (
        [int(each or 0) for each in re.findall(rf"{access}.*\[%rd\d+\+?(\d*)\]", body)]
        for access in (r"ld\.global\S*\.v4\.b(?:16|32)", r"st\.global\S*")
    )
    if together == PAIR:
        singles = [int(each or 0) for each in re.findall(r"ld\.global\S*\.b16.*\[%rd\d+\+?(\d*)\]", body)]
        loads += singles
    behind = kernel.singles if len(tables) == 1 else 1 + kernel.rows
    places = (loads[0], min(loads[1:behind], default=0))
    constants = placed(dict(zip(places, tables, strict=False)))
    of_result = min(stores)
    buffers = [placed({min(loads[behind:]): image}), constants, placed({of_result: result})]
    blocks, groups = (index.known for index in kernel.workgroups(Sizes({})))
    assert blocks is not None and groups is not None
    number = ((block, group, 0) for block in range(blocks) for group in range(groups))
    Kernel.parsed(text, kernel.name).run(buffers, number)
    result = buffers[-1][of_result:].view(np.float16).reshape(result.shape)
    exact = functional.interpolate(x.double(), size=(rows, 9), mode="bilinear").numpy()
    largest = np.abs(image.astype(np.float64)).max()
    of_f32 = largest * Case(_resized("bilinear"), tuple(x.shape)).bound
    # The result is rounded once, and below the least normal number to one of the denormal ones.
    bound = 2.0**-11 * np.abs(exact) + 2.0**-25 + 1.01 * of_f32
    assert (np.abs(np.moveaxis(result.astype(np.float64), -1, 1) - exact) <= bound).all()


def placed(arrays: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    """The memory that has arrays from such bytes on."""
    memory = np.zeros(max(begin + array.nbytes for begin, array in arrays.items()), np.uint8)
    for begin, array in arrays.items():
        memory[begin : begin + array.nbytes] = array.ravel().view(np.uint8)
    return memory


def half_pixel_axis(size: int, resized: int) -> Axis:
    """A dimension that is resized linearly, as torch does where corners aren't aligned."""
    scale = np.float32(size) / np.float32(resized)
    half = np.float32(0.5)
    position = np.maximum((np.arange(resized, dtype=np.float32) + half) * scale - half, np.float32(0))
    first = position.astype(np.int32)
    share = position - first.astype(np.float32)
    indices = np.stack([first, np.minimum(first + 1, size - 1)])
    return Axis(indices, np.stack([1 - share, share]).astype(np.float32))


def cubic_indices(size: int, resized: int) -> npt.NDArray[Any]:
    """Those of the taps of a dimension that is resized by cubic polynomials, taps x resized."""
    begins = np.floor((np.arange(resized) + 0.5) * size / resized - 0.5).astype(int) - 1
    return np.clip(begins + np.arange(4)[:, None], 0, size - 1)


@pytest.mark.parametrize(
    ("size", "resized", "rows"), [(6, 12, 4), (6, 12, 2), (5, 15, 3), (8, 32, 4), (40, 20, 4)]
)
def test_a_window_has_the_rows_that_are_read(size: int, resized: int, rows: int) -> None:
    indices = cubic_indices(size, resized)
    window = TapWindow.of(Axis(indices, np.full(indices.shape, 0.25)), size, rows)
    assert window is not None
    for block in range(resized // rows):
        read = [window.place(Index(block), number).known for number in range(window.extent)]
        for row, offset in enumerate(window.offsets):
            assert read[offset : offset + 4] == list(indices[:, block * rows + row])


def test_rows_beyond_the_border_are_read_by_weights_of_zero() -> None:
    axis = half_pixel_axis(6, 24)
    window = TapWindow.of(axis, 6, 8)
    assert window is not None and window.extent == 4
    found = window.axis(axis)
    assert found is not None
    dense = [np.zeros((6, 24)) for _ in range(2)]
    for matrix, each in zip(dense, (axis, found), strict=True):
        for read, weight in zip(each.indices, each.weights, strict=True):
            matrix[read, np.arange(24)] += weight
    np.testing.assert_array_equal(*dense)


def test_weights_that_blocks_share_are_constants() -> None:
    """Of four times as many rows, at the border too, where both taps read the same row; of 1.5 times not."""
    axis = half_pixel_axis(6, 24)
    window = TapWindow.of(axis, 6, 8)
    assert window is not None and window.weights is not None
    indices, dense = window._indices(24), [np.zeros((6, 24)) for _ in range(2)]
    for tap in range(2):
        repeated = np.tile([each[tap] for each in window.weights], 3)
        dense[0][indices[tap], np.arange(24)] += repeated
        dense[1][axis.indices[tap], np.arange(24)] += axis.weights[tap]
    np.testing.assert_allclose(*dense, rtol=0, atol=2.0**-23)
    other = half_pixel_axis(6, 24)
    other.weights[:, 9] = other.weights[::-1, 9]
    window = TapWindow.of(other, 6, 8)
    assert window is not None and window.weights is None


@pytest.mark.parametrize(
    ("size", "resized"), [(64, 83), (9, 17), (128, 256), (40, 20), (7, 7), (300, 1), (2, 31)]
)
@pytest.mark.parametrize("taps", [2, 4])
def test_positions_are_whole_parts_of_a_line(size: int, resized: int, taps: int) -> None:
    axis = half_pixel_axis(size, resized)
    if taps == 4:
        axis = Axis(cubic_indices(size, resized), np.full((4, resized), 0.25))
    line = TapLine.of(axis, size)
    assert line is not None
    for element in range(resized):
        assert [each.known for each in line.places(Index(element))] == list(axis.indices[:, element])


def test_positions_that_32_bits_do_not_hold_are_on_no_line() -> None:
    """Of an image that is continued by its border: a line goes on."""
    places = np.minimum(np.arange(1 << 16), 4)[None]
    assert TapLine.of(Axis(places[:, : 1 << 14], np.ones((1, 1 << 14))), 5) is not None
    assert TapLine.of(Axis(places, np.ones(places.shape)), 5) is None


def test_positions_that_turn_are_on_no_line() -> None:
    reflected = np.array([[2, 1, 0, 1, 2, 3, 4, 3]])
    assert TapLine.of(Axis(reflected, np.ones(reflected.shape)), 5) is None


def test_blocks_of_rows_that_read_differently_have_no_window() -> None:
    indices = cubic_indices(10, 13)
    assert TapWindow.of(Axis(indices, np.full(indices.shape, 0.25)), 10, 2) is None
    indices = cubic_indices(10, 16)
    assert TapWindow.of(Axis(indices, np.full(indices.shape, 0.25)), 10, 4) is None


@pytest.mark.parametrize("target", wide(["cuda:sm_90a", "hip:gfx942"]))
def test_images_are_resampled_on_all_targets(target: str) -> None:
    last = Case(_resized("bilinear", size=(10, 16)), (1, 5, 4, 6))
    cases = list(CASES.values())
    model, given = Resampling(cases, last).eval(), images([*cases, last])
    program = bytes(compile(iree.winograd.import_torch(model, *given), target=target, strict=True))
    assert all(name.encode() in program for name in expected_names(cases, last))


def test_small_images_that_are_read_elementwise_are_left(gpu_target: str) -> None:
    case = Case(lambda x: torch.tanh(_resized("bilinear", scale_factor=2)(x)) + 1, (1, 8, 9, 7))
    assert tensor_kernels._LEAST_SLOW > 8 * 18 * 14
    model, given = Resampling([case], case).eval(), images([case, case])
    program = bytes(compile(iree.winograd.import_torch(model, *given), target=gpu_target, strict=True))
    assert b"winograd_resampled" not in program
