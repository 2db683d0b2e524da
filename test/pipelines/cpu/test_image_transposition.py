"""The kernel that makes channels-first arguments channels last, through `load`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import iree.winograd
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from checked_programs import compile_rewritten
from guarded_call import call_guarded
from iree.winograd.calibration.programs import backend_of, compile_module
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import func, ir
from iree.winograd.loading.device import BUFFER_ALIGNMENT
from iree.winograd.passes.match.layouts.image_layout import to_channels_first, to_channels_last
from iree.winograd.pipelines.problems.reflection import UNALIGNED_KEY
from iree.winograd.pipelines.problems.tensor_operations import ChannelsFirst, ChannelsLast
from wide import lesser, wide, wide_combinations

SHAPES = [
    (1, 3, 40, 33),
    (2, 2, 7, 9),
    (1, 4, 5, 7),
    (2, 3, 3, 3),
    (3, 20, 5, 3),
    (1, 130, 9, 30),
    (2, 5, 1, 1),
]


@pytest.mark.parametrize(
    ("shape", "dynamic"),
    [(SHAPES[0], True), *wide_combinations((each, i % 2 == 0) for i, each in enumerate(SHAPES[1:]))],
    ids=str,
)
def test_takes_an_image_anywhere(shape: tuple[int, ...], dynamic: bool) -> None:
    """A strided convolution of a single tap sums the channels of every other pixel by weights, exactly."""
    batch, channels, height, width = shape
    rows, columns = ceil_div(height, 2), ceil_div(width, 2)
    count = "?" if dynamic else str(batch)
    image, last = f"{count}x{channels}x{height}x{width}xf32", f"{count}x{height}x{width}x{channels}xf32"
    result, size = f"{count}x{rows}x{columns}x8xf32", "%batch" if dynamic else ""
    weights = np.random.default_rng(1).integers(-100, 100, (channels, 8)).astype(np.float32)
    compiled = compile_rewritten(
        f"""
    func.func @main(%x: tensor<{image}>) -> tensor<{result}> {{
      %zero = arith.constant 0.0 : f32
      %first = arith.constant 0 : index
      %batch = tensor.dim %x, %first : tensor<{image}>
      %weights = arith.constant dense<{[[weights.tolist()]]}> : tensor<1x1x{channels}x8xf32>
      %e = tensor.empty({size}) : tensor<{last}>
      %t = linalg.transpose ins(%x : tensor<{image}>) outs(%e : tensor<{last}>) permutation = [0, 2, 3, 1]
      %f = tensor.empty({size}) : tensor<{result}>
      %z = linalg.fill ins(%zero : f32) outs(%f : tensor<{result}>) -> tensor<{result}>
      %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<2> : tensor<2xi64>}}
        ins(%t, %weights : tensor<{last}>, tensor<1x1x{channels}x8xf32>)
        outs(%z : tensor<{result}>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}""",
        "cpu",
        [],
    )
    expect_exact(compiled, shape, weights)


@pytest.mark.parametrize("channels", [5, *wide([20, 130])])
def test_takes_an_image_of_any_size(channels: int) -> None:
    """Below a vector and below a workgroup's pixels, none, and a batch of any size beside."""
    image, last = f"?x{channels}x?x?xf32", f"?x?x?x{channels}xf32"
    weights = np.random.default_rng(1).integers(-100, 100, (channels, 8)).astype(np.float32)
    compiled = compile_rewritten(
        f"""
    func.func @main(%x: tensor<{image}>) -> tensor<?x?x?x8xf32> {{
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %n = tensor.dim %x, %c0 : tensor<{image}>
      %h = tensor.dim %x, %c2 : tensor<{image}>
      %w = tensor.dim %x, %c3 : tensor<{image}>
      %before_h = arith.subi %h, %c1 : index
      %before_w = arith.subi %w, %c1 : index
      %steps_h = arith.floordivsi %before_h, %c2 : index
      %steps_w = arith.floordivsi %before_w, %c2 : index
      %oh = arith.addi %steps_h, %c1 : index
      %ow = arith.addi %steps_w, %c1 : index
      %weights = arith.constant dense<{[[weights.tolist()]]}> : tensor<1x1x{channels}x8xf32>
      %e = tensor.empty(%n, %h, %w) : tensor<{last}>
      %t = linalg.transpose ins(%x : tensor<{image}>) outs(%e : tensor<{last}>) permutation = [0, 2, 3, 1]
      %f = tensor.empty(%n, %oh, %ow) : tensor<?x?x?x8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%f : tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32>
      %r = linalg.conv_2d_nhwc_hwcf {{strides = dense<2> : tensor<2xi64>}}
        ins(%t, %weights : tensor<{last}>, tensor<1x1x{channels}x8xf32>)
        outs(%z : tensor<?x?x?x8xf32>) -> tensor<?x?x?x8xf32>
      return %r : tensor<?x?x?x8xf32>
    }}""",
        "cpu",
        [],
    )
    assert f"winograd_channels_last_anyx{channels}".encode() in compiled
    for shape in [(1, 1, 1), (2, 1, 3), (1, 3, 7), (2, 5, 9), (3, 40, 33), (1, 0, 4), (0, 3, 3)]:
        batch, *size = shape
        expect_exact(compiled, (batch, channels, *size), weights)


