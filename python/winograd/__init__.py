"""Fast convolutions for MLIR and IREE: Winograd rewrites and kernels on the stock IREE wheels."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.winograd.compiling.program import LeftWarning, RewriteWarning, TuningDatabaseWarning, compile
    from iree.winograd.errors import (
        CallError,
        CompilationError,
        InvalidOptionError,
        LoadError,
        ModelImportError,
        TuningError,
        WinogradError,
    )
    from iree.winograd.importers.batch_warning import BatchWarning
    from iree.winograd.importers.import_model import import_onnx, import_torch
    from iree.winograd.importers.imported_model import ImportedModel
    from iree.winograd.importers.size_warning import SizeWarning
    from iree.winograd.loading.runtime import ThreadsWarning, load
    from iree.winograd.pipelines.selection.options import WinogradOptions
    from iree.winograd.specializing.specialization import Specialization, SpecializationWarning
    from iree.winograd.targets import target_flags
    from iree.winograd.torch_compile.explain import explain
    from iree.winograd.torch_compile.explanation import Explanation
    from iree.winograd.torch_compile.fallback_warning import FallbackWarning
    from iree.winograd.torch_compile.guards import fewer_guards
    from iree.winograd.tuning.tuner import TunedLayer, tune

__version__ = "0.2.0.dev0"

__all__ = [
    "BatchWarning",
    "CallError",
    "CompilationError",
    "Explanation",
    "FallbackWarning",
    "ImportedModel",
    "InvalidOptionError",
    "LeftWarning",
    "LoadError",
    "ModelImportError",
    "RewriteWarning",
    "SizeWarning",
    "Specialization",
    "SpecializationWarning",
    "ThreadsWarning",
    "TunedLayer",
    "TuningDatabaseWarning",
    "TuningError",
    "WinogradError",
    "WinogradOptions",
    "compile",
    "explain",
    "fewer_guards",
    "import_onnx",
    "import_torch",
    "load",
    "target_flags",
    "tune",
]

_MODULES = {
    **dict.fromkeys((name for name in __all__ if name.endswith("Error")), "iree.winograd.errors"),
    "BatchWarning": "iree.winograd.importers.batch_warning",
    "ImportedModel": "iree.winograd.importers.imported_model",
    "SizeWarning": "iree.winograd.importers.size_warning",
    **dict.fromkeys(("import_onnx", "import_torch"), "iree.winograd.importers.import_model"),
    **dict.fromkeys(
        ("LeftWarning", "RewriteWarning", "TuningDatabaseWarning", "compile"),
        "iree.winograd.compiling.program",
    ),
    "WinogradOptions": "iree.winograd.pipelines.selection.options",
    **dict.fromkeys(("Specialization", "SpecializationWarning"), "iree.winograd.specializing.specialization"),
    "Explanation": "iree.winograd.torch_compile.explanation",
    "explain": "iree.winograd.torch_compile.explain",
    "FallbackWarning": "iree.winograd.torch_compile.fallback_warning",
    "fewer_guards": "iree.winograd.torch_compile.guards",
    **dict.fromkeys(("ThreadsWarning", "load"), "iree.winograd.loading.runtime"),
    "target_flags": "iree.winograd.targets",
    **dict.fromkeys(("TunedLayer", "tune"), "iree.winograd.tuning.tuner"),
}


def __getattr__(name: str) -> object:
    # On first use: the algebra needs no compiler, and loading a program needs none either.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
