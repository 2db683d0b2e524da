"""Arguments at any address, of programs whose convolutions are computed by each of the kernels for CPUs."""

from functools import cache

import iree.winograd
import numpy as np
import pytest
import torch
from guarded import GuardedArray
from iree.winograd.errors import CallError
from iree.winograd.loading.device import Device
from iree.winograd.loading.element_types import ElementType
from iree.winograd.loading.runtime import LoadedFunction, ThreadsWarning, load

pytestmark = pytest.mark.xdist_group("unaligned arguments")

CONVOLUTIONS = {
    "winograd": ("conv_2d_nhwc_hwcf", (1, 18, 17, 19), (3, 3, 19, 24), (1, 16, 15, 24)),
    "winograd with a dispatch for its input": (
        "conv_2d_nhwc_hwcf",
        (1, 9, 9, 259),
        (3, 3, 259, 256),
        (1, 7, 7, 256),
    ),
    "pointwise": ("conv_2d_nhwc_hwcf", (1, 9, 7, 19), (1, 1, 19, 24), (1, 9, 7, 24)),
    "direct": ("conv_2d_nhwc_hwcf", (1, 18, 17, 3), (3, 3, 3, 24), (1, 16, 15, 24)),
    "depthwise": ("depthwise_conv_2d_nhwc_hwc", (1, 18, 17, 19), (3, 3, 19), (1, 16, 15, 19)),
}


def source(name: str, operation: str, *shapes: tuple[int, ...]) -> str:
    image, filters, result = (f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in shapes)
    return f"""func.func @{name.replace(" ", "_")}(%x: {image}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %w = arith.constant dense<0.5> : {filters}
      %e = tensor.empty() : {result}
      %o = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
      %r = linalg.{operation} ins(%x, %w : {image}, {filters}) outs(%o : {result}) -> {result}
      return %r : {result}
    }}"""


@cache
def compiled() -> bytes:
    """A program with a function for each of them, of its name."""
    functions = [source(name, *each) for name, each in CONVOLUTIONS.items()]
    return iree.winograd.compile("\n".join(functions), threads=2, strict=True)


@pytest.fixture(params=CONVOLUTIONS)
def convolution(request: pytest.FixtureRequest) -> tuple[LoadedFunction, np.ndarray]:
    _, image, _, _ = CONVOLUTIONS[request.param]
    function = getattr(load(compiled(), threads=2), request.param.replace(" ", "_"))
    return function, np.random.default_rng(0).standard_normal(image, np.float32)


def shifted(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that starts `offset` bytes after a multiple of 64."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    first = -memory.ctypes.data % 64 + offset
    copy = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def refuse(self: Device, array: np.ndarray, element_type: ElementType) -> None:
    raise AssertionError("the argument was copied")


def test_results_are_the_same_at_every_address_without_a_copy(
    convolution: tuple[LoadedFunction, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, image = convolution
    monkeypatch.setattr(Device, "copy_from_host", refuse)
    expected = program(shifted(image, 0))
    for offset in (4, 16, 32, 60):
        x = shifted(image, offset)
        np.testing.assert_array_equal(program(x), expected)
        np.testing.assert_array_equal(x, image)


def test_nothing_is_read_or_written_beyond_the_array(convolution: tuple[LoadedFunction, np.ndarray]) -> None:
    program, image = convolution
    expected = program(shifted(image, 0))
    guarded = GuardedArray(image, "end", alignment=4)
    assert guarded.array.ctypes.data % 64
    np.testing.assert_array_equal(program(guarded.array), expected)
    np.testing.assert_array_equal(guarded.array, image)
    assert guarded.is_intact


def test_elements_at_odd_addresses_are_copied(convolution: tuple[LoadedFunction, np.ndarray]) -> None:
    program, image = convolution
    np.testing.assert_array_equal(program(shifted(image, 2)), program(shifted(image, 0)))


def test_calls_on_their_own_thread_take_what_others_take() -> None:
    """A call has few steps for an array that is taken where it is, and gives the same for every other."""
    with pytest.warns(ThreadsWarning):
        program = load(compiled(), device="local-sync").pointwise
    image = np.random.default_rng(1).standard_normal((1, 9, 7, 19), np.float32)
    expected = np.array(program(image))
    first, second = program(image), program(-image)
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, -expected)
    assert not np.may_share_memory(first, second)
    read_only = image.copy()
    read_only.flags.writeable = False
    for same in (image.tolist(), np.asfortranarray(image), read_only, torch.from_numpy(image)):
        np.testing.assert_array_equal(np.asarray(program(same)), expected)
    for other in (image[0], image[:, :8], image.astype(np.float64), image[:0]):
        with pytest.raises(CallError, match="argument 0 of pointwise must be tensor<1x9x7x19xf32>"):
            program(other)
    with pytest.raises(CallError, match="takes 1 argument"):
        program(image, image)
