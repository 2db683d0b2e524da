"""The MLIR Python bindings of IREE's compiler: the only file of the project that imports them."""

from __future__ import annotations

import ctypes
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from iree.compiler import ir
from iree.compiler._mlir_libs import _mlirDialectsLinalg as linalg_structure
from iree.compiler.api import ctypes_dl
from iree.compiler.dialects import _linalg_ops_gen as linalg
from iree.compiler.dialects import (
    arith,
    func,
    memref,
    scf,
    tensor,
    vector,
)
from iree.compiler.dialects._ods_common import _cext as dialect_registry
from iree.compiler.passmanager import PassManager

if TYPE_CHECKING:
    from iree.compiler.dialects import gpu, iree_codegen, iree_gpu, llvm, math, nvvm

c_library = ctypes.PyDLL(ctypes_dl._dylib._name)
"""MLIR's C API, called with the interpreter's lock held: what it does may refer to Python objects."""

_LINALG = "iree.compiler.dialects.linalg"
if _LINALG not in sys.modules:
    # This package also has a language for new operations, whose import takes as long as all else here. MLIR
    # would import that for the class of the first operation of the dialect's that it meets, which is here.
    sys.modules[_LINALG] = linalg
    dialect_registry.globals._check_dialect_module_loaded("linalg")
    del sys.modules[_LINALG]

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_DEFERRED = ("gpu", "llvm", "math", "nvvm")
"""Those that are imported where they are used: by kernels for GPUs, and `math` by that of layer normalization
and by programs of tests."""
_DEFERRED_ATTRIBUTES = ("iree_codegen", "iree_gpu")
"""Those of which passes read and write attributes, imported where they do."""

CREATED_DIALECTS = (
    *(module.__name__.rpartition(".")[2] for module in (arith, func, memref, scf, tensor, vector)),
    *_DEFERRED,
    *("affine", "flow", "iree_linalg_ext", "linalg", "stream", "util"),
)
"""The names of all dialects of which passes create operations, those without a class by their names."""


def c_pointer(wrapper: Any) -> int:
    """The address in MLIR's C API of what `wrapper`, a context or an operation, stands for."""
    capsule = wrapper._CAPIPtr
    return int(_capsule_pointer(capsule, _capsule_name(capsule)))


def import_no_other_dialects() -> None:
    """In this process, have MLIR import no module of Python's for operations that it meets.

    It would import that of the operation's dialect, for a class that nothing here asks for: those for LLVM's
    and the hardware abstraction layer's alone take as long as all that are imported here.
    """
    dialect_registry.globals.dialect_search_modules = []


def __getattr__(name: str) -> Any:
    if name not in (*_DEFERRED, *_DEFERRED_ATTRIBUTES):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"iree.compiler.dialects.{name}")


__all__ = [
    "CREATED_DIALECTS",
    "PassManager",
    "arith",
    "c_library",
    "c_pointer",
    "dialect_registry",
    "func",
    "gpu",
    "import_no_other_dialects",
    "ir",
    "iree_codegen",
    "iree_gpu",
    "linalg",
    "linalg_structure",
    "llvm",
    "math",
    "memref",
    "nvvm",
    "scf",
    "tensor",
    "vector",
]
