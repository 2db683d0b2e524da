"""Compile programs with IREE, with this project's passes run in process after the `preprocessing` phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from iree.compiler import api
from iree.winograd.compiler_threads import use_own_threads
from iree.winograd.compiling import embedding
from iree.winograd.compiling.attempts import Attempts
from iree.winograd.compiling.diagnostics import (
    HeldDiagnostics,
    capture_remarks,
    diagnostic_at,
    find_position,
)
from iree.winograd.compiling.flag_name import flag_name
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.kernel_failures import failures_of_kernels, require_lowered, take_kernel_users
from iree.winograd.compiling.pass_pipeline import run_passes
from iree.winograd.compiling.phase_rewrites import PhasePasses, PhaseRewrites
from iree.winograd.compiling.phases import (
    REWRITE_PART,
    REWRITE_PHASE,
    InvalidProgramError,
    StagedProgram,
    Stages,
)
from iree.winograd.compiling.stored_machine import with_stored_machine
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.passes.infrastructure.containment import Containment, RewriteFailure, RewriteFailuresError
from iree.winograd.passes.infrastructure.registry import Pass, PassError
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.values.constants import AT_LOAD_ATTRIBUTE
from iree.winograd.pipelines.backends.module_backend import unsupported_target
from iree.winograd.pipelines.compile_pipeline import command_pipeline, compile_pipeline
from iree.winograd.pipelines.iree_workarounds.assert_first import is_check
from iree.winograd.pipelines.iree_workarounds.read_before_update import may_update
from iree.winograd.pipelines.on_program.admit_helpers import admits_helpers
from iree.winograd.pipelines.on_program.end_computed_first import is_computed_first
from iree.winograd.pipelines.on_program.insert_as_computed import may_insert
from iree.winograd.pipelines.on_program.limit_sizes import has_limits
from iree.winograd.pipelines.on_program.note_layers import Dispatch
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.report.file import ReportFileError, report_file

NO_DUMPS = IRDumps()

_REMEDY = "compile with --iree-winograd-strict (in Python, strict=True) to get the trace that a report needs"

_DUMPS_OF_UNTRANSLATED_KERNELS = tuple(
    f"--iree-hal-dump-executable-{kind}-to" for kind in ("benchmarks", "configurations", "files", "sources")
)
"""Flags with which IREE writes kernels to files before it translates them."""

# Bytes; the largest 64-bit integer overflows in IREE.
_ANY_SIZE = 1 << 40


_AT_LOAD_FLAGS = (
    "--iree-opt-const-eval=false",
    f"--iree-opt-const-expr-max-size-increase-threshold={_ANY_SIZE}",
)


def session_flags(options: WinogradOptions) -> tuple[str, ...]:
    """The flags of IREE that `options` imply; flags of the user's are to follow them, and win.

    IREE evaluates what it can of constants by running it, our kernels that transform filters among it, and
    stores the results. Transforming filters at load time takes that out, for all constants of the program.
    IREE would then do it in every call where it makes constants larger by more than a limit, which is lifted.
    """
    return _AT_LOAD_FLAGS if options.fold_filters == "load" else ()


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
        use_own_threads(self.context)
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
        self._dispatches: list[Dispatch] = []
        self._keeps_all = False
        self._failures: tuple[RewriteFailure, ...] = ()
        self._left: list[str] = []
        self._remarks: list[Diagnostic] = []
        self._report_remark = report
        self._folds_at_load = False

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
    def reporting(self, path: str | os.PathLike[str] | None, model: str | None = None) -> Iterator[None]:
        """Write a report on the program that is compiled in the block to the file `path`, if any.

        `model` is what that is called. Raises as `report_file` does, and ReportFileError when there is a
        failure in making the report.
        """
        if path is None:
            yield
            return
        from iree.winograd.report.decisions import decision_report

        self._keeps_all = True
        with report_file(path) as write:
            yield
            try:
                report = decision_report(
                    self._decisions,
                    self._failures,
                    self._dispatches,
                    model,
                    folds_at_load=self._folds_at_load,
                )
                write(report)
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
        opened = self._open(program)
        if opened is None:
            return None
        if self._options is None or not self._stages.contain_rewrite():
            return self._finish_stock(opened, self._stages)
        if not opened.run_to(REWRITE_PHASE):
            return None
        module = opened.invocation.export_module()
        reason = unsupported_target(module)
        if reason is not None and any(convolutions(module)):
            module.location.emit_error(reason)
            return None
        return self._compile_rewritten(module, self._options)

    def _compile_rewritten(self, module: ir.Operation, options: WinogradOptions) -> api.Invocation | None:
        self._failures = ()
        self._folds_at_load = options.fold_filters == "load"
        try:
            with _contained(module):
                passes = self._passes(module, options)
            attempts = Attempts(passes.in_order)
            attempt = partial(self._attempt, module, passes, tuple(self._remarks))
            result = attempt(Containment(verifies_each=True)) if options.strict else attempts.run(attempt)
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

    def _passes(self, module: ir.Operation, options: WinogradOptions) -> PhasePasses:
        """The passes of all attempts at `module`."""
        self._remarks.clear()
        options = with_stored_machine(options, module)
        return PhasePasses(
            compile_pipeline(options, self._decisions.append, self._left.append, keeps_all=self._keeps_all),
            commands=command_pipeline(self._dispatches.append),
        )

    def _compile_without_rewrites(
        self, module: ir.Operation, failures: Sequence[RewriteFailure], options: WinogradOptions
    ) -> api.Invocation | None:
        result = None
        # Only stock IREE shows whether what it fails on is an error of the program's own.
        if not options.strict or isinstance(failures[0].error, CompilationError):
            result = self._finish_stock(self._import(module, REWRITE_PHASE), self._rewritten_stages)
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
        self,
        original: ir.Operation,
        passes: PhasePasses,
        remarks: Sequence[Diagnostic],
        containment: Containment,
    ) -> api.Invocation:
        """Compile a rewritten copy of `original`, of which there are `remarks` before.

        Raises `RewriteFailuresError`, also when IREE fails on what became of the program, and `PassError`
        after errors of the program's own.
        """
        diagnostics = HeldDiagnostics()
        program = self._import(original.clone(), REWRITE_PHASE, diagnostics)
        self._decisions.clear()
        self._dispatches.clear()
        self._remarks[:] = remarks
        self._left.clear()
        try:
            with _contained(original):
                self._rewrite(program, passes, containment, diagnostics.held)
        except BaseException as error:
            self._invocations.remove(program.invocation)
            embedding.close_invocation(program.invocation)
            if isinstance(error, PassError):
                diagnostics.release(self._report)
            raise
        # Some come when the program is written.
        diagnostics.release(self._report)
        return program.invocation

    def _rewrite(
        self,
        program: StagedProgram,
        passes: PhasePasses,
        containment: Containment,
        diagnostics: Sequence[Diagnostic],
    ) -> None:
        """Rewrite `program`, which is after `preprocessing`, and compile it; raises as `_attempt` does."""
        module = program.module()
        self._begin(REWRITE_PART)
        run_passes(module, passes.program, self._dumps, containment)
        require_lowered(module)
        users = take_kernel_users(module)
        rewrites = PhaseRewrites(
            self._rewritten_stages,
            passes,
            partial(self._run_passes, containment),
            kernels=users,
            keeps_bodies=self._dumps_kernels(),
            inserts_parts=bool(users) and any(map(may_insert, walk(module))),
            rewrites_dispatches=has_limits(module)
            or any(is_computed_first(each) or may_update(each) or is_check(each) for each in walk(module)),
            shares_workgroups=admits_helpers(module),
            notes_commands=bool(users) or not self._only_rewritten,
            ptxas=None if self._options is None else self._options.ptxas,
            warn=self._warn,
        )
        with suppress(InvalidProgramError), self._folding_as_said(module):
            if self._run_phases(program, rewrites, verify=not users):
                return
        raise RewriteFailuresError(failures_of_kernels(users, module.location, diagnostics))

    @contextmanager
    def _folding_as_said(self, module: ir.Operation) -> Iterator[None]:
        """Has IREE leave constants for load time meanwhile where `module` says so; flags of a user's stay."""
        if AT_LOAD_ATTRIBUTE not in module.attributes:
            yield
            return
        del module.attributes[AT_LOAD_ATTRIBUTE]
        self._folds_at_load = True
        stated = set(map(flag_name, self.session.get_flags(non_default_only=True)))
        changed = [flag for flag in _AT_LOAD_FLAGS if flag_name(flag) not in stated]
        names = set(map(flag_name, changed))
        before = [flag for flag in self.session.get_flags() if flag_name(flag) in names]
        self.session.set_flags(*changed)
        try:
            yield
        finally:
            self.session.set_flags(*before)

    def _finish_stock(self, program: StagedProgram, stages: Stages) -> api.Invocation | None:
        """Compile a program that was not rewritten; `stages` are those that are left."""
        rewrites = PhaseRewrites(
            stages,
            PhasePasses(),
            partial(self._run_passes, Containment(verifies_each=True)),
            notes_commands=not self._only_rewritten,
            ptxas=None if self._options is None else self._options.ptxas,
            warn=self._warn,
        )
        try:
            is_done = self._run_phases(program, rewrites, verify=True)
        except RewriteFailuresError as error:
            # Its commands are as they were.
            for failure in error.failures:
                self._warn(_warning(failure))
            is_done = program.run_to(stages.compile_to)
        return program.invocation if is_done else None

    def _run_phases(self, program: StagedProgram, rewrites: PhaseRewrites, *, verify: bool) -> bool:
        """Run the phases that are left of `program`, with `rewrites` at their ends.

        Returns False, or raises `InvalidProgramError`, after diagnostics, and `RewriteFailuresError` when a
        pass failed.
        """
        for phase, rewrite in rewrites:
            if not program.run_to(phase, verify=verify):
                return False
            rewrite(program.module())
        return program.run_to(self._stages.compile_to, verify=verify)

    def _run_passes(self, containment: Containment, module: ir.Operation, passes: Sequence[Pass]) -> None:
        # What IREE makes of a program may not verify: it then says so itself, or goes on if told to.
        run_passes(module, passes, self._dumps, containment, verify=self._stages.verify)

    @property
    def _rewritten_stages(self) -> Stages:
        """What is left of the stages of a program that is, or could have been, rewritten."""
        return replace(self._stages, compile_from=REWRITE_PHASE)

    def _dumps_kernels(self) -> bool:
        """Whether IREE writes kernels to files before it translates them."""
        flags = self.session.get_flags(non_default_only=True)
        return any(flag.startswith(_DUMPS_OF_UNTRANSLATED_KERNELS) for flag in flags)

    def _open(self, program: api.Source | ir.Operation) -> StagedProgram | None:
        if not isinstance(program, api.Source):
            return self._import(program, self._stages.compile_from)
        invocation = self._new_invocation(None if self._console else self._report)
        is_parsed = invocation.parse_source(program)
        return (
            StagedProgram(invocation, self._stages, self._stages.compile_from, self._begin)
            if is_parsed
            else None
        )

    def _import(
        self, module: ir.Operation, phase: str, report: Callable[[Diagnostic], None] | None = None
    ) -> StagedProgram:
        """`module`, which is at the end of `phase`; its diagnostics go to `report`, by default the user's."""
        invocation = self._new_invocation(report or (None if self._console else self._report))
        invocation.import_module(module)
        return StagedProgram(invocation, self._stages, phase, self._begin, module)

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


@contextmanager
def _contained(module: ir.Operation) -> Iterator[None]:
    """Have what is raised in the block, but for errors of the program's own, be the failure of all rewrites.

    Raises `RewriteFailuresError`.
    """
    try:
        yield
    except (PassError, RewriteFailuresError):
        raise
    except Exception as error:
        failure = RewriteFailure("iree-winograd", "the program", module.location, error, None)
        raise RewriteFailuresError([failure]) from None


def _warning(failure: RewriteFailure) -> Diagnostic:
    message = f"{failure}; {failure.consequence}; {_REMEDY}"
    return diagnostic_at(failure.location, "warning", message)
