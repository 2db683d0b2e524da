"""The version of the kernels: measurements of one version say nothing about another."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import iree.winograd.dialect
import iree.winograd.passes
import iree.winograd.pipelines
from iree.compiler import version as compiler_version
from iree.winograd.pipelines.backends.module_backend import backends

from .imported_names import imported_names

_PACKAGE = "iree.winograd."
_FOLDERS = {
    "dialect": Path(iree.winograd.dialect.__file__).parent,
    "passes": Path(iree.winograd.passes.__file__).parent,
    "pipelines": Path(iree.winograd.pipelines.__file__).parent,
}
_DATA = ("*.json", "*.mlir")


@cache
def kernel_version() -> str:
    """IREE's version and a digest of the sources that determine the code of kernels.

    Those are the lowerings of the backends and all that they import. Rules and cost models, which choose
    among implementations, aren't among them: what was measured of one stays true when they change.
    The version of this package isn't part of it: kernels may be the same in two of them.
    """
    digest = hashlib.sha256()
    for name, path in sorted(kernel_sources().items()):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return f"iree {compiler_version.VERSION}, kernels {digest.hexdigest()[:12]}"


def kernel_sources() -> dict[str, Path]:
    """The sources that emit kernels, and data beside them, by their names relative to the source roots."""
    pending = [f"{backend.__module__.rpartition('.')[0]}.lowering" for backend in backends()]
    found: dict[str, Path] = {}
    while pending:
        module = pending.pop()
        path = _source(module)
        if path is None or _name(path) in found:
            continue
        found[_name(path)] = path
        pending += imported_names(module, path, ast.walk(ast.parse(path.read_bytes())))
    folders = {path.parent for path in found.values()}
    data = {path for folder in folders for pattern in _DATA for path in folder.glob(pattern)}
    return found | {_name(path): path for path in data}


def _source(module: str) -> Path | None:
    """The file of a module of this project; None for what is no module."""
    if not module.startswith(_PACKAGE):
        return None
    folder, *rest = module.removeprefix(_PACKAGE).split(".")
    if folder not in _FOLDERS:
        return None
    path = _FOLDERS[folder].joinpath(*rest)
    candidates = (path.with_suffix(".py"), path / "__init__.py") if rest else (path / "__init__.py",)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _name(path: Path) -> str:
    (name,) = (
        f"{folder}/{path.relative_to(root).as_posix()}"
        for folder, root in _FOLDERS.items()
        if path.is_relative_to(root)
    )
    return name
