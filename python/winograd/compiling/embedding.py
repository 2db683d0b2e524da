"""The part of IREE's compiler C API (`embedding_api.h`) that its Python package doesn't wrap."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from iree.compiler import api
from iree.compiler.api import ctypes_dl
from iree.winograd.compiling.diagnostics import parse_diagnostics
from iree.winograd.diagnostic import Diagnostic, Severity
from iree.winograd.dialect.bindings import c_library, c_pointer

_library = ctypes_dl._dylib

# The compiler keeps pointers to the strings of a command line.
_command_lines: list[ctypes.Array[ctypes.c_char_p]] = []

_EXIT_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SPLIT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_DIAGNOSTIC_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

# enum iree_compiler_diagnostic_severity_t
_SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error", "remark")

# Constants in a context refer to Python objects.
_destroy_context = c_library.mlirContextDestroy
_destroy_context.restype = None
_destroy_context.argtypes = [ctypes.c_void_p]

for _name, _result, _arguments in (
    ("ireeCompilerInvocationSetCompileFromPhase", None, [ctypes.c_void_p, ctypes.c_char_p]),
    ("ireeCompilerInvocationSetCompileToPhase", None, [ctypes.c_void_p, ctypes.c_char_p]),
    ("ireeCompilerInvocationSetDumpCompilationPhasesTo", None, [ctypes.c_void_p, ctypes.c_char_p]),
    ("ireeCompilerInvocationSetVerifyIR", None, [ctypes.c_void_p, ctypes.c_bool]),
    ("ireeCompilerOutputOpenFD", ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]),
    ("ireeCompilerInvocationOutputVMCSource", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]),
    ("ireeCompilerSourceSplit", ctypes.c_void_p, [ctypes.c_void_p, _SPLIT_CALLBACK, ctypes.c_void_p]),
    (
        "ireeCompilerSetupGlobalCL",
        None,
        [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool],
    ),
    (
        "ireeCompilerInvocationEnableCallbackDiagnostics",
        None,
        [ctypes.c_void_p, ctypes.c_int, _DIAGNOSTIC_CALLBACK, ctypes.c_void_p],
    ),
):
    _function = getattr(_library, _name)
    _function.restype = _result
    _function.argtypes = _arguments


_LAST_STANDARD_STREAM = 2


def stock_tool(name: str) -> Path:
    """The binary `name` that the IREE compiler package ships."""
    suffix = ".exe" if sys.platform == "win32" else ""
    return Path(ctypes_dl.__file__).parents[1] / "_mlir_libs" / f"{name}{suffix}"


def setup_command_line(program: str, flags: Sequence[str], refused: Callable[[], NoReturn]) -> None:
    """Parse `flags` as those of every later session.

    IREE ends the process when it can't, or when a flag asks for its version. What it prints then is left out,
    and `refused` is called, which must not return. On Windows, whose C library forgets no handler, it says
    why itself.
    """
    if sys.platform == "win32":
        _parse_command_line(program, flags)
        return
    streams = {number: copy for number in (1, 2) if (copy := _copied_stream(number)) is not None}
    null = os.open(os.devnull, os.O_WRONLY)
    is_parsing = True

    def restore_streams() -> None:
        for number, former in streams.items():
            os.dup2(former, number)
            os.close(former)

    @_EXIT_HANDLER
    def leave(argument: int) -> None:
        if is_parsing:
            restore_streams()
            refused()

    owner = ctypes.addressof(leave)
    add_exit_handler, call_exit_handlers = _exit_functions()
    add_exit_handler(leave, None, owner)
    for number in streams:
        os.dup2(null, number)
    os.close(null)
    _parse_command_line(program, flags)
    is_parsing = False
    restore_streams()
    # Python is gone by then.
    call_exit_handlers(owner)


def _exit_functions() -> tuple[Any, Any]:
    """Adds what the C library calls when the process ends; has it call, and forget, that of an owner."""
    library = ctypes.PyDLL(None)
    add, call = library["__cxa_atexit"], library["__cxa_finalize"]
    add.argtypes = [_EXIT_HANDLER, ctypes.c_void_p, ctypes.c_void_p]
    call.restype = None
    call.argtypes = [ctypes.c_void_p]
    return add, call


def _copied_stream(number: int) -> int | None:
    """Another file descriptor of a stream, none of the standard ones; None where that is closed."""
    standard: list[int] = []
    try:
        while (copy := os.dup(number)) <= _LAST_STANDARD_STREAM:
            standard.append(copy)
    except OSError:
        return None
    finally:
        for each in standard:
            os.close(each)
    return copy


def _parse_command_line(program: str, flags: Sequence[str]) -> None:
    encoded = [os.fsencode(argument) for argument in (program, *flags)]
    arguments = (ctypes.c_char_p * (len(encoded) + 1))(*encoded)
    _command_lines.append(arguments)
    _library.ireeCompilerSetupGlobalCL(
        len(encoded), ctypes.byref(arguments), b"IREE compilation driver\n", True
    )


def set_phases(invocation: api.Invocation, compile_from: str, compile_to: str) -> None:
    """Run `invocation` from after phase `compile_from` to the end of phase `compile_to`."""
    _library.ireeCompilerInvocationSetCompileFromPhase(invocation._inv_p, compile_from.encode())
    _library.ireeCompilerInvocationSetCompileToPhase(invocation._inv_p, compile_to.encode())


def set_dump_directory(invocation: api.Invocation, directory: str) -> None:
    """Write the program after each phase of `invocation` to `directory`."""
    _library.ireeCompilerInvocationSetDumpCompilationPhasesTo(invocation._inv_p, directory.encode())


def set_verify(invocation: api.Invocation, verify: bool) -> None:
    """Whether passes of `invocation` are followed by the verifier."""
    _library.ireeCompilerInvocationSetVerifyIR(invocation._inv_p, verify)


def report_diagnostics(invocation: api.Invocation, report: Callable[[Diagnostic], None]) -> None:
    """Send the diagnostics of `invocation`, each followed by its notes, to `report` as long as it is open.

    To be called before the invocation gets its program. Handlers in Python's bindings of MLIR would do the
    same, but they touch Python objects without holding the interpreter's lock while the C API runs.
    """

    @_DIAGNOSTIC_CALLBACK
    def receive(severity: int, text: int, size: int, user_data: int) -> None:
        message = ctypes.string_at(text, size).decode(errors="replace")
        for diagnostic in parse_diagnostics(_SEVERITIES[severity], message):
            report(diagnostic)

    # The C side doesn't keep the callback alive.
    invocation.diagnostic_callback = receive
    _library.ireeCompilerInvocationEnableCallbackDiagnostics(invocation._inv_p, 0, receive, None)


def close_invocation(invocation: api.Invocation) -> None:
    """Close `invocation`, and let go of the module that it was given or gave."""
    invocation.close()
    invocation._retained_module_op = None


def close_session(session: api.Session) -> None:
    """Close `session` and free its context, to which all invocations' modules belong.

    IREE's Python package takes the context over from the session and never frees it, nor the constants of
    all programs in it. Here it stays only while objects in Python refer to it. A process that has turned the
    collector of these off, as one does that ends when it has compiled, keeps it.
    """
    session.close()
    context, session._owned_context = session._owned_context, None
    if context is None:
        return
    # What one variable counts as depends on the version of Python.
    probe = object()
    if sys.getrefcount(context) > sys.getrefcount(probe) and gc.isenabled():
        gc.collect()
    if sys.getrefcount(context) > sys.getrefcount(probe):
        return
    pointer = c_pointer(context)
    del context
    _destroy_context(pointer)


def write_c_source(invocation: api.Invocation, output: api.Output) -> None:
    """Write the program of `invocation` as C source. Raises ValueError when that fails."""
    _raise_on_error(_library.ireeCompilerInvocationOutputVMCSource(invocation._inv_p, output._output_p))


def open_standard_output() -> api.Output:
    """The standard output of the process, written when it is closed. Raises ValueError when that fails."""
    pointer = ctypes.c_void_p()
    _raise_on_error(_library.ireeCompilerOutputOpenFD(1, ctypes.byref(pointer)))
    return api.Output(pointer)


def split_source(session: api.Session, source: api.Source) -> list[api.Source]:
    """The parts of `source` between `// -----` lines. Raises ValueError when that fails."""
    pointers: list[int] = []

    @_SPLIT_CALLBACK
    def collect(part: int, user_data: int) -> None:
        pointers.append(part)

    _raise_on_error(_library.ireeCompilerSourceSplit(source._source_p, collect, None))
    return [api.Source(session, pointer, source) for pointer in pointers]


def _raise_on_error(error: int | None) -> None:
    ctypes_dl._handle_error(error)
