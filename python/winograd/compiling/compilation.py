"""Compile programs with IREE, with this project's passes run in process after the `preprocessing` phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from iree.compiler import api
from iree.compiler.api.ctypes_dl import PipelineType
from iree.winograd.compiling import embedding
from iree.winograd.compiling.assembler import assemble_kernels, default_assembler
from iree.winograd.compiling.attempts import Attempts
from iree.winograd.compiling.diagnostics import capture_remarks, diagnostic_at, find_position
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.kernel_bodies import KernelBodies
from iree.winograd.compiling.kernel_failures import failures_of_kernels, require_lowered, take_kernel_users
from iree.winograd.compiling.pass_pipeline import run_passes
from iree.winograd.compiling.stored_machine import with_stored_machine
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.passes.infrastructure.containment import Containment, RewriteFailure, RewriteFailuresError
from iree.winograd.passes.infrastructure.registry import PassError
from iree.winograd.passes.match.convolution_form import convolutions
from iree.winograd.passes.match.navigation import walk
from iree.winograd.pipelines.backends.module_backend import unsupported_target
from iree.winograd.pipelines.compile_pipeline import (
    command_pipeline,
    compile_pipeline,
    configuration_pipeline,
    dispatch_pipeline,
)
from iree.winograd.pipelines.on_program.end_computed_first import is_computed_first
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.report.file import ReportFileError, report_file

REWRITE_PHASE = "preprocessing"
PHASES = (
    "start",
    "input",
    "abi",
    REWRITE_PHASE,
    "global-optimization",
    "dispatch-creation",
    "flow",
    "stream",
    "executable-sources",
    "executable-configurations",
    "executable-targets",
    "hal",
    "vm",
    "end",
)
"""The phases of IREE's compilation, in order."""
_CONSTANTS_PHASE = "global-optimization"
"""The phase in which IREE evaluates constants, with our kernels where they compute some."""
_DISPATCHES_PHASE = "flow"
"""The phase after which what a dispatch computes is settled."""
_COMMANDS_PHASE = "stream"
"""The phase after which a program says what its commands read and write."""
_CONFIGURATIONS_PHASE = "executable-configurations"
"""The phase after which what kernels do is translated."""
_DUMPS_OF_UNTRANSLATED_KERNELS = tuple(
    f"--iree-hal-dump-executable-{kind}-to" for kind in ("benchmarks", "configurations", "files", "sources")
)
"""Flags with which IREE writes kernels to files before that."""
_TRANSLATION_PHASE = "executable-targets"
"""The phase in which what kernels do is translated."""
_BINARIES_PHASE = "hal"
"""The phase after which kernels are what is loaded."""
REWRITE_PART = "rewriting layers"
"""What our passes do, for who watches."""
_PART_OF_PHASE = {
    REWRITE_PHASE: "reading the program",
    _CONSTANTS_PHASE: "evaluating constants",
    _DISPATCHES_PHASE: "forming dispatches",
    _COMMANDS_PHASE: "ordering commands",
    _CONFIGURATIONS_PHASE: "configuring kernels",
    _TRANSLATION_PHASE: "translating kernels",
    _BINARIES_PHASE: "linking kernels",
    PHASES[-1]: "writing the program",
}
"""What IREE does up to the end of each phase, for who watches."""


class InvalidProgramError(RuntimeError):
    """What IREE has made of a program isn't valid."""


@dataclass(frozen=True)
class Stages:
    """The part of a compilation to run: from after phase `compile_from` to the end of phase `compile_to`.

    Raises ValueError for an unknown phase.
    """

    compile_from: str = "start"
    compile_to: str = "end"
    mode: PipelineType = PipelineType.IREE_COMPILER_PIPELINE_STD
    verify: bool = True
    dump_directory: str | None = None

    def __post_init__(self) -> None:
        for phase in (self.compile_from, self.compile_to):
            if phase not in PHASES:
                raise ValueError(f"phase must be one of {', '.join(PHASES)}, got {phase!r}")

    def contain_rewrite(self) -> bool:
        """Whether the program is at some point in its state after `preprocessing`."""
        point = PHASES.index(REWRITE_PHASE)
        return PHASES.index(self.compile_from) <= point <= PHASES.index(self.compile_to)

    def go_beyond(self, phase: str) -> bool:
        """Whether the program is compiled to the end of `phase`, and then further."""
        point = PHASES.index(phase)
        is_standard = self.mode == PipelineType.IREE_COMPILER_PIPELINE_STD
        return is_standard and PHASES.index(self.compile_from) < point < PHASES.index(self.compile_to)

    def reach(self, phase: str) -> bool:
        """Whether the program is compiled to the end of `phase`, or further."""
        return self.go_beyond(phase) or (self.compile_to == phase != self.compile_from)


