"""Files that commands are given, looked at before work on them begins."""

from __future__ import annotations

import os

from iree.winograd.atomic_file import STANDARD_STREAM

_COMPILED = ".vmfb"
_TORCH = (".pt", ".pt2", ".pth", ".safetensors")


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
    if path.endswith(_TORCH):
        return (
            f"'{path}' holds a model of torch: take that in Python, by winograd.import_torch, or export it "
            "to ONNX"
        )
    return None
