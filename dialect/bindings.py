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
    llvm,
    math,
    memref,
    nvvm,
    scf,
    stream,
    tensor,
    util,
    vector,
)
from iree.compiler.dialects._ods_common import _cext as dialect_registry
from iree.compiler.passmanager import PassManager

CREATED_DIALECTS = tuple(
    module.__name__.rpartition(".")[2]
    for module in (
        affine,
        arith,
        flow,
        func,
        gpu,
        linalg,
        llvm,
        math,
        memref,
        nvvm,
        scf,
        stream,
        tensor,
        util,
        vector,
    )
)
"""The names of all dialects that are imported here, of which passes create operations."""

__all__ = [
    "CREATED_DIALECTS",
    "PassManager",
    "affine",
    "arith",
    "dialect_registry",
    "flow",
    "func",
    "gpu",
    "ir",
    "linalg",
    "llvm",
    "math",
    "memref",
    "nvvm",
    "scf",
    "stream",
    "tensor",
    "util",
    "vector",
]
