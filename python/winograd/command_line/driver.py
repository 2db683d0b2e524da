"""`iree-compile` with this project's flags: a strict superset of the stock tool."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from iree.compiler import api
from iree.compiler.api.ctypes_dl import PipelineType
from iree.winograd import __version__
from iree.winograd.atomic_file import STANDARD_STREAM, atomic_file
from iree.winograd.command_line.flags import (
    ENABLE,
    HELP_FLAGS,
    MAIN_BOOLEANS,
    VERSION_FLAGS,
    CommandLine,
    FlagError,
    expand_response_files,
    flag_of,
    help_text,
    parse_command_line,
)
from iree.winograd.command_line.front import Front
from iree.winograd.compiling import embedding
from iree.winograd.compiling.compilation import Compilation, session_flags
from iree.winograd.compiling.ir_dumps import IRDumps, take_ir_dumps
from iree.winograd.compiling.model_source import open_model
from iree.winograd.compiling.option_files import OptionFileError, check_option_files
from iree.winograd.compiling.phases import PHASES, REWRITE_PHASE, Stages
from iree.winograd.compiling.temporary_folder import check_temporary_folder
from iree.winograd.compiling.unknown_target import find_unknown_target
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import import_no_other_dialects, ir
from iree.winograd.errors import CompilationError, WinogradError
from iree.winograd.importers.import_model import is_onnx
from iree.winograd.passes.infrastructure.remarks import CATEGORY
from iree.winograd.report.file import ReportFileError

_PROGRAM = "iree-compile"
_MODES = {
    "std": PipelineType.IREE_COMPILER_PIPELINE_STD,
    "precompile": PipelineType.IREE_COMPILER_PIPELINE_PRECOMPILE,
}
_OUTPUT_FORMATS = ("vm-bytecode", "vm-c", "vm-asm")


def main(arguments: Sequence[str] | None = None, front: Front | None = None) -> int:
    """Entry point of the `iree-compile` that stands in front of the stock one; returns its exit code."""
    front = front or Front()
    arguments = list(expand_response_files(sys.argv[1:] if arguments is None else arguments))
    try:
        command_line = parse_command_line(arguments)
    except FlagError as error:
        _print_error(f"{_PROGRAM}: {error}")
        return 1
    if HELP_FLAGS & set(command_line.stock):
        return _say_with_stock_tool(command_line, f"\n{help_text()}")
    if not command_line.driver.enable_winograd or not _compiles(command_line):
        return _leave_to_stock_tool(command_line)
    if VERSION_FLAGS & set(command_line.library):
        return _say_with_stock_tool(command_line, f"iree-winograd {__version__}\n")
    dumps = _set_up(command_line, front)
    try:
        stages = _stages(command_line)
    except _NothingToRewriteError as error:
        _print_warning(f"--{ENABLE} has no effect: {error}")
        return _leave_to_stock_tool(command_line)
    if unknown := find_unknown_target(command_line.library):
        _print_diagnostic(Diagnostic("error", unknown))
        return 1
    try:
        check_option_files(command_line.options, _print_warning)
    except OptionFileError as error:
        _print_error(f"{_PROGRAM}: for the --{flag_of(error.name)} option: {error}")
        return 1
    try:
        check_temporary_folder()
    except CompilationError as error:
        _print_diagnostic(Diagnostic("error", str(error)))
        return 1
    code = _compile(command_line, stages, dumps, front)
    _flush_streams()
    # The compiler's threads and global state need no orderly end.
    os._exit(code)


def become_stock_tool(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the stock `iree-compile`."""
    binary = embedding.stock_tool(_PROGRAM)
    _flush_streams()
    if sys.platform == "win32":
        # There a new process takes over, and who waits for this one goes on.
        os._exit(subprocess.call([binary, *arguments]))
    os.execv(binary, [str(binary), *arguments])


def _leave_to_stock_tool(command_line: CommandLine) -> int:
    """Become the stock tool; returns only where that can't read the input."""
    if any(map(is_onnx, command_line.inputs)):
        _print_error(
            f"{_PROGRAM}: the stock tool reads no ONNX models: make a program by `iree-winograd import`"
        )
        return 1
    become_stock_tool(command_line.stock)


