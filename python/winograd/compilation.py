"""Compile programs with IREE, with this project's passes run in process after the `preprocessing` phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from iree.compiler import api
from iree.compiler.api.ctypes_dl import PipelineType
from iree.winograd import embedding
from iree.winograd.diagnostics import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.ir_dumps import IRDumps
from iree.winograd.pass_pipeline import run_passes
from iree.winograd.passes.convolution import convolutions
from iree.winograd.passes.options import WinogradOptions
from iree.winograd.passes.rewrite import walk
from iree.winograd.pipelines.backends import unsupported_target
from iree.winograd.pipelines.compile_pipeline import compile_pipeline
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.report.decisions import decision_report
from iree.winograd.report.file import report_file
from iree.winograd.stored_machine import with_stored_machine

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


@dataclass(frozen=True)
class Stages:
    """The part of IREE's pipeline to run: from after phase `compile_from` to the end of phase `compile_to`.

    Raises ValueError for an unknown phase.
    """

    compile_from: str = "start"
    compile_to: str = "end"
    pipeline: PipelineType = PipelineType.IREE_COMPILER_PIPELINE_STD
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


NO_DUMPS = IRDumps()

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
    Convolutions for a target without kernels are an error. `warn` is told when the passes of this project
    failed on a program, which is then compiled without them.

    Close it, or use it in a `with` statement; the results are gone then.
    """

    def __init__(
        self,
        session: api.Session,
        options: WinogradOptions | None,
        stages: Stages,
        *,
        report: Callable[[Diagnostic], None],
        warn: Callable[[str], None],
        console: bool = False,
        dumps: IRDumps = NO_DUMPS,
    ) -> None:
        self.session = session
        self.context.emit_error_diagnostics = True
        self._options = options
        self._stages = stages
        self._report = report
        self._warn = warn
        self._console = console
        self._dumps = dumps
        self._invocations: list[api.Invocation] = []
        self._decisions: list[Decision] = []
        self._failure: str | None = None

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def context(self) -> ir.Context:
        """Of all programs of the session, as long as it is open."""
        return self.session.context

    def close(self) -> None:
        """Free all that belongs to the session; invocations before the session they refer to."""
        for invocation in self._invocations:
            embedding.close_invocation(invocation)
        self._invocations.clear()
        embedding.close_session(self.session)

    @contextmanager
    def reporting(self, path: str | os.PathLike[str] | None) -> Iterator[None]:
        """Write a report on the program that is compiled in the block to the file `path`, if any.

        Raises as `report_file` does.
        """
        if path is None:
            yield
            return
        with report_file(path) as write:
            yield
            write(decision_report(self._decisions, self._failure))

    def compile(self, program: api.Source | ir.Operation) -> api.Invocation | None:
        """Compile `program`; returns what holds the result, or None after an error diagnostic."""
        stages = self._stages
        invocation = self._open(program)
        if invocation is None:
            return None
        if self._options is None or not stages.contain_rewrite():
            return self._execute(invocation, stages.compile_from, stages.compile_to)
        if self._execute(invocation, stages.compile_from, REWRITE_PHASE) is None:
            return None
        module = invocation.export_module()
        reason = unsupported_target(module)
        if reason is not None and any(convolutions(module)):
            module.location.emit_error(reason)
            return None
        original = module.clone()
        result, failure = self._compile_rewritten(module, self._options)
        if result is not None:
            return result
        result = self._execute(self._import(original), REWRITE_PHASE, stages.compile_to)
        if result is not None:
            self._failure = failure
            self._warn(f"compiled without iree-winograd, which failed on this program: {failure}")
        return result

    def _compile_rewritten(
        self, module: ir.Operation, options: WinogradOptions
    ) -> tuple[api.Invocation | None, str]:
        # Errors are held back: only compiling without our passes shows whether they are the program's own.
        errors: list[Diagnostic] = []
        invocation = self._new_invocation(lambda diagnostic: self._hold_back_errors(errors, diagnostic))
        invocation.import_module(module)
        try:
            options = with_stored_machine(options, module)
            run_passes(module, compile_pipeline(options, self._decisions.append), self._dumps)
            _require_lowered(module)
            result = self._execute(invocation, REWRITE_PHASE, self._stages.compile_to)
        except Exception as error:
            result = None
            failure = errors[0].format() if errors else _summarize(error)
        else:
            failure = errors[0].format() if errors else "no diagnostic"
        if result is None:
            self._invocations.remove(invocation)
            embedding.close_invocation(invocation)
        return result, failure

    def _hold_back_errors(self, errors: list[Diagnostic], diagnostic: Diagnostic) -> None:
        belongs_to_error = diagnostic.severity == "note" and errors
        if diagnostic.severity == "error" or belongs_to_error:
            errors.append(diagnostic)
        else:
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
        embedding.set_phases(invocation, compile_from, compile_to)
        return invocation if invocation.execute(self._stages.pipeline) else None


def _require_lowered(module: ir.Operation) -> None:
    """Raise ValueError when ops of our dialect are left in `module`: IREE crashes on ops it doesn't know."""
    left = {operation.name for operation in walk(module) if operation.name.startswith("winograd.")}
    if left:
        raise ValueError(f"not lowered: {', '.join(sorted(left))}")


def _summarize(error: Exception) -> str:
    """One line on `error`. Those raised in callbacks of MLIR arrive as the text of their traceback."""
    lines = str(error).splitlines() or [""]
    if "Traceback" in lines[0] or "callback" in lines[0]:
        return lines[-1]
    return f"{type(error).__name__}: {' '.join(lines)}"
