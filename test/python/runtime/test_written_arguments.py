"""Arguments whose memory IREE would take for a value that is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import iree.compiler
import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.loading.device import Device
from iree.winograd.loading.element_types import ElementType
from iree.winograd.loading.runtime import load
from iree.winograd.torch_compile.loaded_part import LoadedPart
from iree.winograd.torch_compile.part_program import Argument, PartSignature
from loaded_programs import Array, aligned
from small_programs import INSERTION, compile_convolution
from wide import wide, wide_combinations

PRODUCT = """func.func @main(%y: tensor<16x16xf32>, %target: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = linalg.matmul ins(%y, %y : tensor<16x16xf32>, tensor<16x16xf32>)
    outs(%target : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}"""
DYNAMIC_PRODUCT = """func.func @main(%y: tensor<?x16xf32>, %target: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %b = arith.constant dense<0.5> : tensor<16x16xf32>
  %r = linalg.matmul ins(%y, %b : tensor<?x16xf32>, tensor<16x16xf32>)
    outs(%target : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}"""
CONVOLUTION = """func.func @main(%x: tensor<1x8x8x16xf32>, %target: tensor<1x6x6x16xf32>)
    -> tensor<1x6x6x16xf32> {
  %w = arith.constant dense<0.5> : tensor<3x3x16x16xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>)
    outs(%target : tensor<1x6x6x16xf32>) -> tensor<1x6x6x16xf32>
  return %r : tensor<1x6x6x16xf32>
}"""


def insertion(row: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result = target.copy()
    result[1] = row[0]
    return result


def convolution(x: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    windows = np.lib.stride_tricks.sliding_window_view(x.sum(-1, keepdims=True), (3, 3), (1, 2))
    return target + 0.5 * windows.sum((-1, -2))


PROGRAMS = {
    "insertion": (INSERTION, ((1, 64), (4, 64)), insertion),
    "product": (PRODUCT, ((16, 16), (16, 16)), lambda y, target: target + y @ y),
    "dynamic product": (
        DYNAMIC_PRODUCT,
        ((5, 16), (5, 16)),
        lambda y, target: target + y @ np.full((16, 16), 0.5),
    ),
    "convolution": (CONVOLUTION, ((1, 8, 8, 16), (1, 6, 6, 16)), convolution),
}


def compile_with_stock_tools(text: str) -> bytes:
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    return bytes(iree.compiler.compile_str(text, extra_args=[*flags, "--iree-llvmcpu-target-cpu=generic"]))


COMPILERS = {
    "with kernels": lambda text: iree.winograd.compile(text, strict=True),
    "without kernels": lambda text: iree.winograd.compile(text, enable_winograd=False),
    "stock": compile_with_stock_tools,
}


def random_arrays(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    generator = np.random.default_rng(0)
    return [aligned(generator.standard_normal(shape, np.float32), 0) for shape in shapes]


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The addresses of the arrays that a device copied."""
    addresses: list[int] = []
    copy_from_host = Device.copy_from_host

    def record(self: Device, array: npt.NDArray[np.generic], element_type: ElementType) -> object:
        addresses.append(array.ctypes.data)
        return copy_from_host(self, array, element_type)

    monkeypatch.setattr(Device, "copy_from_host", record)
    return addresses


# Kernels are of this project's in the last two alone.
@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        *((name, "with kernels") for name in PROGRAMS),
        ("insertion", "without kernels"),
        ("product", "stock"),
        *wide_combinations((name, "without kernels") for name in PROGRAMS if name != "insertion"),
        *wide_combinations((name, "stock") for name in PROGRAMS if name != "product"),
    ],
)
def test_arrays_are_as_they_were(name: str, compiler: str, copied: list[int]) -> None:
    text, shapes, reference = PROGRAMS[name]
    program = load(COMPILERS[compiler](text), "local-sync")
    arrays = random_arrays(shapes)
    before = [array.copy() for array in arrays]
    expected = reference(*map(np.float64, before))
    for _ in range(2):
        np.testing.assert_allclose(program(*arrays), expected, rtol=0, atol=1e-4)
        for array, kept in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, kept)
    if compiler != "stock":
        # It is only read.
        assert arrays[0].ctypes.data not in copied


