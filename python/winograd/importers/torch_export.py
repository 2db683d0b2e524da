"""Torch's own export of a model, with whatever arguments its forward function takes."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.batch_warning import BatchWarning
from iree.winograd.importers.size_warning import SizeWarning
from iree.winograd.importers.torch_graphs import in_mode, is_result, without_own_deprecations
from iree.winograd.importers.torch_operators.views import RollInMemoryFormat
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

_GUARD = re.compile(r"generated guard (.*?)\.?$", re.MULTILINE)
"""What torch says a size has to satisfy."""
_SIZE = re.compile(r"L\['[^']*'\](?:\[[^\]]*\]|\.\w+)*\.size\(\)\[0\]")
"""How it calls the batch there."""
_ANY_SIZE = re.compile(r"L\['([^']*)'\]((?:\[[^\]]*\]|\.\w+)*)\.size\(\)\[(\d+)\]")
"""How it calls a size of an argument."""
_KNOWN = re.compile(r".* == -?\d+")
"""What it requires where it took something for a number, as a convolution's single output."""


def export(
    model: torch.nn.Module | torch.export.ExportedProgram,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    dynamic_batch: bool,
) -> torch.export.ExportedProgram:
    """The graph of `model` in evaluation mode. Raises `ModelImportError` when torch can't trace it.

    Dataclasses among the arguments and results become containers that torch knows. Warns with `BatchWarning`
    where what the model computes depends on its batch, and with `SizeWarning` of sizes of an exported one.
    """
    if isinstance(model, torch.export.ExportedProgram):
        if arguments or keywords or dynamic_batch:
            raise ModelImportError(
                "an exported program holds its arguments' types: give neither them nor dynamic_batch"
            )
        _warn_of_sizes(model)
        return model
    if not isinstance(model, torch.nn.Module):
        raise ModelImportError(f"expected a torch.nn.Module or ExportedProgram, got {type(model).__name__}")
    given: tuple[tuple[Any, ...], dict[str, Any]] = tuple(arguments), dict(keywords)
    _register_dataclasses(given)
    hook = model.register_forward_hook(lambda _, __, results: _register_dataclasses(results))
    try:
        with in_mode(model, training=False), RollInMemoryFormat(), without_own_deprecations():
            return _with_dynamic_batch(model, *given) if dynamic_batch else _export(model, *given, None)
    except ModelImportError:
        raise
    except Exception as error:
        raise ModelImportError(f"torch.export could not trace {type(model).__name__}: {error}") from error
    finally:
        hook.remove()


def _warn_of_sizes(exported: torch.export.ExportedProgram) -> None:
    """Warn where torch refuses sizes other than some, as it does in calls: a program doesn't look at them."""
    required = [each for each in getattr(exported, "_guards_code", ()) if _KNOWN.fullmatch(each)]
    if required:
        conditions = " and ".join(_ANY_SIZE.sub(r"\1\2.shape[\3]", each) for each in required)
        warnings.warn(
            f"torch exported the program for sizes at which {conditions}: results for others may be wrong",
            SizeWarning,
            stacklevel=4,
        )


def _export(
    model: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], shapes: Any
) -> torch.export.ExportedProgram:
    return torch.export.export(model, arguments, keywords, dynamic_shapes=shapes)


def _with_dynamic_batch(
    model: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> torch.export.ExportedProgram:
    # A size of 1 would be taken for a constant.
    arguments, keywords = pytree.tree_map_only(torch.Tensor, _doubled, (arguments, keywords))
    try:
        return _export(model, arguments, keywords, _batches((arguments, keywords), torch.export.Dim("batch")))
    except Exception as error:
        guards = [_SIZE.sub("batch", guard) for guard in _GUARD.findall(str(error))]
        if not guards:
            raise
    # Torch would have the caller state what the batch is. What it finds itself it takes.
    exported = _export(model, arguments, keywords, _batches((arguments, keywords), torch.export.Dim.AUTO))
    for name, tensor in _tensors(exported):
        if tensor.dim() and isinstance(tensor.shape[0], int):
            raise ModelImportError(
                f"{type(model).__name__} computes for a batch of {tensor.shape[0]} only: argument {name!r} "
                "can't have a dynamic one"
            )
    conditions = " and ".join(dict.fromkeys(guards))
    warnings.warn(
        f"what {type(model).__name__} computes depends on its batch: it is imported for {conditions}, and "
        "its results for others may be wrong",
        BatchWarning,
        stacklevel=4,
    )
    return exported


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor, tensor]) if tensor.dim() and tensor.shape[0] == 1 else tensor


def _batches(given: Any, batch: Any) -> torch.export.ShapesCollection:
    """`batch` as the first size of every tensor that has sizes."""
    shapes = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf in pytree.tree_leaves(given):
        if isinstance(leaf, torch.Tensor) and leaf.dim():
            shapes[leaf] = {0: batch}
    return shapes


def _tensors(exported: torch.export.ExportedProgram) -> Iterator[tuple[str, torch.Tensor]]:
    """The arguments that are tensors, by name."""
    specs = exported.graph_signature.input_specs
    nodes = exported.graph.find_nodes(op="placeholder")
    for spec, node in zip(specs, nodes, strict=True):
        if spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            yield node.name, node.meta["val"]


def _register_dataclasses(value: Any) -> None:
    """Have torch look into the dataclasses in `value`, as `torch.export.register_dataclass` does."""
    for leaf in pytree.tree_leaves(value):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            torch.export.register_dataclass(type(leaf))
            _register_dataclasses(leaf)


def argument_names(exported: torch.export.ExportedProgram) -> list[str | None]:
    """What torch calls the arguments that are the program's: by the parameters of the forward function."""
    return [name for name, _ in _tensors(exported)]


def result_names(exported: torch.export.ExportedProgram) -> list[str | None]:
    """What the model calls its results: keys of dicts and fields of dataclasses; None elsewhere.

    Parts of a path are joined by dots: `decoder.0` is the first of a list under `decoder`.
    """
    returned = [each for each in exported.graph_signature.output_specs if each.kind == OutputKind.USER_OUTPUT]
    names = _names_of_leaves(exported.call_spec.out_spec, len(returned))
    return [name for name, spec in zip(names, returned, strict=True) if is_result(spec)]


def _names_of_leaves(structure: pytree.TreeSpec | None, count: int) -> list[str | None]:
    names: list[str | None] = [None] * count
    if structure is None or structure.num_leaves != count:
        return names
    try:
        results = pytree.tree_unflatten(range(count), structure)
    except Exception:
        # A container of the model's that takes nothing but tensors. Names aren't worth an import.
        return names
    for path, number in _leaves(results, ()):
        if not isinstance(path[0] if path else 0, int):
            names[number] = ".".join(map(str, path))
    return names


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The numbers of results in `value`, with the keys, fields and indices under which they are."""
    if isinstance(value, int):
        yield path, value
        return
    for key, part in _parts(value):
        yield from _leaves(part, (*path, key))


def _parts(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif dataclasses.is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
    elif hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
