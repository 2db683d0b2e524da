"""The MLIR Python bindings of IREE's compiler: the only file of the project that imports them."""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import (
    affine,
    arith,
    flow,
    func,
    gpu,
    linalg,
    math,
    memref,
    scf,
    stream,
    tensor,
    util,
    vector,
)
from iree.compiler.dialects._ods_common import _cext as dialect_registry
from iree.compiler.passmanager import PassManager

__all__ = [
    "PassManager",
    "affine",
    "arith",
    "dialect_registry",
    "flow",
    "func",
    "gpu",
    "ir",
    "linalg",
    "math",
    "memref",
    "scf",
    "stream",
    "tensor",
    "util",
    "vector",
]
