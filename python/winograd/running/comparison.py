"""The same model in ONNX Runtime or in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import InvalidOptionError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Peer:
    """`run` computes the model on the arguments that it was made for."""

    name: str
    run: Callable[[], Sequence[Array]]


def peer_of(path: str, arguments: Sequence[Array], threads: int) -> Peer:
    """A `.onnx` in ONNX Runtime, or a `.pt2` that `torch.export.save` wrote in torch, on these arguments.

    Raises `InvalidOptionError` for other files, those that can't be read, and where the runtime is missing.
    """
    open_peer = {".onnx": _onnxruntime, ".pt2": _torch}.get(path[path.rfind(".") :])
    if open_peer is None:
        raise InvalidOptionError(
            f"{path!r} to compare with is neither an .onnx nor a .pt2 of torch.export.save"
        )
    try:
        return open_peer(path, arguments, threads)
    except ImportError as error:
        raise InvalidOptionError(
            f"comparing with {path!r} needs {error.name} (`pip install {error.name}`)"
        ) from None
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InvalidOptionError(f"cannot compare with {path!r}: {reason}") from None


def relative_error(actual: Array, expected: Array) -> float:
    """The largest difference over the largest magnitude that is expected.

    Raises `InvalidOptionError` where the shapes differ.
    """
    if actual.shape != expected.shape:
        raise InvalidOptionError(
            f"an output has shape {actual.shape}, what it is compared with {expected.shape}"
        )
    if actual.size == 0:
        return 0.0
    difference = np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max()
    return float(difference / (np.abs(expected.astype(np.float64)).max() or 1.0))


def _onnxruntime(path: str, arguments: Sequence[Array], threads: int) -> Peer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = dict(zip((each.name for each in session.get_inputs()), arguments, strict=True))
    return Peer(f"ONNX Runtime {onnxruntime.__version__}", lambda: session.run(None, feed))


def _torch(path: str, arguments: Sequence[Array], threads: int) -> Peer:
    import torch

    torch.set_num_threads(threads)
    model = torch.export.load(path).module()
    tensors = [torch.from_numpy(argument) for argument in arguments]

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            leaves = torch.utils._pytree.tree_leaves(model(*tensors))
        return [leaf.numpy() for leaf in leaves]

    return Peer(f"torch {torch.__version__}", run)