def test_torch_tensors_are_as_they_were() -> None:
    program = load(iree.winograd.compile(CONVOLUTION, strict=True), threads=2)
    x, target = torch.randn(1, 8, 8, 16), torch.randn(1, 6, 6, 16)
    before = target.clone()
    first = program(x, target).clone()
    assert torch.equal(target, before)
    assert torch.equal(program(x, target), first)


@pytest.mark.parametrize("is_weight", wide([False, True]))
def test_torch_compile_leaves_tensors_as_they_were(is_weight: bool) -> None:
    program = load(iree.winograd.compile(PRODUCT, strict=True), "local-sync")
    arguments, cpu = (Argument(0, None), Argument(1, None)), torch.device("cpu")
    part = LoadedPart(program.main, PartSignature(arguments, (None,), cpu), [1] if is_weight else [])
    y, target = torch.randn(16, 16), torch.randn(16, 16)
    before = target.clone()
    expected = before.double() + y.double() @ y.double()
    for _ in range(2):
        torch.testing.assert_close(part(y, target).double(), expected, rtol=0, atol=1e-4)
        assert torch.equal(target, before)


READING = {
    "a call": """
      func.func private @inner(%x: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {noinline} {
        %r = math.absf %x : tensor<16x16xf32>
        return %r : tensor<16x16xf32>
      }
      func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
        %r = call @inner(%x) : (tensor<16x16xf32>) -> tensor<16x16xf32>
        return %r : tensor<16x16xf32>
      }""",
    "a branch": """
      func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
        %c0 = arith.constant 0 : index
        %zero = arith.constant 0.0 : f32
        %first = tensor.extract %x[%c0, %c0] : tensor<16x16xf32>
        %positive = arith.cmpf ogt, %first, %zero : f32
        %r = scf.if %positive -> tensor<16x16xf32> {
          %s = arith.addf %x, %x : tensor<16x16xf32>
          scf.yield %s : tensor<16x16xf32>
        } else {
          %s = arith.mulf %x, %x : tensor<16x16xf32>
          scf.yield %s : tensor<16x16xf32>
        }
        return %r : tensor<16x16xf32>
      }""",
    "torch-mlir's types": """
      func.func @main(%x: !torch.vtensor<[16,16],f32>) -> !torch.vtensor<[16,16],f32> {
        %r = torch.aten.mm %x, %x : !torch.vtensor<[16,16],f32>, !torch.vtensor<[16,16],f32>
          -> !torch.vtensor<[16,16],f32>
        return %r : !torch.vtensor<[16,16],f32>
      }""",
    "a dynamic batch": """
      func.func @main(%x: tensor<?x16xf32>) -> tensor<?x16xf32> {
        %r = arith.addf %x, %x : tensor<?x16xf32>
        return %r : tensor<?x16xf32>
      }""",
    "the argument as a result": """
      func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {
        return %x : tensor<16x16xf32>
      }""",
}


@pytest.mark.parametrize("name", READING)
def test_arrays_that_are_only_read_are_not_copied(name: str, copied: list[int]) -> None:
    program = load(iree.winograd.compile(READING[name], strict=True), "local-sync")
    (x,) = random_arrays([(16, 16)])
    before = x.copy()
    program(x)
    np.testing.assert_array_equal(x, before)
    assert copied == []


def test_programs_of_the_command_say_what_they_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert compile_convolution("-o", "convolution.vmfb").returncode == 0
    assert load("convolution.vmfb", "local-sync").convolution.is_read_only(0)


@pytest.mark.parametrize("result", ["%x", "%sum"])
def test_memory_for_a_result_is_written(result: str) -> None:
    type_ = "tensor<16x16xf32>"
    program = load(
        iree.winograd.compile(f"""
          func.func @main(%x: {type_}, %storage: {type_} {{iree.abi.output = 0 : index}}) -> {type_} {{
            %sum = arith.addf %x, %x : {type_}
            return {result} : {type_}
          }}"""),
        "local-sync",
    )
    x, storage = random_arrays([(16, 16), (16, 16)])
    expected = x if result == "%x" else x + x
    np.testing.assert_array_equal(program(x, storage), expected)
    np.testing.assert_array_equal(storage, expected)
