"""The version of the kernels: measurements of one version say nothing about another."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import iree.winograd.dialect
import iree.winograd.passes
import iree.winograd.pipelines
from iree.compiler import version as compiler_version

_FOLDERS = {
    "dialect": Path(iree.winograd.dialect.__file__).parent,
    "passes": Path(iree.winograd.passes.__file__).parent,
    "pipelines": Path(iree.winograd.pipelines.__file__).parent,
}
_SUFFIXES = (".json", ".mlir", ".py")
ONLY_CHOOSING = frozenset(
    {
        "pipelines/cpu/cost_model.py",
        "pipelines/cpu/schedule_space.py",
        "pipelines/cpu/search_space.py",
        "pipelines/gpu/cost_model.py",
        "pipelines/gpu/default_schedule.py",
        "pipelines/gpu/fused_cost.py",
        "pipelines/gpu/search_space.py",
    }
)
"""Sources that choose among implementations, as all of this folder do.

What was measured of one implementation stays true when they change.
"""


@cache
def kernel_version() -> str:
    """IREE's version and a digest of the sources that determine the code of kernels.

    The version of this package isn't part of it: kernels may be the same in two of them.
    """
    digest = hashlib.sha256()
    for name, path in _sources().items():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return f"iree {compiler_version.VERSION}, kernels {digest.hexdigest()[:12]}"


def _sources() -> dict[str, Path]:
    """The files that determine kernels, by their names relative to the source roots."""
    found = {
        f"{folder}/{path.relative_to(root).as_posix()}": path
        for folder, root in _FOLDERS.items()
        for path in root.rglob("*")
        if path.suffix in _SUFFIXES
    }
    return {
        name: found[name]
        for name in sorted(found)
        if name not in ONLY_CHOOSING and not name.startswith("pipelines/selection/")
    }
