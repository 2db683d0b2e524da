"""The packages that this one works with."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from .finding import Finding

_IREE = "3.13."
_REQUIRED = ("iree-winograd", "iree-base-compiler", "iree-base-runtime", "numpy")
_OPTIONAL = {
    "torch": "torch models",
    "torch-mlir": "torch models",
    "onnx": "ONNX models",
    "onnxruntime": "iree-winograd run --compare",
    "optuna": "iree-winograd tune",
    "distributed": "iree-winograd tune on several machines",
}


def package_findings() -> Iterator[Finding]:
    """Of each package its version, or what it is missed for."""
    for name in _REQUIRED:
        found = installed_version(name)
        if found is None:
            yield Finding(name, "not installed", "pip install --force-reinstall iree-winograd")
        elif name.startswith("iree-base-") and not found.startswith(_IREE):
            yield Finding(name, f"{found}, not {_IREE}*", f"pip install '{name}=={_IREE}*'")
        else:
            yield Finding(name, found)
    for name, purpose in _OPTIONAL.items():
        found = installed_version(name)
        yield Finding(name, found or f"not installed; {purpose} would need it", present=found is not None)
    if installed_version("torch") and not installed_version("torch-mlir"):
        yield Finding("torch-mlir", "missing beside torch", "pip install 'iree-winograd[torch]'")


def installed_version(name: str) -> str | None:
    """The version of a package; None where it isn't installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
