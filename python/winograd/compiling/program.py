"""`compile`: programs in the forms that users have them in, to what `iree.runtime` runs."""

from __future__ import annotations

import io
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, overload

from iree.compiler import api
from iree.winograd.atomic_file import atomic_file, unnamed_file
from iree.winograd.compiling.compilation import Compilation, session_flags
from iree.winograd.compiling.input_type import input_type_flags
from iree.winograd.compiling.keyword_options import make_options
from iree.winograd.compiling.model_source import open_model
from iree.winograd.compiling.option_files import check_option_files
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.temporary_folder import check_temporary_folder
from iree.winograd.compiling.unknown_target import find_unknown_target
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError, InvalidOptionError
from iree.winograd.importers.import_model import import_onnx, import_torch, is_onnx
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.report.file import REPORT_FILES, ReportFileError, is_report_path
from iree.winograd.targets import spelled_out, target_flags


class Module(Protocol):
    """A program in any bindings of MLIR: IREE's, torch-mlir's, jax's."""

    @property
    def operation(self) -> Any: ...


class Exported(Protocol):
    """A program that another exporter made of a model, as iree-turbine's `aot.export` does."""

    @property
    def mlir_module(self) -> Module: ...


class ExportedByJax(Protocol):
    """A program of `jax.export`'s."""

    def mlir_module(self) -> str: ...


if TYPE_CHECKING:
    from torch.export import ExportedProgram

Source: TypeAlias = (
    "str | bytes | os.PathLike[str] | ImportedModel | ExportedProgram | Exported | ExportedByJax | Module"
)

_BYTECODE_MAGIC = b"ML\xefR"
_OWN_FLAGS = ("iree-winograd-", "iree-enable-winograd")


class RewriteWarning(UserWarning):
    """A pass of this project failed on a part of a program, or all of it, which was left as it is."""


class LeftWarning(UserWarning):
    """Convolutions are left to IREE at several times the cost, for a reason that a user can end."""


class TuningDatabaseWarning(UserWarning):
    """A program was compiled without the measurements in a tuning database, because it is damaged."""