NO_DUMPS = IRDumps()

_REMEDY = "compile with --iree-winograd-strict (in Python, strict=True) to get the trace that a report needs"

# Bytes; the largest 64-bit integer overflows in IREE.
_ANY_SIZE = 1 << 40


def session_flags(options: WinogradOptions) -> tuple[str, ...]:
    """The flags of IREE that `options` imply; flags of the user's are to follow them, and win.

    IREE evaluates what it can of constants by running it, our kernels that transform filters among it, and
    stores the results. Transforming filters at load time takes that out, for all constants of the program.
    IREE would then do it in every call where it makes constants larger by more than a limit, which is lifted.
    """
    if options.fold_filters == "compile":
        return ()
    return (
        "--iree-opt-const-eval=false",
        f"--iree-opt-const-expr-max-size-increase-threshold={_ANY_SIZE}",
    )


class Compilation:
    """A session of IREE's compiler in which programs are compiled, their convolutions rewritten.

    Diagnostics go to `report`; the program's own errors, in console mode, are printed by IREE instead.
    Convolutions for a target without kernels are an error. What a pass of this project fails on is left as it
    is, and `warn`, by default `report`, is told; with `strict` it is an error. Of convolutions that are left
    at several times the cost `warn_of_left`, by default `warn`, is told once a program.

    `begin` is told, in a word or two, of each part of the work before it is done, `decisions` hold what was
    decided of the last program's layers.

    Programs say which arguments they write to, for `load`. With `only_rewritten` those without kernels of
    this project don't, and are what IREE makes of them, byte by byte.

    Close it, or use it in a `with` statement; the results are gone then.
    """

    def __init__(
        self,
        session: api.Session,
        options: WinogradOptions | None,
        stages: Stages,
        *,
        report: Callable[[Diagnostic], None],
        warn: Callable[[Diagnostic], None] | None = None,
        warn_of_left: Callable[[Diagnostic], None] | None = None,
        console: bool = False,
        dumps: IRDumps = NO_DUMPS,
        only_rewritten: bool = False,
        begin: Callable[[str], None] = lambda part: None,
    ) -> None:
        self.session = session
        self.context.emit_error_diagnostics = True
        self._options = options
        self._stages = stages
        self._report = report
        self._warn = report if warn is None else warn
        self._warn_of_left = self._warn if warn_of_left is None else warn_of_left
        self._console = console
        self._dumps = dumps
        self._only_rewritten = only_rewritten
        self._begin = begin
        self._invocations: list[api.Invocation] = []
        self._decisions: list[Decision] = []
        self._keeps_all = False
        self._failures: tuple[RewriteFailure, ...] = ()
        self._left: list[str] = []
        self._remarks: list[Diagnostic] = []
        self._report_remark = report

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def context(self) -> ir.Context:
        """Of all programs of the session, as long as it is open."""
        return self.session.context

    @property
    def decisions(self) -> Sequence[Decision]:
        """On the layers of the program that was compiled last; with all candidates where that is reported."""
        return tuple(self._decisions)

    @property
    def failures(self) -> Sequence[RewriteFailure]:
        """What our passes failed on in that program."""
        return self._failures

    def close(self) -> None:
        """Free all that belongs to the session; invocations before the session they refer to."""
        self.close_invocations()
        embedding.close_session(self.session)

    def close_invocations(self) -> None:
        """Free what programs were compiled to, and leave the session open to whom it belongs."""
        for invocation in self._invocations:
            embedding.close_invocation(invocation)
        self._invocations.clear()

    @contextmanager
    def reporting(self, path: str | os.PathLike[str] | None) -> Iterator[None]:
        """Write a report on the program that is compiled in the block to the file `path`, if any.

        Raises as `report_file` does, and ReportFileError when there is a failure in making the report.
        """
        if path is None:
            yield
            return
        from iree.winograd.report.decisions import decision_report

        self._keeps_all = True
        with report_file(path) as write:
            yield
            try:
                write(decision_report(self._decisions, self._failures))
            except ReportFileError:
                raise
            except Exception as error:
                message = f"cannot make report '{os.fspath(path)}': {type(error).__name__}: {error}"
                raise ReportFileError(message) from error

    def capture_remarks(self, report: Callable[[Diagnostic], None]) -> None:
        """Send remarks on what the passes did to `report`, without those of attempts that failed."""
        self._report_remark = report
        capture_remarks(self.context, self._remarks.append)

    def compile(self, program: api.Source | ir.Operation) -> api.Invocation | None:
        """Compile `program`; returns what holds the result, or None after an error diagnostic."""
        stages = self._stages
        invocation = self._open(program)
        if invocation is None:
            return None
        if self._options is None or not stages.contain_rewrite():
            return self._finish_stock(invocation, stages.compile_from)
        if self._execute(invocation, stages.compile_from, REWRITE_PHASE) is None:
            return None
        module = invocation.export_module()
        reason = unsupported_target(module)
        if reason is not None and any(convolutions(module)):
            module.location.emit_error(reason)
            return None
        return self._compile_rewritten(module, self._options)

    def _compile_rewritten(self, module: ir.Operation, options: WinogradOptions) -> api.Invocation | None:
        later = [*dispatch_pipeline(), *command_pipeline(), *configuration_pipeline()]
        attempts = Attempts([*compile_pipeline(options), *later])
        attempt = partial(self._attempt, module, options)
        self._failures = ()
        try:
            result = attempt(Containment()) if options.strict else attempts.run(attempt)
        except PassError:
            return None
        except RewriteFailuresError as error:
            result = self._compile_without_rewrites(module, error.failures, options)
        else:
            self._failures = attempts.failures
            for remark in self._remarks:
                self._report_remark(remark)
            for message in self._left:
                self._warn_of_left(Diagnostic("warning", message, find_position(module.location)))
        for failure in self._failures:
            self._warn(_warning(failure))
        return result

    def _compile_without_rewrites(
        self, module: ir.Operation, failures: Sequence[RewriteFailure], options: WinogradOptions
    ) -> api.Invocation | None:
        result = None
        # Only stock IREE shows whether what it fails on is an error of the program's own.
        if not options.strict or isinstance(failures[0].error, CompilationError):
            result = self._finish_stock(self._import(module), REWRITE_PHASE)
            if result is None:
                return None
        if options.strict:
            for failure in failures:
                self._report(diagnostic_at(failure.location, "error", str(failure)))
                self._report(Diagnostic("note", failure.trace))
            return None
        failure = replace(failures[0], left_out=None)
        self._failures = (failure,)
        return result

    def _attempt(
        self, original: ir.Operation, options: WinogradOptions, containment: Containment
    ) -> api.Invocation:
        """Compile a rewritten copy of `original`.

        Raises `RewriteFailuresError`, also when IREE fails on what became of the program, and `PassError`
        after errors of the program's own.
        """
        diagnostics: list[Diagnostic] = []
        invocation = self._new_invocation(diagnostics.append)
        module = original.clone()
        invocation.import_module(module)
        self._decisions.clear()
        self._remarks.clear()
        self._left.clear()
        try:
            passes = compile_pipeline(
                with_stored_machine(options, module),
                self._decisions.append,
                self._left.append,
                keeps_all=self._keeps_all,
            )
            self._begin(REWRITE_PART)
            run_passes(module, passes, self._dumps, containment)
            require_lowered(module)
            users = take_kernel_users(module)
            computes_first = any(map(is_computed_first, walk(module)))
            finished = None
            with suppress(InvalidProgramError):
                finished = self._finish(
                    invocation, REWRITE_PHASE, containment, users, computes_first=computes_first
                )
            if finished is None:
                raise RewriteFailuresError(failures_of_kernels(users, module.location, diagnostics))
        except BaseException as error:
            self._invocations.remove(invocation)
            embedding.close_invocation(invocation)
            if isinstance(error, PassError):
                self._report_all(diagnostics)
            elif isinstance(error, Exception) and not isinstance(error, RewriteFailuresError):
                failure = RewriteFailure("iree-winograd", "the program", original.location, error, None)
                raise RewriteFailuresError([failure]) from None
            raise
        self._report_all(diagnostics)
        return invocation

    def _finish_stock(self, invocation: api.Invocation, compile_from: str) -> api.Invocation | None:
        """Compile a program that was not rewritten on from phase `compile_from`."""
        try:
            return self._finish(invocation, compile_from, Containment())
        except RewriteFailuresError as error:
            for failure in error.failures:
                self._warn(_warning(failure))
            return self._execute(invocation, _COMMANDS_PHASE, self._stages.compile_to)

    def _finish(
        self,
        invocation: api.Invocation,
        compile_from: str,
        containment: Containment,
        kernels: Collection[str] = (),
        *,
        computes_first: bool = False,
    ) -> api.Invocation | None:
        """Compile a program that has `kernels` of ours on from phase `compile_from`.

        With `computes_first` barriers of ours are among its operations.
        Raises `RewriteFailuresError` when a pass failed on the program's commands, which are as they were,
        and `InvalidProgramError` when IREE made an invalid program of it, after diagnostics.
        """
        stages = replace(self._stages, compile_from=compile_from)
        rewrites: list[tuple[str, Callable[[ir.Operation], None]]] = []
        # What IREE makes of a program may not verify: it then says so itself, or goes on if told to.
        run = partial(run_passes, dumps=self._dumps, containment=containment, verify=self._stages.verify)
        if kernels and stages.go_beyond(_CONFIGURATIONS_PHASE) and not self._dumps_kernels():
            bodies = KernelBodies(kernels)
            rewrites += [
                (compile_from, bodies.take_unless_constant),
                (_CONSTANTS_PHASE, bodies.take_all),
                (_CONFIGURATIONS_PHASE, bodies.put_back),
            ]
        if computes_first and stages.go_beyond(_DISPATCHES_PHASE):
            rewrites.append((_DISPATCHES_PHASE, partial(run, passes=dispatch_pipeline())))
        if (kernels or not self._only_rewritten) and stages.go_beyond(_COMMANDS_PHASE):
            rewrites.append((_COMMANDS_PHASE, partial(run, passes=command_pipeline())))
        if kernels and stages.reach(_CONFIGURATIONS_PHASE):
            rewrites.append((_CONFIGURATIONS_PHASE, partial(run, passes=configuration_pipeline())))
        if kernels and stages.go_beyond(_TRANSLATION_PHASE):
            # Its end is where what kernels became is verified.
            rewrites.append((_TRANSLATION_PHASE, lambda program: None))
        execute = self._execute_unverified if kernels else self._execute
        for phase, rewrite in sorted(rewrites, key=lambda each: PHASES.index(each[0])):
            if execute(invocation, compile_from, phase) is None:
                return None
            compile_from = phase
            rewrite(_program(invocation))
        assembler = None if self._options is None else self._options.ptxas
        if assembler is None and rewrites:
            assembler = default_assembler(_program(invocation))
        if assembler is not None and stages.go_beyond(_BINARIES_PHASE):
            if execute(invocation, compile_from, _BINARIES_PHASE) is None:
                return None
            compile_from = _BINARIES_PHASE
            assemble_kernels(_program(invocation), assembler, self._warn)
        result = execute(invocation, compile_from, self._stages.compile_to)
        if kernels and result is not None and self._stages.verify:
            _program(invocation)
        return result

    def _execute_unverified(
        self, invocation: api.Invocation, compile_from: str, compile_to: str
    ) -> api.Invocation | None:
        """As `_execute`, for a program that is verified when it is taken from `invocation`.

        To verify it after each of IREE's hundreds of passes, too, takes a tenth of a small program's time,
        and a third of the translation of kernels.
        """
        embedding.set_verify(invocation, False)
        result = self._execute(invocation, compile_from, compile_to)
        embedding.set_verify(invocation, self._stages.verify)
        return result

    def _dumps_kernels(self) -> bool:
        """Whether IREE writes kernels to files before it translates them."""
        flags = self.session.get_flags(non_default_only=True)
        return any(flag.startswith(_DUMPS_OF_UNTRANSLATED_KERNELS) for flag in flags)

    def _report_all(self, diagnostics: Sequence[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            self._report(diagnostic)

    def _open(self, program: api.Source | ir.Operation) -> api.Invocation | None:
        if not isinstance(program, api.Source):
            return self._import(program)
        invocation = self._new_invocation(None if self._console else self._report)
        return invocation if invocation.parse_source(program) else None

    def _import(self, module: ir.Operation) -> api.Invocation:
        invocation = self._new_invocation(None if self._console else self._report)
        invocation.import_module(module)
        return invocation

    def _new_invocation(self, report: Callable[[Diagnostic], None] | None) -> api.Invocation:
        invocation = api.Invocation(self.session)
        self._invocations.append(invocation)
        if report is None:
            invocation.enable_console_diagnostics()
        else:
            embedding.report_diagnostics(invocation, report)
        embedding.set_verify(invocation, self._stages.verify)
        if self._stages.dump_directory is not None:
            embedding.set_dump_directory(invocation, self._stages.dump_directory)
        return invocation

    def _execute(
        self, invocation: api.Invocation, compile_from: str, compile_to: str
    ) -> api.Invocation | None:
        if compile_from == compile_to:
            return invocation
        self._begin(_PART_OF_PHASE.get(compile_to, f"IREE, up to {compile_to}"))
        embedding.set_phases(invocation, compile_from, compile_to)
        return invocation if invocation.execute(self._stages.mode) else None


def _program(invocation: api.Invocation) -> ir.Operation:
    """What `invocation` has made of its program so far, and goes on with.

    IREE verifies it. Raises `InvalidProgramError` when it isn't valid, after diagnostics.
    """
    module = invocation.export_module()
    try:
        invocation.import_module(module)
    except RuntimeError as error:
        raise InvalidProgramError(str(error)) from error
    return module


def _warning(failure: RewriteFailure) -> Diagnostic:
    message = f"{failure}; {failure.consequence}; {_REMEDY}"
    return diagnostic_at(failure.location, "warning", message)
