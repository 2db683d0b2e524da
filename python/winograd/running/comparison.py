"""The same model in ONNX Runtime or in torch."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.errors import InvalidOptionError

Array = npt.NDArray[Any]
_Call = tuple[str, Callable[[], Sequence[Array]]]


@dataclass(frozen=True)
class Peer:
    """`run` computes the model on the arguments that it was made for; `results` it returned first."""

    name: str
    run: Callable[[], Sequence[Array]]
    results: Sequence[Array]


def peer_of(path: str, arguments: Sequence[Array], threads: int) -> Peer:
    """A `.onnx` in ONNX Runtime, or a `.pt2` that `torch.export.save` wrote in torch, on these arguments.

    Raises `InvalidOptionError` for other files, those that can't be read, models that don't take these
    arguments or give anything but arrays, and where the runtime is missing.
    """
    open_peer = {".onnx": _onnxruntime, ".pt2": _torch}.get(path[path.rfind(".") :])
    if open_peer is None:
        raise InvalidOptionError(
            f"{path!r} to compare with is neither an .onnx nor a .pt2 of torch.export.save"
        )
    try:
        name, run = open_peer(path, arguments, threads)
        return Peer(name, run, [np.asarray(each) for each in run()])
    except ImportError as error:
        raise InvalidOptionError(
            f"comparing with {path!r} needs {error.name} (`pip install {error.name}`)"
        ) from None
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise InvalidOptionError(f"cannot compare with {path!r}: {reason}") from None


def relative_error(actual: Array, expected: Array) -> float:
    """The largest difference over the largest magnitude that is expected.

    Both may have the same infinity, or NaN, at an element; where only one has, it is infinite. Raises
    `InvalidOptionError` where the shapes differ.
    """
    if actual.shape != expected.shape:
        raise InvalidOptionError(
            f"an output has shape {actual.shape}, what it is compared with {expected.shape}"
        )
    found, exact = actual.astype(np.float64), expected.astype(np.float64)
    differs = (found != exact) & ~(np.isnan(found) & np.isnan(exact))
    difference = np.abs(found[differs] - exact[differs])
    if not np.isfinite(difference).all():
        return math.inf
    largest = np.abs(exact[np.isfinite(exact)]).max(initial=0.0)
    return float(difference.max(initial=0.0) / (largest or 1.0))


def _onnxruntime(path: str, arguments: Sequence[Array], threads: int) -> _Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # What is wrong it raises as well.
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    if len(names) != len(arguments):
        raise InvalidOptionError(f"it has {len(names)} input(s), the program {len(arguments)}")
    feed = dict(zip(names, arguments, strict=True))
    return f"ONNX Runtime {onnxruntime.__version__}", lambda: session.run(None, feed)


def _torch(path: str, arguments: Sequence[Array], threads: int) -> _Call:
    import torch

    torch.set_num_threads(threads)
    # Of a file that it can't read it logs a trace before it raises what is said here.
    logging.getLogger(torch.export.__name__).setLevel(logging.ERROR)
    model = torch.export.load(path).module()
    tensors = [torch.from_numpy(argument) for argument in arguments]

    def run() -> Sequence[Array]:
        with torch.inference_mode():
            leaves = torch.utils._pytree.tree_leaves(model(*tensors))
        return [leaf.numpy() for leaf in leaves]

    return f"torch {torch.__version__}", run
