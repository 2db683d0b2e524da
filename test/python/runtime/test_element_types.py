"""Arguments and results of all types that arrays have, numpy's and others."""

import re
import sys
from functools import cache

import iree.winograd
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import torch
from iree.winograd.loading import element_types
from iree.winograd.loading.runtime import LoadedFunction, load
from loaded_programs import HOST_DEVICES, aligned, compile_program

pytestmark = pytest.mark.xdist_group("element types")

DOUBLING = """
func.func @{name}(%x: tensor<5x{type}>) -> tensor<5x{type}> {{
  %empty = tensor.empty() : tensor<5x{type}>
  %doubled = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<5x{type}>) outs(%empty : tensor<5x{type}>) {{
  ^bb0(%element: {type}, %unused: {type}):
    %sum = {add} %element, %element : {type}
    linalg.yield %sum : {type}
  }} -> tensor<5x{type}>
  return %doubled : tensor<5x{type}>
}}
"""
"""Computes, so that the types of elements are what their bits are read as."""

SAME = """
func.func @{name}(%x: tensor<5x{type}>) -> tensor<5x{type}> {{
  return %x : tensor<5x{type}>
}}
"""

NUMBERS = [0.0, 1.0, -1.5, 3.0, 0.25]
"""Which all types of floating point hold, and whose doubles they do."""

DOUBLED = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
RETURNED = {
    "i1": np.bool_,
    "si16": np.int16,
    "ui8": np.uint8,
    "ui16": np.uint16,
    "ui32": np.uint32,
    "ui64": np.uint64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}


def function_name(kind: str, type_: str) -> str:
    return f"{kind}_{re.sub('[<>]', '_', type_)}"


@cache
def compiled() -> bytes:
    """A function for each kind and type, which compile in the time that some programs would take."""
    adds = {"c": "complex.add", "i": "arith.addi"}
    functions = [
        DOUBLING.format(name=function_name("doubling", each), type=each, add=adds.get(each[0], "arith.addf"))
        for each in DOUBLED
    ]
    functions += [SAME.format(name=function_name("same", each), type=each) for each in (*DOUBLED, *RETURNED)]
    return compile_program("\n".join(functions), flags=["--iree-input-demote-f64-to-f32=false"])


def loaded(kind: str, type_: str, device: str = "local-sync") -> LoadedFunction:
    """Of this program, what doubles numbers of this type, or returns the same."""
    function: LoadedFunction = getattr(load(compiled(), device), function_name(kind, type_))
    return function


def numbers(dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    array = np.array(NUMBERS)
    return (array + 1j * array[::-1] if np.dtype(dtype).kind == "c" else np.abs(array)).astype(dtype)


@pytest.mark.parametrize("device", HOST_DEVICES)
@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("type_", DOUBLED)
def test_numpy(type_: str, offset: int, device: str) -> None:
    x = aligned(numbers(DOUBLED[type_]), offset)
    before = x.copy()
    result = loaded("doubling", type_, device)(x)
    np.testing.assert_array_equal(result, before + before, strict=True)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("type_", RETURNED)
def test_bits_are_kept(type_: str) -> None:
    x = numbers(RETURNED[type_])
    result = loaded("same", type_)(x)
    assert result.dtype == x.dtype
    assert result.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "type_", ["f16", "bf16", "complex<f32>", "complex<f64>", "i16", "f8E5M2", "f8E4M3FN"]
)
def test_torch(type_: str) -> None:
    dtype = np.dtype((DOUBLED | RETURNED)[type_])
    element = getattr(torch, dtype.name)
    x = torch.tensor(NUMBERS).to(element)
    result = loaded("same", type_)(x)
    assert result.dtype == x.dtype
    assert torch.equal(result.view(torch.uint8), x.view(torch.uint8))
    wide = torch.stack([x, x], dim=1)[:, 0]
    result = loaded("same", type_)(wide)
    assert torch.equal(result.view(torch.uint8), x.view(torch.uint8))


def test_without_ml_dtypes_bits_are_unsigned_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    element_types.extension_dtype.cache_clear()
    program = loaded("doubling", "bf16")
    x = torch.tensor(NUMBERS, dtype=torch.bfloat16)
    result = program(x.view(torch.uint16).numpy())
    assert result.dtype == np.uint16
    assert torch.equal(torch.from_numpy(result.view(np.int16)).view(torch.bfloat16), x + x)
    element_types.extension_dtype.cache_clear()


def test_numbers_of_python_take_the_type_of_the_parameter() -> None:
    for type_ in ("f32", "bf16", "complex<f32>"):
        result = loaded("doubling", type_)(NUMBERS)
        np.testing.assert_array_equal(result, 2 * np.array(NUMBERS).astype(DOUBLED[type_]), strict=True)
    program = loaded("doubling", "i8")
    np.testing.assert_array_equal(program([0, 1, -2, 3, 4]), np.int8([0, 2, -4, 6, 8]), strict=True)
    for unfit in ([0, 1, 2, 3, 1000], [0.0, 1.0, 2.0, 3.0, 4.0]):
        with pytest.raises(iree.winograd.CallError, match=r"must be tensor<5xi8>, got (int|float)64 of"):
            program(unfit)


def test_complex_numbers_are_not_made_real() -> None:
    with pytest.raises(iree.winograd.CallError, match="must be tensor<5xf32>, got complex"):
        loaded("doubling", "f32")([1j] * 5)
