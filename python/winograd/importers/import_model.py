"""Models of other frameworks, taken in as they are."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from iree.winograd.errors import ModelImportError

if TYPE_CHECKING:
    import onnx
    import torch
    from iree.winograd.importers.imported_model import ImportedModel


def is_onnx(path: str | PathLike[str]) -> bool:
    """Whether a file holds an ONNX model, by its name."""
    return fspath(path).endswith(".onnx")


def import_torch(
    model: torch.nn.Module | torch.export.ExportedProgram,
    *arguments: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_batch: bool = False,
    entry: str = "main",
) -> ImportedModel:
    """Import `model` as it is in evaluation mode; its forward function becomes the function `entry`.

    `arguments` and `kwargs`, those by name, tell the types of the program's arguments; a program that is
    exported already needs none. Tensors may lie in tuples, lists, dicts and dataclasses. They are what the
    program takes, one after the other, under the names that the signatures of the result have: `mask`, or
    `masks_0` for the first of several in `masks`. Their values don't matter. Numbers, truths, texts and None
    are part of the program. Results have names where `forward` returns a dict, a dataclass or a named tuple.

    With `dynamic_batch` the first dimension of every tensor is one and the same unknown size. Warns with
    `BatchWarning` where what the model computes depends on it, with what it then has to satisfy, and with
    `SizeWarning` of an exported program that torch takes for some sizes only. The result refers to the
    memory of the model's weights: don't change them while it is in use. It computes what `forward` returns,
    and writes to none of its arguments.

    Raises `ModelImportError` when torch or torch-mlir is missing, the model can't be exported, it keeps
    something in a buffer from call to call, it has sizes that depend on the values of its arguments, or
    torch-mlir has no lowering for one of its operators.
    """
    try:
        from iree.winograd.importers import torch_export, torch_graphs, torch_lowering
    except ImportError as error:
        raise ModelImportError(
            f"importing torch models needs torch and torch-mlir (`pip install iree-winograd[torch]`): {error}"
        ) from error
    exported = torch_export.export(model, arguments, kwargs or {}, dynamic_batch)
    return torch_lowering.lower(torch_graphs.decompose(exported), entry)


def import_onnx(
    model: str | PathLike[str] | onnx.ModelProto,
    *,
    dynamic_batch: bool = False,
    sizes: Mapping[str, int] | None = None,
    size_hint: Mapping[str, int] | None = None,
    entry: str = "main",
) -> ImportedModel:
    """Import an ONNX model, given as a file, with its external data beside it, or as what `onnx` loaded.

    Its graph becomes the function `entry`; the signatures of the result have the names of its inputs and
    outputs, and so has the program that it is compiled to. Sizes that the model leaves open stay unknown
    until the program runs, but for those of dimensions that it names, as in `sizes={"height": 224}`.
    `size_hint={"height": 480}` says which size is expected of one that stays open, as `compile`'s option does
    by position. With `dynamic_batch` the first dimension of every input is unknown, whatever the model says.
    Operators are named by their nodes, or else by the first of their outputs.

    Raises `ModelImportError` when the package `onnx` is missing, the file isn't there or isn't an ONNX model,
    no input has a dimension that `sizes` or `size_hint` names, the model fixes a batch that is to be dynamic,
    or torch-mlir has no lowering for one of its operators; `InvalidOptionError` for sizes that aren't
    positive integers.
    """
    try:
        from iree.winograd.importers import onnx_importer
    except ImportError as error:
        raise ModelImportError(
            f"importing ONNX models needs onnx (`pip install iree-winograd[onnx]`): {error}"
        ) from error
    return onnx_importer.lower(onnx_importer.read(model), dynamic_batch, sizes or {}, size_hint or {}, entry)