def _say_with_stock_tool(command_line: CommandLine, text: str) -> int:
    """Have the stock tool say what is asked for, and add `text`."""
    binary = embedding.stock_tool(_PROGRAM)
    code = subprocess.run([binary, *command_line.stock], check=False).returncode
    print(text, end="")
    return code


def _compiles(command_line: CommandLine) -> bool:
    """Whether flags of the main program ask for a compilation, and have values of the right kind."""
    main = command_line.main
    return (
        main.get("iree-hal-list-target-backends") != "true"
        and main.get("iree-list-plugins") != "true"
        and all(main.get(flag, "true") in ("true", "false") for flag in MAIN_BOOLEANS)
        and re.fullmatch(r"-?\d+", main.get("emit-mlir-bytecode-version", "-1")) is not None
    )


class _NothingToRewriteError(Exception):
    """The stock tool does, or refuses, what is asked for; the text says why there is nothing to rewrite."""


def _stages(command_line: CommandLine) -> Stages:
    """What flags of the main program ask for. Raises `_NothingToRewriteError`."""
    main = command_line.main
    if len(command_line.inputs) != 1:
        raise _NothingToRewriteError(f"it is for one program, not {len(command_line.inputs)}")
    mode = _choice(main, "compile-mode", "std", _MODES)
    _choice(main, "output-format", "vm-bytecode", _OUTPUT_FORMATS)
    compile_from = _choice(main, "compile-from", "start", PHASES)
    compile_to = _choice(main, "compile-to", "end", PHASES)
    stages = Stages(
        compile_from,
        compile_to,
        _MODES[mode],
        verify=main.get("verify", "true") == "true",
        dump_directory=main.get("dump-compilation-phases-to") or None,
    )
    if compile_from == compile_to or not stages.contain_rewrite():
        raise _NothingToRewriteError(
            f"convolutions are rewritten after {REWRITE_PHASE}, "
            f"which isn't from {compile_from} to {compile_to}"
        )
    return stages


def _choice(main: Mapping[str, str], flag: str, default: str, choices: Collection[str]) -> str:
    value = main.get(flag, default)
    if value not in choices:
        raise _NothingToRewriteError(f"--{flag} is {value!r}, none of {', '.join(choices)}")
    return value


def _set_up(command_line: CommandLine, front: Front) -> IRDumps:
    """Set IREE's flags; one that it doesn't accept ends the process, after an error."""
    dumps, library = take_ir_dumps(command_line.library)
    embedding.setup_command_line(
        str(embedding.stock_tool(_PROGRAM)),
        (*session_flags(command_line.options), *library),
        lambda: os._exit(_refuse(command_line, front)),
    )
    return dumps


def _refuse(command_line: CommandLine, front: Front) -> int:
    """Say which of its flags the stock tool doesn't accept, or become that, which does."""
    refusal = front.refusal(command_line)
    if refusal is not None:
        _print_error(refusal)
        return 1
    if any(map(is_onnx, command_line.inputs)):
        # It looks at flags before it reads an input, but there has to be one.
        become_stock_tool([*(each for each in command_line.stock if not is_onnx(each)), os.devnull])
    become_stock_tool(command_line.stock)


def _compile(command_line: CommandLine, stages: Stages, dumps: IRDumps, front: Front) -> int:
    front.watch_for_interrupts()
    import_no_other_dialects()
    default = front.program if _writes_program(command_line.main) else STANDARD_STREAM
    output = command_line.main.get("o", default)
    session = api.Session()
    with Compilation(
        session,
        command_line.options,
        stages,
        report=_print_diagnostic,
        warn=_print_diagnostic,
        console=True,
        dumps=dumps,
        only_rewritten=True,
        begin=front.progress.begin,
    ) as compilation:
        try:
            _enable_remarks(compilation, command_line)
            with front.progress.shown():
                source = _open_input(compilation, command_line, front)
                with (
                    compilation.reporting(command_line.driver.report, command_line.inputs[0]),
                    atomic_file(output) as path,
                    _open_output(path) as file,
                ):
                    _compile_parts(compilation, source, file, command_line.main)
                    file.keep()
            compilation.context.finalize_remarks()
            front.finish(compilation, output)
        except OSError as error:
            # The stock tool says so of outputs, too.
            _print_error(f"error opening input file: cannot open output file '{output}': {error.strerror}")
            return 1
        except ReportFileError as error:
            _print_error(f"error: {error}")
            return 1
        except _CompileError as failure:
            if failure.message:
                _print_error(failure.message)
            return 1
    return 0


