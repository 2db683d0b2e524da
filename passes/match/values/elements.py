"""The elements of constants, as arrays of the types that they have."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.resource_data import resource_data

Array = npt.NDArray[Any]


def number_type(type_: ir.Type) -> npt.DTypeLike | None:
    """The type of numpy's that holds an element of this type; None for any that isn't known here."""
    if isinstance(type_, ir.IndexType):
        return np.int64
    names = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i1": np.bool_}
    names |= {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
    return names.get(str(type_))


def holds_elements(attribute: ir.Attribute | None) -> bool:
    """Whether an attribute holds the elements of a tensor, itself or as a resource of the program."""
    if attribute is None or isinstance(attribute, ir.DenseElementsAttr):
        return attribute is not None
    try:
        ir.DenseResourceElementsAttr(attribute)
    except ValueError:
        return False
    return True


def constant_elements(constant: ir.Operation, most: int | None = None) -> Array | None:
    """The scalar, or the elements of the tensor, that an `arith.constant` is, not to be written to.

    Those of bf16 are f32. None for types that numpy doesn't have, for resources that a module was printed
    without, and for more than `most` elements that aren't all the same.
    """
    type_, attribute = constant.results[0].type, constant.attributes["value"]
    is_tensor = isinstance(type_, ir.RankedTensorType)
    element_type = type_.element_type if is_tensor else type_
    dtype = np.float32 if isinstance(element_type, ir.BF16Type) else number_type(element_type)
    if dtype is None:
        return None
    if not is_tensor:
        return np.array(attribute.value, dtype)
    shape = tuple(type_.shape)
    if isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat:
        return np.broadcast_to(np.array(attribute.get_splat_value().value, dtype), shape)
    if most is not None and np.prod(shape, dtype=np.int64) > most:
        return None
    if isinstance(element_type, ir.BF16Type):
        return _bf16_elements(constant)
    if isinstance(attribute, ir.DenseElementsAttr):
        return np.asarray(attribute).astype(dtype, copy=False)
    try:
        return None if dtype == np.bool_ else resource_data(constant, dtype)
    except ValueError:
        return None


def _bf16_elements(constant: ir.Operation) -> Array | None:
    """Those of a tensor that isn't splat."""
    attribute = constant.attributes["value"]
    try:
        if isinstance(attribute, ir.DenseElementsAttr):
            bits = _bits_in_text(str(attribute)).reshape(constant.results[0].type.shape)
        else:
            bits = resource_data(constant, np.uint16)
    except ValueError:
        return None
    numbers: Array = bf16_numbers(bits)
    return numbers


def _bits_in_text(dense: str) -> Array:
    """The bits of numbers of bf16 by the text of their attribute: MLIR's bindings don't tell them."""
    elements, _, _ = dense.rpartition(" : tensor<")
    if all_bits := re.search('"0x([0-9A-F]+)"', elements):
        return np.frombuffer(bytes.fromhex(all_bits[1]), np.uint16)
    numbers = re.findall(r"0x[0-9A-F]{4}|[-+]?\d+\.\d+E[-+]\d+", elements, re.IGNORECASE)
    bits = [int(each, 16) if each.startswith("0x") else int(bf16_bits(float(each))) for each in numbers]
    return np.array(bits, np.uint16)
