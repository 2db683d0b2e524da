"""Sessions of the Python API of IREE's compiler that were given flags of ours.

`iree_winograd_tools` leads here. Such a session has `winograd_flags`. Programs of its invocations are
compiled as our `iree-compile` would, in the session that the caller set up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from iree.compiler import api
from iree.compiler.api.ctypes_dl import PipelineType
from iree.winograd.command_line.flags import CommandLine, FlagError, is_own, parse_command_line
from iree.winograd.compiling.compilation import Compilation, session_flags
from iree.winograd.compiling.flag_name import flag_name
from iree.winograd.compiling.option_files import OptionFileError, check_option_files
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.unknown_target import find_unknown_target
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.report.file import ReportFileError
from iree.winograd.targets import spelled_out


def take_flags(session: api.Session, flags: Sequence[str], set_flags: Callable[..., None]) -> None:
    """Give `session` those of `flags` that are IREE's, by its own `set_flags`, and note ours.

    Raises ValueError for flags that aren't known, values that they don't take, files that aren't there and
    targets that IREE doesn't know.
    """
    own = tuple(filter(is_own, flags))
    others = spelled_out([flag for flag in flags if not is_own(flag)])
    try:
        all_own = (*getattr(session, "winograd_flags", ()), *own)
        check_option_files(parse_command_line(all_own).options, _warn)
    except (FlagError, OptionFileError) as error:
        raise ValueError(f"Error parsing flags:\n  {error}") from None
    if unknown := find_unknown_target(others):
        raise ValueError(unknown)
    set_flags(session, *others)
    session.winograd_flags = all_own


def compile_program(invocation: api.Invocation, mode: PipelineType, execute: Callable[..., bool]) -> bool:
    """Compile the program of `invocation`, whose session has flags of ours; whether that succeeded.

    Diagnostics are printed. `execute` is IREE's own, for what is compiled without us.
    """
    session = invocation.session
    command_line = parse_command_line(session.winograd_flags)
    if not command_line.driver.enable_winograd or mode == PipelineType.IREE_COMPILER_PIPELINE_HAL_EXECUTABLE:
        return bool(execute(invocation, mode))
    # Invocations of ours in this session run phases of IREE's.
    own, session.winograd_flags = session.winograd_flags, ()
    try:
        return _compile(invocation, command_line, Stages(mode=mode))
    except ReportFileError as error:
        _print(Diagnostic("error", str(error)))
        return False
    finally:
        session.winograd_flags = own


def _compile(invocation: api.Invocation, command_line: CommandLine, stages: Stages) -> bool:
    session, options = invocation.session, command_line.options
    stated = {flag_name(flag) for flag in session.get_flags(non_default_only=True)}
    session.set_flags(*(flag for flag in session_flags(options) if flag_name(flag) not in stated))
    compilation = Compilation(
        session, options, stages, report=_print, warn=_print, console=True, only_rewritten=True
    )
    if options.remarks:
        compilation.capture_remarks(_print)
    try:
        with compilation.reporting(command_line.driver.report):
            compiled = compilation.compile(invocation.export_module())
            compilation.context.finalize_remarks()
            if compiled is None:
                return False
            invocation.import_module(compiled.export_module())
            return True
    finally:
        compilation.close_invocations()


def _warn(message: str) -> None:
    _print(Diagnostic("warning", message))


def _print(diagnostic: Diagnostic) -> None:
    print(diagnostic.format(), file=sys.stderr)