@overload
def compile(
    source: Source,
    *,
    target: str = "cpu",
    output: None = None,
    flags: Sequence[str] = (),
    enable_winograd: bool = True,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes: ...


@overload
def compile(
    source: Source,
    *,
    target: str = "cpu",
    output: str | os.PathLike[str],
    flags: Sequence[str] = (),
    enable_winograd: bool = True,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> None: ...


def compile(
    source: Source,
    *,
    target: str = "cpu",
    output: str | os.PathLike[str] | None = None,
    flags: Sequence[str] = (),
    enable_winograd: bool = True,
    report: str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes | None:
    """Compile `source` for `target`; returns the `.vmfb`, or writes it to the file `output`.

    `source` is what `import_torch`, `import_onnx` or `torch.export.export` returned, what iree-turbine's
    `aot.export` or `jax.export` did or another object with an `mlir_module`, a module of IREE's bindings of
    MLIR or of others, such as torch-mlir's, MLIR text or bytecode as `bytes`, the path of such a file or of
    an `.onnx`, or a `str`: MLIR text if it has more than one line, else a path. `target` is described at
    `target_flags`; `flags` are more flags of `iree-compile`, later ones taking precedence.
    `options` are the fields of `WinogradOptions`. With `enable_winograd=False` the program goes through stock
    IREE. The file `report`, `.json` or `.html`, is to say what each layer could have become, and why it
    became what it did (docs/reference/report.md).

    Warns with `RewriteWarning` of each convolution or fusion that a pass of this project failed on, and that
    was left as it is, with `LeftWarning`, once, where convolutions are left at several times the cost since
    their sizes are known only at run time, which says what to do about it (a line among remarks, where these
    are asked for), and with `TuningDatabaseWarning` when the tuning database is damaged. Raises
    `InvalidOptionError` for options, flags or targets that aren't known, a tuning database or machine that
    isn't there, and `CompilationError`, which holds the compiler's diagnostics, when `source`, `output` or
    `report` can't be opened, `source` doesn't compile, or has convolutions and there are no kernels for
    `target`, and with `strict` when a pass failed; for a model that is imported also what `import_onnx` or
    `import_torch` raises, and TypeError for a `source` that is nothing of these.
    """
    checked_options = make_options(WinogradOptions, options)
    if report is not None:
        _check_report(report, enable_winograd)
    if isinstance(source, ImportedModel) and not checked_options.size_hint:
        checked_options = replace(checked_options, size_hint=source.size_hint)
    winograd_options = checked_options if enable_winograd else None
    if winograd_options is not None:
        damage: list[str] = []
        check_option_files(winograd_options, damage.append)
        for message in damage:
            warnings.warn(message, TuningDatabaseWarning, stacklevel=2)
    if isinstance(flags, str):
        raise InvalidOptionError(f"flags must be a list of them, got the text {flags!r}")
    all_flags = (*target_flags(target), *flags)
    failures: list[Diagnostic] = []
    left: list[Diagnostic] = []
    try:
        if output is not None:
            _compile_file(source, output, all_flags, winograd_options, report, failures, left)
            return None
        with unnamed_file() as path:
            _compile_file(source, path, all_flags, winograd_options, report, failures, left)
            return Path(path).read_bytes()
    finally:
        # From here, whichever depth they were found in, the line is the caller's.
        for failure in failures:
            warnings.warn(failure.format(), RewriteWarning, stacklevel=2)
        for each in left:
            warnings.warn(each.message, LeftWarning, stacklevel=2)


def _check_report(path: str | os.PathLike[str], enable_winograd: bool) -> None:
    if not enable_winograd:
        raise InvalidOptionError("a report is on what this project does, which needs enable_winograd=True")
    if not is_report_path(path):
        raise InvalidOptionError(f"report must be {REPORT_FILES}, got {os.fspath(path)!r}")


def open_session(flags: tuple[str, ...], options: WinogradOptions | None) -> api.Session:
    """A session of the compiler with `flags` and those that `options` imply.

    Raises `InvalidOptionError` for flags and targets that aren't known, and for flags of ours, and
    `CompilationError` where the compiler can't write temporary files.
    """
    check_temporary_folder()
    if strange := next((flag for flag in flags if not isinstance(flag, str)), None):
        raise InvalidOptionError(f"flags must be texts, got {strange!r}")
    if own := next((flag for flag in flags if flag.lstrip("-").startswith(_OWN_FLAGS)), None):
        raise InvalidOptionError(f"{own} is a flag of the command: in Python it is an option, a keyword")
    session = api.Session()
    flags = spelled_out(flags)
    implied = () if options is None else session_flags(options)
    try:
        session.set_flags(*implied, *flags)
    except ValueError as error:
        raise InvalidOptionError(" ".join(str(error).split())) from None
    if unknown := find_unknown_target(flags):
        raise InvalidOptionError(unknown)
    return session


def compilation_error(diagnostics: Sequence[Diagnostic]) -> CompilationError:
    """What to raise after a compilation that gave these diagnostics, in the words of its first error."""
    errors = [diagnostic.format() for diagnostic in diagnostics if diagnostic.severity == "error"]
    return CompilationError(errors[0] if errors else "the compiler failed without a diagnostic", diagnostics)


def _compile_file(
    source: Source,
    output: str | os.PathLike[str],
    flags: tuple[str, ...],
    options: WinogradOptions | None,
    report: str | os.PathLike[str] | None,
    failures: list[Diagnostic],
    left: list[Diagnostic],
) -> None:
    """Compile `source` to `output`; `failures` are added what passes failed on, `left` what is left."""
    diagnostics: list[Diagnostic] = []
    has_remarks = options is not None and options.remarks
    with Compilation(
        open_session(flags, options),
        options,
        Stages(),
        report=diagnostics.append,
        warn=failures.append,
        warn_of_left=_print if has_remarks else left.append,
    ) as compilation:
        if has_remarks:
            compilation.capture_remarks(_print)
        try:
            with compilation.reporting(report, _name(source)):
                _write(_compile_source(compilation, source, flags, diagnostics), output, diagnostics)
        except ReportFileError as error:
            raise CompilationError(str(error)) from None


def _name(source: Source) -> str | None:
    """What a report calls a program: the file that it is in."""
    is_file = isinstance(source, os.PathLike) or (isinstance(source, str) and "\n" not in source)
    return os.fspath(source) if is_file else None  # type: ignore[arg-type]


def _print(diagnostic: Diagnostic) -> None:
    print(diagnostic.format(), file=sys.stderr)


def _compile_source(
    compilation: Compilation, source: Source, flags: Sequence[str], diagnostics: Sequence[Diagnostic]
) -> api.Invocation:
    try:
        invocation = compilation.compile(open_source(compilation, source, flags))
    finally:
        compilation.context.finalize_remarks()
    if invocation is None:
        raise compilation_error(diagnostics)
    return invocation


def _write(
    invocation: api.Invocation, output: str | os.PathLike[str], diagnostics: Sequence[Diagnostic]
) -> None:
    # LLVM ends the process when it can't write, and its own buffer in memory grows to twice the size.
    with unnamed_file() as memory:
        with api.Output.open_file(memory) as file:
            try:
                invocation.output_vm_bytecode(file)
            except ValueError as error:
                # Of a program without functions, for one.
                raise CompilationError(f"nothing can be written: {error}", diagnostics) from None
            file.keep()
        try:
            with atomic_file(os.fspath(output)) as path:
                shutil.copyfile(memory, path)
        except OSError as error:
            message = f"cannot write output file '{os.fspath(output)}': {error.strerror}"
            raise CompilationError(message) from error


def open_source(
    compilation: Compilation, source: Source, flags: Sequence[str] = ()
) -> api.Source | ir.Operation:
    """`source` as what `compilation` compiles; `flags` are those that the user gave its session.

    Raises `CompilationError` for a file that can't be opened, and as `import_onnx` does.
    """
    if isinstance(source, ImportedModel):
        return open_model(compilation, source, flags)
    if _is_of_torch(source):
        return open_model(compilation, import_torch(source), flags)
    source = _as_text_or_bytecode(source)
    if isinstance(source, str) and "\n" in source:
        source = source.encode()
    if isinstance(source, bytes):
        compilation.session.set_flags(*input_type_flags(source, flags))
        is_bytecode = source.startswith(_BYTECODE_MAGIC)
        # IREE wants text to end with a null byte.
        return api.Source.wrap_buffer(compilation.session, source if is_bytecode else source + b"\0")
    if is_onnx(source):
        return open_model(compilation, import_onnx(source), flags)
    try:
        return api.Source.open_file(compilation.session, os.fspath(Path(source)))
    except ValueError as error:
        raise CompilationError(str(error)) from None


def _is_of_torch(source: object) -> TypeGuard[ExportedProgram]:
    """Whether a source is a program of torch's; it has been imported then. Raises `TypeError` for a model."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(source, torch.nn.Module):
        raise TypeError(
            "a torch.nn.Module has no types of arguments: compile import_torch(model, *arguments)"
        )
    return isinstance(source, torch.export.ExportedProgram)


def _as_text_or_bytecode(source: object) -> str | bytes | os.PathLike[str]:
    """A program in any bindings as what another context than its own can read; text and paths as they are."""
    module = getattr(source, "mlir_module", source)
    module = module() if callable(module) else module
    if isinstance(module, (str, bytes, os.PathLike)):
        return module
    operation = getattr(module, "operation", None)
    if operation is None:
        raise TypeError(f"can't compile a {type(source).__name__}: it is no path, no MLIR and no model")
    file = io.BytesIO()
    operation.write_bytecode(file)
    return file.getvalue()
