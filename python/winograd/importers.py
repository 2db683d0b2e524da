"""Models of other frameworks as MLIR programs on linalg and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import ModelImportError
from iree.winograd.signatures import TensorSignature

if TYPE_CHECKING:
    import torch

WEIGHT_ATTRIBUTE = "winograd.weight"
"""On an `arith.constant` of zeros: the name of the weight that it stands for."""


@dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model as a program on linalg and tensors, its weights apart from it.

    `program` is MLIR bytecode with a placeholder for each weight; `weights` holds their bytes, row-major, by
    name.
    """

    program: bytes
    weights: Mapping[str, npt.NDArray[np.uint8]]
    entry: str
    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]

    def build(self, context: ir.Context) -> ir.Module:
        """The whole program in `context`; its constants refer to (and keep) the memory of `weights`."""
        module = ir.Module.parse(self.program, context)
        with context:
            for constant in _weight_placeholders(module.operation):
                name = ir.StringAttr(constant.attributes[WEIGHT_ATTRIBUTE]).value
                del constant.attributes[WEIGHT_ATTRIBUTE]
                constant.attributes["value"] = ir.DenseResourceElementsAttr.get_from_buffer(
                    self.weights[name], name, constant.results[0].type
                )
        return module

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole program as MLIR bytecode, which `iree-compile` reads."""
        with Path(path).open("wb") as file:
            self.build(ir.Context()).operation.write_bytecode(file)


def import_torch(
    model: torch.nn.Module | torch.export.ExportedProgram,
    *arguments: Any,
    dynamic_batch: bool = False,
    entry: str = "main",
) -> ImportedModel:
    """Import `model` as it is in evaluation mode; its forward function becomes the function `entry`.

    `arguments` tell the types of the program's arguments, their values don't matter; a program that is
    exported already needs none. With `dynamic_batch` the first dimension of every tensor argument is one and
    the same unknown size. The result refers to the memory of the model's weights: don't change them while it
    is in use.

    Raises `ModelImportError` when torch or torch-mlir is missing, the model can't be exported, or torch-mlir
    has no lowering for one of its operators.
    """
    try:
        from iree.winograd import torch_graphs, torch_lowering
    except ImportError as error:
        raise ModelImportError(
            f"importing torch models needs torch and torch-mlir (`pip install iree-winograd[torch]`): {error}"
        ) from error
    exported = torch_graphs.export(model, arguments, dynamic_batch)
    return torch_lowering.lower(torch_graphs.decompose(exported), entry)


def _weight_placeholders(operation: ir.Operation) -> list[ir.Operation]:
    return [nested for nested in _nested_operations(operation) if WEIGHT_ATTRIBUTE in nested.attributes]


def _nested_operations(operation: ir.Operation) -> Iterator[ir.Operation]:
    for region in operation.regions:
        for block in region:
            for nested in block:
                yield nested.operation
                yield from _nested_operations(nested.operation)
