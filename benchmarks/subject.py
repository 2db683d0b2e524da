"""A network with an argument for it, in the forms that tools read."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.loading.signatures import TensorSignature

Result = TypeVar("Result")
Weights = Mapping[str, npt.NDArray[np.uint8]]


@dataclass(frozen=True)
class Made(Generic[Result]):
    """What some work gave, and the seconds of processor time that it took."""

    value: Result
    seconds: float


def make(work: Callable[[], Result]) -> Made[Result]:
    """Do the work, with all the threads that it starts."""
    begin = time.process_time()
    return Made(work(), time.process_time() - begin)


class Subject:
    """A network in evaluation mode, a batch N x C x ... for it, and what both are exported to, once.

    `program` is a file written by `store_program` before: then nothing is imported by torch-mlir.
    """

    def __init__(self, model: torch.nn.Module, images: torch.Tensor, program: Path | None = None) -> None:
        self.model = model
        self.images = images
        self._program = program

    @cached_property
    def exact(self) -> tuple[npt.NDArray[Any], ...]:
        """The results in double precision."""
        with torch.inference_mode():
            return result_arrays(copy.deepcopy(self.model).double()(self.images.double()))

    @cached_property
    def imported(self) -> Made[ImportedModel]:
        """The program for IREE."""
        if self._program is not None:
            return load_program(self._program, self.model)
        from iree.winograd import import_torch

        return make(lambda: import_torch(self.model, self.images))

    @cached_property
    def onnx(self) -> Made[bytes]:
        """The model as ONNX."""
        return make(lambda: _to_onnx(self.model, self.images, dynamo=False))

    @cached_property
    def dynamo_onnx(self) -> Made[bytes]:
        """The same by the exporter of captured graphs."""
        return make(lambda: _to_onnx(self.model, self.images, dynamo=True))

    def error(self, results: tuple[npt.NDArray[Any], ...]) -> float:
        """The largest difference from `exact` over its largest magnitude, of the worst result.

        Raises ValueError for results of other shapes.
        """
        if [result.shape for result in results] != [exact.shape for exact in self.exact]:
            shapes = [result.shape for result in results]
            raise ValueError(f"expected results of {[exact.shape for exact in self.exact]}, got {shapes}")
        # Unlike Python's, numpy's maximum of numbers with a NaN among them is NaN.
        errors = [
            np.abs(result - exact).max() / np.abs(exact).max()
            for result, exact in zip(results, self.exact, strict=True)
        ]
        return float(np.max(errors))


def result_arrays(results: Any) -> tuple[npt.NDArray[Any], ...]:
    """The tensors of what a model returned, a tensor or nested containers of them."""
    leaves = torch.utils._pytree.tree_leaves(results)
    return tuple(leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _to_onnx(model: torch.nn.Module, images: torch.Tensor, *, dynamo: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        settings: dict[str, Any] = {"external_data": False, "verbose": False} if dynamo else {}
        torch.onnx.export(model, (images,), path, dynamo=dynamo, input_names=["images"], **settings)
        return path.read_bytes()


def store_program(imported: Made[ImportedModel], model: torch.nn.Module, path: Path) -> None:
    """Write what `model` was imported as to a file of this format, without the weights that `model` has.

    It is a ZIP archive of the program, those weights that aren't the model's own, and `signature.json`.
    """
    names = {_digest(tensor): name for name, tensor in _state(model).items()}
    source = imported.value
    owned = {weight: names.get(_digest(array)) for weight, array in source.weights.items()}
    signature = {
        "seconds": imported.seconds,
        "entry": source.entry,
        "inputs": [asdict(tensor) for tensor in source.inputs],
        "outputs": [asdict(tensor) for tensor in source.outputs],
        "weights": owned,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("signature.json", json.dumps(signature))
        archive.writestr("program.mlirbc", source.program)
        for weight, array in source.weights.items():
            if owned[weight] is None:
                buffer = io.BytesIO()
                np.save(buffer, array)
                archive.writestr(f"{weight}.npy", buffer.getvalue())


def load_program(path: Path, model: torch.nn.Module) -> Made[ImportedModel]:
    """What `store_program` wrote, with the weights of `model`."""
    state = _state(model)
    with zipfile.ZipFile(path) as archive:
        signature = json.loads(archive.read("signature.json"))

        def weight(name: str, owner: str | None) -> npt.NDArray[np.uint8]:
            if owner is not None:
                return state[owner]
            stored: npt.NDArray[np.uint8] = np.load(io.BytesIO(archive.read(f"{name}.npy")))
            return stored

        imported = ImportedModel(
            program=archive.read("program.mlirbc"),
            weights={name: weight(name, owner) for name, owner in signature["weights"].items()},
            entry=signature["entry"],
            inputs=_signatures(signature["inputs"]),
            outputs=_signatures(signature["outputs"]),
        )
    return Made(imported, signature["seconds"])


def _signatures(records: list[dict[str, Any]]) -> tuple[TensorSignature, ...]:
    return tuple(TensorSignature(tuple(record["shape"]), record["element_type"]) for record in records)


def _state(model: torch.nn.Module) -> Weights:
    """The bytes of all parameters and buffers by name."""
    return {
        name: np.ascontiguousarray(tensor.detach().numpy()).reshape(-1).view(np.uint8)
        for name, tensor in model.state_dict().items()
    }


def _digest(array: npt.NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array)).hexdigest()