def expect_exact(compiled: bytes, shape: tuple[int, ...], weights: npt.NDArray[np.float32]) -> None:
    """Whether every other pixel of an image that begins anywhere has its channels summed by weights."""
    numbers = np.random.default_rng(0).integers(-100, 100, shape).astype(np.float32)
    memory = np.empty(numbers.nbytes + 2 * BUFFER_ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % BUFFER_ALIGNMENT + 4
    array = memory[first : first + numbers.nbytes].view(np.float32).reshape(shape)
    array[...] = numbers
    program = iree.winograd.load(compiled)
    expected = np.einsum("nchw,ck->nhwk", numbers[:, :, ::2, ::2], weights)
    np.testing.assert_array_equal(np.asarray(program(array)), expected)
    assert UNALIGNED_KEY.encode() in compiled


@pytest.mark.parametrize(
    ("groups", "channels", "device"), [(2, 58, "local-task"), *wide_combinations([(3, 17, "local-sync")])]
)
def test_shuffles_channels(groups: int, channels: int, device: str) -> None:
    """Of 35 pixels, which workgroups divide, behind a convolution by a single tap of ones."""
    total = groups * channels
    image, grouped = f"1x7x5x{total}xf32", f"1x7x5x{groups}x{channels}xf32"
    shuffled = f"1x7x5x{channels}x{groups}xf32"
    compiled = compile_rewritten(
        f"""
    func.func @main(%x: tensor<{image}>, %f: tensor<1x1x{total}xf32>) -> tensor<{image}> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{image}>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{image}>) -> tensor<{image}>
      %r = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %f : tensor<{image}>, tensor<1x1x{total}xf32>)
        outs(%z : tensor<{image}>) -> tensor<{image}>
      %g = tensor.expand_shape %r [[0], [1], [2], [3, 4]] output_shape [1, 7, 5, {groups}, {channels}]
        : tensor<{image}> into tensor<{grouped}>
      %s = tensor.empty() : tensor<{shuffled}>
      %t = linalg.transpose ins(%g : tensor<{grouped}>) outs(%s : tensor<{shuffled}>)
        permutation = [0, 1, 2, 4, 3]
      %c = tensor.collapse_shape %t [[0], [1], [2], [3, 4]] : tensor<{shuffled}> into tensor<{image}>
      return %c : tensor<{image}>
    }}""",
        "cpu",
        [],
    )
    numbers = np.arange(35 * total, dtype=np.float32).reshape(1, 7, 5, total)
    expected = numbers.reshape(1, 7, 5, groups, channels).swapaxes(3, 4).reshape(numbers.shape)
    program = iree.winograd.load(compiled, device=device)
    np.testing.assert_array_equal(np.asarray(program(numbers, np.ones((1, 1, total), np.float32))), expected)
    assert f"winograd_channels_last_{channels}x{groups}".encode() in compiled


class Pooled(torch.nn.Module):
    """Maxima behind a convolution, which gives its inputs."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(channels, channels, 1, bias=False)
        self.convolution.weight.data = torch.eye(channels)[..., None, None]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(self.convolution(image), 3, 1, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, *wide([torch.float16])], ids=str)
def test_moves_images_of_half_precision(dtype: torch.dtype) -> None:
    """Those of a program's argument and of its result, on two threads, which wait for the kernels before."""
    pooled = torch.nn.Sequential(Pooled(21), Pooled(21)).to(dtype)
    convolution = torch.nn.Conv2d(21, 21, 1, bias=False, dtype=dtype)
    convolution.weight.data = torch.eye(21, dtype=dtype)[..., None, None]
    image = torch.randn(2, 21, 9, 13).to(dtype)
    exported = torch.export.export(torch.nn.Sequential(pooled, convolution), (image,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=2, strict=True)
    for name in (b"winograd_channels_last_117x21", b"winograd_channels_first_117x21"):
        assert name in compiled
    result = torch.as_tensor(iree.winograd.load(compiled, device="local-task", threads=2)(image))
    assert torch.equal(result, pooled(image))


@pytest.mark.parametrize("channels", [21, *wide([3, 4, 40])])
def test_returns_images_of_any_size_channels_first(channels: int) -> None:
    sizes = {0: torch.export.Dim("n"), 2: torch.export.Dim("h"), 3: torch.export.Dim("w")}
    example = (torch.zeros(2, channels, 9, 8),)
    exported = torch.export.export(Pooled(channels), example, dynamic_shapes=(sizes,))
    compiled = iree.winograd.compile(iree.winograd.import_torch(exported), threads=1, strict=True)
    assert f"winograd_channels_first_anyx{channels}".encode() in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    for batch, *size in [(1, 1, 1), (2, 1, 3), (1, 3, 7), (2, 5, 9), (3, 40, 33)]:
        image = torch.randn(batch, channels, *size)
        expected = torch.nn.functional.max_pool2d(image, 3, 1, 1).numpy()
        np.testing.assert_array_equal(np.asarray(run(image.numpy())), expected)


ELEMENTS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
ALL_BITS = (1, 64, 32, 32)
"""As many numbers as two bytes have."""
KNOWN_SHAPES = [
    ALL_BITS,
    (2, 21, 5, 9),
    (3, 20, 5, 3),
    (1, 9, 1, 2),
    (1, 3, 40, 33),
    (2, 2, 3, 3),
    (1, 130, 7, 30),
]
FEW_OR_MANY = (1, 2, 3, 4, 8, 130)
"""Channels: fewer than a vector has, one and more of whole ones."""
OPEN_SIZES = [(1, 1, 1), (2, 1, 3), (1, 3, 7), (2, 5, 9), (1, 1, 77), (3, 40, 33), (1, 0, 4), (0, 3, 3)]


class Image(NamedTuple):
    """What a function gives the other layout: its elements and its sizes, None where one is open."""

    element: str
    shape: tuple[int | None, ...]
    makes_first: bool

    @staticmethod
    def of(element: str, batch: int | None, channels: int, size: Sequence[int | None], first: bool) -> Image:
        shape = (batch, *size, channels) if first else (batch, channels, *size)
        return Image(element, shape, first)

    @property
    def order(self) -> Sequence[int]:
        return (to_channels_first if self.makes_first else to_channels_last)(len(self.shape))


def transposing_program(images: Sequence[Image], processor: str) -> bytes:
    """One with a function for each, `of_0` and so on, by the kernel whatever IREE's code takes."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        lowering = backend_of(processor).lowering(module.operation)
        for number, image in enumerate(images):
            extents = [ir.ShapedType.get_dynamic_size() if each is None else each for each in image.shape]
            given, result = (
                ir.RankedTensorType.get(sizes, ir.Type.parse(image.element))
                for sizes in (extents, [extents[dimension] for dimension in image.order])
            )
            with ir.InsertionPoint(module.body):
                function = func.FuncOp(f"of_{number}", ([given], [result]))
                with ir.InsertionPoint(function.add_entry_block()):
                    operation = ChannelsFirst if image.makes_first else ChannelsLast
                    func.ReturnOp([lowering.compute(operation(function.arguments[0]))])
        return compile_module(module, processor)


def expect_same_bits(function: Any, image: Image) -> None:
    """Whether images of any bits, beside pages that may not be touched, get the other layout."""
    dtype = np.dtype(ELEMENTS[image.element])
    unsigned = np.dtype(f"u{dtype.itemsize}")
    shape = tuple(each or 0 for each in image.shape)
    # An odd factor: all that two bytes may be, denormals and signalling NaNs among them.
    bits = (np.arange(np.prod(shape), dtype=np.uint64) * 0x9E3779B1).astype(unsigned).reshape(shape)
    for edge in ("start", "end"):
        call = call_guarded(function, [bits.view(dtype)], edge)
        np.testing.assert_array_equal(call.results[0].view(unsigned), bits.transpose(image.order))
        assert not call.changed and not call.overrun


@pytest.mark.parametrize("makes_first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize(
    ("element", "processor"),
    [
        ("f16", "cpu"),
        *wide_combinations([("bf16", "cpu"), ("f32", "cpu")]),
        *lesser((element, f"cpu:{cpu}") for element in ("f16", "bf16") for cpu in ("x86-64", "haswell")),
    ],
)
def test_keeps_all_bits(element: str, processor: str, makes_first: bool) -> None:
    shapes = KNOWN_SHAPES if element != "f32" else KNOWN_SHAPES[1:]
    images = [Image.of(element, batch, channels, size, makes_first) for batch, channels, *size in shapes]
    program = iree.winograd.load(transposing_program(images, processor))
    for number, image in enumerate(images):
        expect_same_bits(getattr(program, f"of_{number}"), image)


@pytest.mark.parametrize(
    ("channels", "elements"),
    [
        (21, ("f16", "bf16")),
        *wide_combinations([(21, ("f32",)), *((each, tuple(ELEMENTS)) for each in FEW_OR_MANY)]),
    ],
    ids=str,
)
def test_keeps_all_bits_of_any_size(channels: int, elements: tuple[str, ...]) -> None:
    kinds = list(product(elements, (False, True)))
    images = [Image.of(element, None, channels, (None, None), first) for element, first in kinds]
    program = iree.winograd.load(transposing_program(images, "cpu"))
    for number, (element, first) in enumerate(kinds):
        for batch, *size in OPEN_SIZES:
            expect_same_bits(
                getattr(program, f"of_{number}"), Image.of(element, batch, channels, size, first)
            )
