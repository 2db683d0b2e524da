"""The element types of a convolution: what is stored, multiplied and summed."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from functools import cache

from iree.winograd.dialect.bindings import ir

_TEXT = re.compile(r"(?P<input>\w+)\*(?P<filter>\w+)\+(?P<accumulator>\w+)=(?P<result>\w+)")


@cache
def element_bytes(element_type: str) -> int:
    """Bytes of an element of a type of MLIR in memory. Raises ValueError for one whose name has no size."""
    bits = re.search(r"\d+", element_type)
    if bits is None:
        raise ValueError(f"elements of type {element_type} have no known size")
    return -(-int(bits[0]) // 8)


@dataclass(frozen=True)
class ElementTypes:
    """MLIR's names of the types of elements of a convolution's operands, of its sums, and of its result.

    Their text is one name where all are alike, else `bf16*bf16+f32=bf16`; `parse` reads it back.
    """

    input: str = "f32"
    filter: str = "f32"
    accumulator: str = "f32"
    result: str = "f32"

    def __str__(self) -> str:
        if len(set(astuple(self))) == 1:
            return self.input
        return f"{self.input}*{self.filter}+{self.accumulator}={self.result}"

    @staticmethod
    def all_of(element_type: str) -> ElementTypes:
        """Where all are alike."""
        return ElementTypes(element_type, element_type, element_type, element_type)

    @staticmethod
    def parse(text: str) -> ElementTypes:
        """The types of a text. Raises ValueError when it isn't one."""
        if re.fullmatch(r"\w+", text):
            return ElementTypes.all_of(text)
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not the element types of a convolution: {text!r}")
        return ElementTypes(**match.groupdict())

    @property
    def input_bytes(self) -> int:
        """Of one element, as are the others."""
        return element_bytes(self.input)

    @property
    def filter_bytes(self) -> int:
        return element_bytes(self.filter)

    @property
    def accumulator_type(self) -> ir.Type:
        """In the current context."""
        return ir.Type.parse(self.accumulator)

    @property
    def accumulator_bytes(self) -> int:
        return element_bytes(self.accumulator)

    @property
    def result_bytes(self) -> int:
        return element_bytes(self.result)


F32 = ElementTypes()
"""Single precision throughout."""
