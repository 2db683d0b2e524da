"""What is known of the values of an ONNX graph before it runs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int | None, ...]

OWN_DOMAINS = ("", "ai.onnx")
"""Domains of ONNX's own operators, which are one."""


class Values:
    """Types of the values of `graph`, and those that are constants; a subgraph's has those around it, too.

    Shapes are as far as ONNX has inferred them: None for a value whose rank isn't known, and for a dimension.
    """

    def __init__(self, graph: GraphProto, outer: Values | None = None) -> None:
        self._types: dict[str, ValueInfoProto] = dict(outer._types) if outer else {}
        self._constants: dict[str, TensorProto] = dict(outer._constants) if outer else {}
        self._outputs = {value.name for value in graph.output}
        for value in (*graph.input, *graph.value_info, *graph.output):
            self._types[value.name] = value
        for tensor in graph.initializer:
            self._constants[tensor.name] = tensor
        for node in graph.node:
            if (tensor := constant_tensor(node)) is not None:
                self._constants[node.output[0]] = tensor
        for value in graph.input:
            if outer is not None:
                # It hides one of the same name around the subgraph.
                self._constants.pop(value.name, None)

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor."""
        if name in self._constants:
            return tuple(self._constants[name].dims)
        value = self._types.get(name)
        if value is None or not value.type.tensor_type.HasField("shape"):
            return None
        dims = value.type.tensor_type.shape.dim
        return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)

    def is_output(self, name: str) -> bool:
        """Whether it is a result of the graph."""
        return name in self._outputs

    def symbols(self, name: str) -> tuple[int | str | None, ...]:
        """The sizes of a tensor, by name where they are only known at run time, as far as they are known."""
        value = self._types.get(name)
        dims = value.type.tensor_type.shape.dim if value is not None else ()
        return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims)

    def element_type(self, name: str) -> int:
        """The type of a tensor's elements, `TensorProto.UNDEFINED` where it isn't known."""
        if name in self._constants:
            return self._constants[name].data_type
        value = self._types.get(name)
        return int(value.type.tensor_type.elem_type if value is not None else TensorProto.UNDEFINED)

    def constant(self, name: str) -> Array | None:
        """The elements of a constant tensor; None for others, and for weights, whose bytes aren't here."""
        tensor = self._constants.get(name)
        return None if tensor is None or _is_detached(tensor) else numpy_helper.to_array(tensor)

    def tensor(self, name: str) -> TensorProto | None:
        """A constant as the graph has it."""
        return self._constants.get(name)

    def typed(self, name: str) -> ValueInfoProto | None:
        """A value with its type, as far as that is known."""
        tensor = self._constants.get(name)
        if tensor is not None:
            return helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims))
        return self._types.get(name)

    def add_constant(self, tensor: TensorProto) -> None:
        """Has the value that is called as `tensor` be it."""
        self._constants[tensor.name] = tensor


def _is_detached(tensor: TensorProto) -> bool:
    return (
        tensor.data_type == TensorProto.FLOAT
        and not tensor.raw_data
        and not tensor.float_data
        and 0 not in tensor.dims
    )


def constant_tensor(node: NodeProto) -> TensorProto | None:
    """What a `Constant` is; None where it isn't a dense tensor of numbers, and for other nodes."""
    if node.op_type != "Constant" or node.domain not in OWN_DOMAINS:
        return None
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    if isinstance(value, TensorProto):
        return value
    dtypes = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    dtype = dtypes.get(attribute.name)
    return None if dtype is None else numpy_helper.from_array(np.array(value, dtype))
