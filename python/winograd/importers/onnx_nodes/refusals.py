"""Operators, forms and types that torch-mlir or IREE computes wrongly, or ends the process on."""

from __future__ import annotations

from iree.winograd.errors import ModelImportError
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import GraphProto, TensorProto

_ELEMENT_TYPES = frozenset(
    (
        TensorProto.UNDEFINED,
        TensorProto.BFLOAT16,
        TensorProto.BOOL,
        TensorProto.DOUBLE,
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
    )
)
"""Types of elements that programs have, and that of a value of which ONNX knows none."""


@rewrites("Det")
def det(rewriting: Rewriting) -> None:
    """torch-mlir eliminates without pivoting, so that a zero on the diagonal makes a NaN of everything."""
    rewriting.refuse("any matrix")


@rewrites("Mod")
def mod(rewriting: Rewriting) -> None:
    """IREE has no remainder of doubles with the sign of the divisor."""
    is_double = rewriting.values.element_type(rewriting.node.input[0]) == TensorProto.DOUBLE
    if is_double and not rewriting.attributes.get("fmod", 0):
        rewriting.refuse("elements of type DOUBLE and the sign of the divisor")


@rewrites("Optional")
def optional(rewriting: Rewriting) -> None:
    """IREE's importer doesn't know the types that say what a value may be."""
    rewriting.refuse("a value that may be missing")


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@rewrites(*(f"Reduce{name}" for name in _REDUCTIONS))
def reduction(rewriting: Rewriting) -> None:
    """What is summed over has to be known."""
    if rewriting.operand(1) is not None and rewriting.constant(1) is None:
        rewriting.refuse("axes that are known only at run time")


@rewrites("Scan")
def scan(rewriting: Rewriting) -> None:
    """The first had batches, which ONNX's conversion leaves out."""
    if rewriting.operator_set < 9:
        rewriting.refuse(f"batches, as in operator set {rewriting.operator_set}")


def require_input_types(graph: GraphProto) -> None:
    """Refuses an input with elements of a type that programs don't have, which no node need read.

    Raises `ModelImportError`.
    """
    for value in graph.input:
        if value.type.tensor_type.elem_type not in _ELEMENT_TYPES:
            name = TensorProto.DataType.Name(value.type.tensor_type.elem_type)
            raise ModelImportError(
                f"the input {value.name!r} has elements of type {name}, which isn't supported"
            )


def require_element_types(rewriting: Rewriting) -> None:
    """Refuses a node whose operands or results have elements of a type that programs don't have."""
    for name in filter(None, (*rewriting.node.input, *rewriting.node.output)):
        element_type = rewriting.values.element_type(name)
        if element_type not in _ELEMENT_TYPES:
            rewriting.refuse(f"elements of type {TensorProto.DataType.Name(element_type)}")
