"""Files that commands are given, looked at before work on them begins."""

from __future__ import annotations

import os

from iree.winograd.atomic_file import STANDARD_STREAM

_COMPILED = ".vmfb"
_EXPORTED = ".pt2"
_OTHERS = {
    ".pt": "torch",
    ".pth": "torch",
    ".safetensors": "torch",
    ".tflite": "TensorFlow",
    ".pb": "TensorFlow",
    ".h5": "TensorFlow",
    ".keras": "TensorFlow",
    ".py": "Python",
}
"""What files of these names are of."""


def input_problem(path: str) -> str | None:
    """Why there is no program to compile in a file, and what helps; None where there may be one."""
    if path == STANDARD_STREAM:
        return None
    if os.path.isdir(path):
        return f"'{path}' is a folder"
    if not os.path.exists(path):
        return f"cannot open '{path}': No such file or directory"
    if path.endswith(_COMPILED):
        return f"'{path}' is compiled already: `iree-winograd run {path}` calls it"
    if path.endswith(_EXPORTED):
        return (
            f"'{path}' is what torch exported: compile it in Python, as "
            f"winograd.compile(winograd.import_torch(torch.export.load({path!r})), output='FILE.vmfb')"
        )
    if other := _OTHERS.get(os.path.splitext(path)[1]):
        return f"'{path}' is of {other}, neither MLIR nor ONNX: export the model to one of these"
    return None
