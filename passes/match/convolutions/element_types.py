"""The element types of a convolution: what is stored, multiplied and summed."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, replace
from functools import cache

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import default_domain_type

_TEXT = re.compile(
    r"(?P<input>\w+)\*(?P<filter>\w+)(?:@(?P<domain>\w+))?\+(?P<accumulator>\w+)=(?P<result>\w+)"
)

_HALVES = ("f16", "bf16")


@cache
def element_bytes(element_type: str) -> int:
    """Bytes of an element of a type of MLIR in memory. Raises ValueError for one whose name has no size."""
    bits = re.search(r"\d+", element_type)
    if bits is None:
        raise ValueError(f"elements of type {element_type} have no known size")
    return ceil_div(int(bits[0]), 8)


@dataclass(frozen=True)
class ElementTypes:
    """MLIR's names of the types of elements of a convolution: of what it reads, computes and writes.

    Their text is one name where all are alike, else `bf16*bf16+f32=bf16`, or `bf16*bf16@bf16+f32=bf16` where
    the domain isn't that of the sums; `parse` reads it back.
    """

    input: str = "f32"
    filter: str = "f32"
    accumulator: str = "f32"
    """Of sums of products."""
    result: str = "f32"
    domain: str = "f32"
    """Of transformed inputs and filters, whose products are summed."""

    def __str__(self) -> str:
        if len(set(astuple(self))) == 1:
            return self.input
        domain = "" if self.domain == self.accumulator else f"@{self.domain}"
        return f"{self.input}*{self.filter}{domain}+{self.accumulator}={self.result}"

    @staticmethod
    def all_of(element_type: str) -> ElementTypes:
        """Where all are alike."""
        return ElementTypes(*[element_type] * 5)

    @staticmethod
    def of_operation(operation: ir.Operation) -> ElementTypes:
        """Those of a convolution in a program: an op of an input, a filter and what they are added to.

        Its domain and its sums are of `default_domain_type`.
        """
        image, filters, result = (operand.type.element_type for operand in list(operation.operands)[:3])
        summed = str(default_domain_type(result))
        return ElementTypes(str(image), str(filters), summed, str(result), summed)

    @staticmethod
    def of_stages(
        image: ir.Value, filters: ir.Value, product: ir.Operation, result: ir.Value
    ) -> ElementTypes:
        """Those of one that is computed from `image` and `filters` by transforms around `product`.

        Raises ValueError where the product's operands are of two types.
        """
        first, second, *_ = (str(operand.type.element_type) for operand in product.operands)
        if first != second:
            raise ValueError(f"its domain is of {first} for the input, but of {second} for the filter")
        summed = product.results[0]
        read, taps, total, written = (
            str(value.type.element_type) for value in (image, filters, summed, result)
        )
        return ElementTypes(read, taps, total, written, first)

    @staticmethod
    def parse(text: str) -> ElementTypes:
        """The types of a text. Raises ValueError when it isn't one."""
        if re.fullmatch(r"\w+", text):
            return ElementTypes.all_of(text)
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not the element types of a convolution: {text!r}")
        names = match.groupdict()
        return ElementTypes(**{**names, "domain": names["domain"] or names["accumulator"]})

    @property
    def widened(self) -> ElementTypes:
        """The same of images in f32 where they are stored in half precision."""
        read, written = ("f32" if each in _HALVES else each for each in (self.input, self.result))
        return replace(self, input=read, result=written)

    @property
    def widened_of_gradient(self) -> ElementTypes:
        """`widened` of the gradient of a filter, whose second operand is an image as well."""
        return replace(self.widened, filter="f32" if self.filter in _HALVES else self.filter)

    @property
    def input_bytes(self) -> int:
        """Of one element, as are the others."""
        return element_bytes(self.input)

    @property
    def filter_bytes(self) -> int:
        return element_bytes(self.filter)

    @property
    def domain_bytes(self) -> int:
        return element_bytes(self.domain)

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
