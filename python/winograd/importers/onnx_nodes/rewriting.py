"""One node of an ONNX graph, and the nodes that take its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.onnx_nodes.values import Array, Shape, Values
from onnx import NodeProto, helper, numpy_helper

Size: TypeAlias = int | str
"""A size that is known, or the name of a tensor of one int64 that holds it when the model runs."""
_MIN_OF_INTEGERS = 12
"""The operator set from which `Min` takes integers."""


class Rewriting:
    """The node that is looked at, what is known of its operands, and those that are to take its place.

    The latter are named as it is, so that a report names what the model has.
    """

    def __init__(self, node: NodeProto, values: Values, operator_set: int) -> None:
        self.node = node
        self.values = values
        self.operator_set = operator_set
        self.nodes: list[NodeProto] = []
        self.retyped: set[str] = set()
        """Results that have elements of another type than the node's."""
        self.attributes: dict[str, Any] = {
            each.name: helper.get_attribute_value(each) for each in node.attribute
        }
        self._shapes: dict[str, Shape] = {}

    def text(self, name: str, default: str) -> str:
        """The attribute `name`, a string."""
        value = self.attributes.get(name)
        return default if value is None else str(value.decode())

    def operand(self, index: int) -> str | None:
        """The name of an operand; None where it is left out."""
        return (self.node.input[index] or None) if index < len(self.node.input) else None

    def constant(self, index: int) -> Array | None:
        """The elements of an operand that is a constant."""
        name = self.operand(index)
        return None if name is None else self.values.constant(name)

    def shape(self, name: str) -> Shape | None:
        """The shape of an operand, or of what `reshape` made."""
        return self._shapes.get(name) or self.values.shape(name)

    def symbols(self, name: str) -> tuple[int | str | None, ...]:
        """As `Values.symbols`."""
        return self.values.symbols(name)

    def known_shape(self, index: int) -> tuple[int, ...]:
        """The shape of an operand. Refuses the node where it isn't known."""
        name = self.operand(index)
        sizes = None if name is None else self.shape(name)
        known = [size for size in sizes or () if size is not None]
        if sizes is None or len(known) < len(sizes):
            self.refuse("sizes that are known only at run time")
        return tuple(known)

    def rank(self, index: int) -> int:
        """How many dimensions an operand has. Refuses the node where that isn't known."""
        name = self.operand(index)
        sizes = None if name is None else self.shape(name)
        if sizes is None:
            self.refuse("an operand of unknown rank")
        return len(sizes)

    def refuse(self, reason: str) -> NoReturn:
        """Raises `ModelImportError`, which names the node and its operator."""
        raise ModelImportError(f"{described(self.node)} isn't supported with {reason}")

    def add(self, operator: str, *operands: str, into: str | None = None, **attributes: Any) -> str:
        """A node with one result, the name of which is returned: `into`, or a new one."""
        result = into if into is not None else self._name(operator)
        self.nodes.append(helper.make_node(operator, operands, [result], name=self.node.name, **attributes))
        return result

    def lesser(self, first: str, second: str) -> str:
        """The lesser of integers, element by element."""
        if self.operator_set >= _MIN_OF_INTEGERS:
            return self.add("Min", first, second)
        return self.add("Where", self.add("Greater", first, second), second, first)

    def greater(self, first: str, second: str) -> str:
        """The greater of numbers, element by element."""
        return self.add("Where", self.add("Greater", first, second), first, second)

    def constant_of(self, elements: Any, dtype: npt.DTypeLike | None = None) -> str:
        """A constant tensor."""
        array = np.asarray(elements, dtype)
        return self.add(
            "Constant", value=numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
        )

    def dtype(self, name: str) -> npt.DTypeLike:
        """The type of the elements of `name`, as numpy has it."""
        return helper.tensor_dtype_to_np_dtype(self.values.element_type(name))

    def scalar_like(self, value: float, name: str) -> str:
        """A constant without dimensions, of the type of the elements of `name`."""
        return self.constant_of(value, self.dtype(name))

    def sizes(self, name: str) -> list[Size]:
        """The sizes of the dimensions of `name`."""
        shape = self.shape(name)
        assert shape is not None, "asked for the sizes of a value of unknown rank"
        if None not in shape:
            return [size for size in shape if size is not None]
        all_sizes = self.add("Shape", name)
        return [
            size if size is not None else self.add("Gather", all_sizes, self.constant_of([d], np.int64))
            for d, size in enumerate(shape)
        ]

    def product(self, *sizes: Size) -> Size:
        """The product of sizes."""
        known = int(np.prod([size for size in sizes if isinstance(size, int)], dtype=np.int64))
        names = [size for size in sizes if isinstance(size, str)]
        if not names:
            return known
        result = names[0]
        for factor in (*names[1:], *([self.constant_of([known], np.int64)] if known != 1 else [])):
            result = self.add("Mul", result, factor)
        return result

    def quotient(self, size: Size, divisor: int) -> Size:
        """A size by a number that divides it."""
        if isinstance(size, int):
            return size // divisor
        return self.add("Div", size, self.constant_of([divisor], np.int64))

    def vector(self, sizes: Sequence[Size]) -> str:
        """Sizes as one tensor of int64."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant_of(sizes, np.int64)
        parts = [size if isinstance(size, str) else self.constant_of([size], np.int64) for size in sizes]
        return self.add("Concat", *parts, axis=0)

    def reshape(self, name: str, sizes: Sequence[Size], into: str | None = None) -> str:
        """The elements of `name` in another shape. One size that isn't known need not be computed."""
        unknown = sum(isinstance(size, str) for size in sizes)
        if unknown == 1 and 0 not in sizes:
            shape = self.constant_of([size if isinstance(size, int) else -1 for size in sizes], np.int64)
        else:
            shape = self.vector(sizes)
        result = self.add("Reshape", name, shape, into=into)
        self._shapes[result] = tuple(size if isinstance(size, int) else None for size in sizes)
        return result

    def _name(self, operator: str) -> str:
        return f"{next(filter(None, self.node.output))}/{operator}.{len(self.nodes)}"


def described(node: NodeProto) -> str:
    """A node as messages name it, with its operator."""
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f"node {node.name or next(filter(None, node.output), '')!r}: the operator {operator}"
