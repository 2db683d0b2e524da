"""Models of other frameworks as MLIR programs on linalg and tensors, their weights apart from them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.atomic_file import atomic_file
from iree.winograd.compiler_threads import use_own_threads
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.resource_data import resource_attribute
from iree.winograd.errors import ModelImportError
from iree.winograd.loading.signatures import TensorSignature, named
from iree.winograd.passes.match.navigation import walk
from iree.winograd.pipelines.problems.reflection import INPUTS_KEY, OUTPUTS_KEY

WEIGHT_ATTRIBUTE = "winograd.weight"
"""On an `arith.constant` of zeros: the name of the weight that it stands for."""

TEXT_SUFFIX = ".mlir"

Weights = Mapping[str, npt.NDArray[np.uint8]]
Names = tuple[Sequence[str | None], Sequence[str | None]]
"""Those of a function's arguments and of its results, as far as the model has some."""

_RESOURCE = re.compile(r"dense_resource<(\w+)>")


@dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model as a program on linalg and tensors, its weights apart from it.

    `program` is MLIR bytecode with a placeholder for each weight; `weights` holds their bytes, row-major, by
    name.
    """

    program: bytes
    weights: Weights
    entry: str
    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]
    size_hint: tuple[int, ...] = ()
    """Of the images that it was traced on the sizes that it leaves open, in order.

    The batch is the first of them where it is open and something is expected of it."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Those of `iree-compile` without which it makes other types of those of arguments and results."""
        types = {each.element_type for each in (*self.inputs, *self.outputs)}
        return ("--iree-input-demote-f64-to-f32=false",) if "f64" in types else ()

    def __reduce__(self) -> tuple[type[ImportedModel], tuple[Any, ...]]:
        """Pickled with its weights, which nothing changes."""
        fields = {**self.__dict__, "weights": dict(self.weights)}
        return type(self), tuple(fields.values())

    def build(self, context: ir.Context) -> ir.Module:
        """The whole program in `context`; its constants refer to (and keep) the memory of `weights`."""
        module = ir.Module.parse(self.program, context)
        with context:
            for constant in [each for each in walk(module.operation) if WEIGHT_ATTRIBUTE in each.attributes]:
                name = ir.StringAttr(constant.attributes[WEIGHT_ATTRIBUTE]).value
                del constant.attributes[WEIGHT_ATTRIBUTE]
                type_ = ir.RankedTensorType(constant.results[0].type)
                constant.attributes["value"] = resource_attribute(self.weights[name], name, type_)
        return module

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole program, which `iree-compile` reads: as text to a `.mlir`, as bytecode otherwise.

        The file appears when it is complete. Raises OSError when it can't be written.
        """
        context = ir.Context()
        use_own_threads(context)
        module = self.build(context).operation
        with atomic_file(fspath(path)) as temporary, open(temporary, "wb") as file:
            if fspath(path).endswith(TEXT_SUFFIX):
                module.print(file=file, binary=True, enable_debug_info=True)
            else:
                module.write_bytecode(file)


def imported_model(
    bindings: Any,
    module: Any,
    weights: Weights,
    entry: str,
    names: Names | None = None,
) -> ImportedModel:
    """The program in `module`, an operation of any MLIR `bindings`, whose function is `entry`.

    Its constants that refer to resources of the names in `weights` become placeholders. The compiled
    program says its `names`. Raises `ModelImportError` when one of these is no tensor, or something has a
    negative size.
    """
    function = next(
        each
        for each in module.regions[0].blocks[0]
        if "sym_name" in each.attributes and bindings.StringAttr(each.attributes["sym_name"]).value == entry
    )
    type_ = bindings.FunctionType(bindings.TypeAttr(function.attributes["function_type"]).value)
    inputs = tuple(_tensor_signature(bindings, each) for each in type_.inputs)
    outputs = tuple(_tensor_signature(bindings, each) for each in type_.results)
    if names is not None:
        inputs, outputs = map(named, (inputs, outputs), names)
        _note_names(bindings, function, names)

    negative: list[str] = []

    def replace(operation: Any) -> Any:
        negative.extend(_negative_sizes(bindings, operation))
        _replace_by_placeholder(bindings, operation, weights)
        return bindings.WalkResult.ADVANCE

    module.walk(replace)
    if negative:
        raise ModelImportError(negative[0])
    program = io.BytesIO()
    module.write_bytecode(program)
    return ImportedModel(
        program=program.getvalue(),
        weights=MappingProxyType(weights),
        entry=entry,
        inputs=inputs,
        outputs=outputs,
    )


def _negative_sizes(bindings: Any, operation: Any) -> list[str]:
    """Results of negative size, which MLIR would not read again.

    torch-mlir doesn't ask whether windows fit in their image.
    """
    tensors = (each.type for each in operation.results if isinstance(each.type, bindings.RankedTensorType))
    return [
        f"{operation.location}: a result would be of size {size}"
        for type_ in tensors
        for dimension, size in enumerate(type_.shape)
        if size < 0 and not type_.is_dynamic_dim(dimension)
    ]


def _note_names(bindings: Any, function: Any, names: Names) -> None:
    sides = zip((INPUTS_KEY, OUTPUTS_KEY), names, strict=True)
    texts = {key: json.dumps(list(each)) for key, each in sides if any(each)}
    with function.context:
        entries = {key: bindings.StringAttr.get(text) for key, text in texts.items()}
        if entries:
            function.attributes["iree.reflection"] = bindings.DictAttr.get(entries)


def _replace_by_placeholder(bindings: Any, operation: Any, weights: Weights) -> None:
    """Makes a constant that refers to a weight zeros that carry the weight's name."""
    if operation.name != "arith.constant":
        return
    name = resource_name(operation.attributes["value"])
    if name not in weights:
        return
    type_ = bindings.RankedTensorType(operation.results[0].type)
    with operation.context:
        zero = bindings.FloatAttr.get(type_.element_type, 0.0, loc=bindings.Location.unknown())
        operation.attributes["value"] = bindings.DenseElementsAttr.get_splat(type_, zero)
        operation.attributes[WEIGHT_ATTRIBUTE] = bindings.StringAttr.get(name)


def resource_name(attribute: Any) -> str | None:
    """The name of the resource that an attribute of any bindings refers to."""
    resource = _RESOURCE.match(str(attribute))
    return None if resource is None else resource[1]


def _tensor_signature(bindings: Any, type_: Any) -> TensorSignature:
    if not isinstance(type_, bindings.RankedTensorType):
        raise ModelImportError(f"arguments and results must be tensors, got {type_}")
    sizes = tuple(None if type_.is_dynamic_dim(index) else size for index, size in enumerate(type_.shape))
    return TensorSignature(sizes, str(type_.element_type))