class _CompileError(Exception):
    """Ends a compilation without output; `message` is empty when the compiler has already said why."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


def _enable_remarks(compilation: Compilation, command_line: CommandLine) -> None:
    wanted = command_line.main.get("remarks-filter", "")
    if not wanted:
        if command_line.options.remarks:
            compilation.capture_remarks(_print_diagnostic)
        return
    try:
        compilation.context.enable_remarks(
            output_file=command_line.main.get("remarks-output-file") or None,
            all_filter=f"{CATEGORY}|{wanted}" if command_line.options.remarks else wanted,
        )
    except ValueError:
        raise _CompileError(
            "<unknown>:0: error: Failed to enable optimization remarks with YAML streamer"
        ) from None


def _open_input(
    compilation: Compilation, command_line: CommandLine, front: Front
) -> api.Source | ir.Operation:
    path = command_line.inputs[0]
    if is_onnx(path):
        try:
            front.progress.begin(f"importing {path}")
            return open_model(compilation, front.read_onnx(path), command_line.library)
        except WinogradError as error:
            raise _CompileError(f"{_PROGRAM}: {path}: {error}") from None
    try:
        return api.Source.open_file(compilation.session, path)
    except ValueError as error:
        raise _CompileError(f"error opening input file: {error}") from None


def _open_output(path: str) -> api.Output:
    try:
        # LLVM's own stream for `-` would be flushed by an orderly exit only.
        return embedding.open_standard_output() if path == STANDARD_STREAM else api.Output.open_file(path)
    except ValueError as error:
        raise _CompileError(f"error opening input file: {error}") from None


def _compile_parts(
    compilation: Compilation,
    source: api.Source | ir.Operation,
    file: api.Output,
    main_flags: Mapping[str, str],
) -> None:
    parts = [source]
    if main_flags.get("split-input-file") == "true" and isinstance(source, api.Source):
        parts = embedding.split_source(compilation.session, source)
    for part in parts:
        invocation = compilation.compile(part)
        if invocation is None:
            raise _CompileError
        try:
            _write(invocation, file, main_flags)
        except ValueError as error:
            raise _CompileError(str(error)) from None


def _writes_program(main_flags: Mapping[str, str]) -> bool:
    """Whether flags of the main program ask for what the runtime loads."""
    return _is_complete(main_flags) and main_flags.get("output-format", "vm-bytecode") == "vm-bytecode"


def _is_complete(main_flags: Mapping[str, str]) -> bool:
    return main_flags.get("compile-to", "end") == "end" and main_flags.get("compile-mode", "std") == "std"


def _write(invocation: api.Invocation, file: api.Output, main_flags: Mapping[str, str]) -> None:
    if _writes_program(main_flags):
        invocation.output_vm_bytecode(file)
    elif _is_complete(main_flags) and main_flags.get("output-format") == "vm-c":
        embedding.write_c_source(invocation, file)
    elif main_flags.get("emit-mlir-bytecode") == "true":
        invocation.output_ir_bytecode(file, int(main_flags.get("emit-mlir-bytecode-version", "-1")))
    else:
        invocation.output_ir(file)


def _print_diagnostic(diagnostic: Diagnostic) -> None:
    source = None
    if diagnostic.position is not None:
        with suppress(OSError, UnicodeDecodeError):
            source = Path(diagnostic.position.filename).read_text(encoding="utf-8")
    _print_error(diagnostic.format(source))


def _print_warning(message: str) -> None:
    _print_diagnostic(Diagnostic("warning", message))


def _print_error(message: str) -> None:
    # Without a file `print` would write to the standard output.
    if sys.stderr is not None:
        print(message, file=sys.stderr, flush=True)


def _flush_streams() -> None:
    # Python has none where the standard output or error is closed.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
