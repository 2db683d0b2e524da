"""Types of elements, as MLIR, IREE's runtime, numpy, ml_dtypes and torch have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from iree.runtime import HalElementType


@dataclass(frozen=True)
class ElementType:
    """A type of elements that arrays and tensors have.

    `name` is that of numpy and torch or, for types that numpy lacks, of ml_dtypes and torch; `hal` is the
    runtime's number.
    """

    name: str
    hal: int
    is_extension: bool
    """Whether numpy lacks it."""
    memory: np.dtype[Any]
    """What numpy reads and writes it as: unsigned integers of the same bits where numpy lacks it."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of arrays: of ml_dtypes where numpy lacks it, and `memory` where that isn't installed."""
        return extension_dtype(self.name) or self.memory if self.is_extension else self.memory


class HostArray(NamedTuple):
    """Elements of a type in memory of the host: `memory` is contiguous, and of `element_type.memory`."""

    memory: npt.NDArray[Any]
    element_type: ElementType


@cache
def extension_dtype(name: str) -> np.dtype[Any] | None:
    """The type of ml_dtypes of this name, or None where that isn't installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def _of_numpy(name: str, hal: Any) -> ElementType:
    return ElementType(name, int(hal), False, np.dtype(name))


def _extending(name: str, hal: Any, bits: int) -> ElementType:
    return ElementType(name, int(hal), True, np.dtype(f"uint{bits}"))


_TYPES = (
    _of_numpy("bool", HalElementType.BOOL_8),
    _of_numpy("int8", HalElementType.SINT_8),
    _of_numpy("int16", HalElementType.SINT_16),
    _of_numpy("int32", HalElementType.SINT_32),
    _of_numpy("int64", HalElementType.SINT_64),
    _of_numpy("uint8", HalElementType.UINT_8),
    _of_numpy("uint16", HalElementType.UINT_16),
    _of_numpy("uint32", HalElementType.UINT_32),
    _of_numpy("uint64", HalElementType.UINT_64),
    _of_numpy("float16", HalElementType.FLOAT_16),
    _of_numpy("float32", HalElementType.FLOAT_32),
    _of_numpy("float64", HalElementType.FLOAT_64),
    _of_numpy("complex64", HalElementType.COMPLEX_64),
    _of_numpy("complex128", HalElementType.COMPLEX_128),
    _extending("bfloat16", HalElementType.BFLOAT_16, 16),
    _extending("float8_e4m3fn", HalElementType.FLOAT_8_E4M3_FN, 8),
    _extending("float8_e4m3fnuz", HalElementType.FLOAT_8_E4M3_FNUZ, 8),
    _extending("float8_e5m2", HalElementType.FLOAT_8_E5M2, 8),
    _extending("float8_e5m2fnuz", HalElementType.FLOAT_8_E5M2_FNUZ, 8),
    _extending("float8_e8m0fnu", HalElementType.FLOAT_8_E8M0_FNU, 8),
)
_BY_NAME: Mapping[str, ElementType] = MappingProxyType({each.name: each for each in _TYPES})
_BY_DTYPE: Mapping[np.dtype[Any], ElementType] = MappingProxyType(
    {each.memory: each for each in _TYPES if not each.is_extension}
)
_BY_HAL: Mapping[int, ElementType] = MappingProxyType(
    {
        **{each.hal: each for each in _TYPES},
        # Integers of functions on MLIR's own tensors have no sign.
        **{int(getattr(HalElementType, f"INT_{bits}")): _BY_NAME[f"int{bits}"] for bits in (8, 16, 32, 64)},
    }
)


def _names_by_mlir() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "i1", ("bool",)
    for bits in (8, 16, 32, 64):
        yield f"i{bits}", (f"int{bits}", f"uint{bits}")
        yield f"si{bits}", (f"int{bits}",)
        yield f"ui{bits}", (f"uint{bits}",)
    for bits in (16, 32, 64):
        yield f"f{bits}", (f"float{bits}",)
    yield "bf16", ("bfloat16",)
    yield "complex<f32>", ("complex64",)
    yield "complex<f64>", ("complex128",)
    for form in ("E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ", "E8M0FNU"):
        yield f"f8{form}", (f"float8_{form.lower()}",)


_BY_MLIR: Mapping[str, tuple[ElementType, ...]] = MappingProxyType(
    {mlir: tuple(_BY_NAME[name] for name in names) for mlir, names in _names_by_mlir()}
)


def named_type(name: str) -> ElementType | None:
    """The type that numpy, ml_dtypes or torch calls so, or None."""
    return _BY_NAME.get(name)


def type_of_dtype(dtype: np.dtype[Any]) -> ElementType | None:
    """The type of arrays of `dtype`, which may be one of ml_dtypes, or None where the runtime has none."""
    known = _BY_DTYPE.get(dtype)
    # The name of a type of numpy's doesn't tell the order of its bytes.
    return known or (_BY_NAME.get(dtype.name) if dtype.isbuiltin == 2 else None)


def type_of_hal(number: int) -> ElementType | None:
    """The type that results have of which the runtime gives this number, or None where arrays have none."""
    return _BY_HAL.get(number)


def types_of_mlir(name: str) -> tuple[ElementType, ...]:
    """The types that are MLIR's of this name: none where arrays have none, two where MLIR has no sign."""
    return _BY_MLIR.get(name, ())
