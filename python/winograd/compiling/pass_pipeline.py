"""Textual pass pipelines that mix this project's passes with IREE's and MLIR's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from iree.winograd.compiler_threads import on_calling_thread
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.dialect.bindings import CREATED_DIALECTS, PassManager, ir
from iree.winograd.passes.infrastructure.containment import (
    Containment,
    InvalidRewriteError,
    RewriteFailuresError,
    UnknownBreakError,
    failure_of_pass,
    failure_of_passes,
)
from iree.winograd.passes.infrastructure.modules import import_modules
from iree.winograd.passes.infrastructure.registry import (
    Pass,
    PassError,
    PassSyntaxError,
    format_pass,
    parse_pass,
    pass_name,
    registered_passes,
)
from iree.winograd.passes.infrastructure.remarks import printable
from iree.winograd.passes.infrastructure.unit import Unit

_ANCHOR = "builtin.module"
_PACKAGES = (
    "passes",
    "pipelines.for_target",
    "pipelines.iree_workarounds",
    "pipelines.on_program",
    "pipelines.selection",
    "pipelines.to_kernels",
)
"""Those whose modules are passes, among other things."""
_OPENING = {"{": "}", "(": ")", "[": "]"}


def load_passes() -> dict[str, type]:
    """Register every pass of the project; returns them by name."""
    for package in _PACKAGES:
        import_modules(f"iree.winograd.{package}")
    return registered_passes()


def parse_pass_pipeline(text: str, context: ir.Context) -> PassManager:
    """Build the pass manager that `builtin.module(pass{options}, util.func(pass), ...)` describes.

    This project's passes work on modules, so they may stand at the outer level only.

    Raises `PassSyntaxError` for text that is not such a pipeline.
    """
    stripped = text.strip()
    if not stripped.startswith(_ANCHOR) or not stripped.endswith(")"):
        raise PassSyntaxError(f"expected pass pipeline to be wrapped with '{_ANCHOR}(...)', got '{text}'")
    anchor, _, body = stripped[:-1].partition("(")
    if anchor.strip() != _ANCHOR:
        raise PassSyntaxError(f"expected pass pipeline to be wrapped with '{_ANCHOR}(...)', got '{text}'")
    return build_pass_manager(split_pipeline(body), context)


def build_pass_manager(elements: Iterable[str], context: ir.Context) -> PassManager:
    """Build a pass manager on modules that runs `elements`, each the text of a pass or a nested pipeline."""
    own_passes = load_passes()
    manager = PassManager(_ANCHOR, context)
    for element in elements:
        name = element.partition("{")[0].strip()
        if name in own_passes or name.startswith("winograd-"):
            _add_own_pass(manager, parse_pass(element), Containment(), _report_failures)
            continue
        try:
            manager.add(element)
        except ValueError as error:
            raise PassSyntaxError(str(error).strip()) from None
    return manager


def run_passes(
    module: ir.Operation,
    passes: Iterable[Pass],
    dumps: IRDumps,
    containment: Containment,
    *,
    verify: bool = True,
) -> None:
    """Run `passes` on `module` but for what `containment` leaves out, printing it as `dumps` say.

    With `verify` the program is verified at the end, or after a pass that failed, perhaps on what another
    broke. Where `containment` says so it is verified after each pass, which takes a fifth of their time.

    Raises `RewriteFailuresError` for failures of the first pass that has some, or for an `UnknownBreakError`,
    and `PassError` when the program is in error, after diagnostics.
    """
    # IREE loads all while it looks for the input's dialect, unless a flag says which one that is. It would
    # crash on operations of one that isn't loaded.
    for dialect in CREATED_DIALECTS:
        # Not `dialects[dialect]`, which imports the module of Python's for it, too.
        module.context.get_dialect_descriptor(dialect)
    verifies_once = verify and not containment.verifies_each
    with on_calling_thread(module.context):
        try:
            for pass_ in passes:
                if Unit(pass_name(pass_)) not in containment.left_out:
                    _run_pass(module, pass_, dumps, containment, verify=verify and not verifies_once)
        except (PassError, RewriteFailuresError):
            if verifies_once:
                _verify(module)
            raise
        if verifies_once:
            _verify(module)


def _run_pass(
    module: ir.Operation, pass_: Pass, dumps: IRDumps, containment: Containment, *, verify: bool
) -> None:
    """Run one pass, with `verify` and the verifier; raises as `run_passes` does."""
    name = pass_name(pass_)
    raised: list[BaseException] = []
    manager = PassManager(_ANCHOR, module.context)
    _add_own_pass(manager, pass_, containment, raised.append)
    manager.enable_verifier(verify)
    dumps.enable(manager, name)
    try:
        manager.run(module)
    except ir.MLIRError as error:
        if raised:
            raise raised[0] from None
        invalid = InvalidRewriteError(str(error))
        raise RewriteFailuresError([failure_of_pass(name, module, invalid)]) from None


def _verify(module: ir.Operation) -> None:
    """Raise `RewriteFailuresError` where the program isn't valid."""
    try:
        module.verify()
    except ir.MLIRError as error:
        invalid = UnknownBreakError(str(error))
        raise RewriteFailuresError([failure_of_passes(module, invalid)]) from None


def split_pipeline(text: str) -> Iterator[str]:
    """The comma-separated elements of a pipeline, their nesting left as it is.

    Raises `PassSyntaxError` when brackets don't match or an element is empty.
    """
    if not text.strip():
        return
    expected: list[str] = []
    start = 0
    for position, character in enumerate(text):
        if character in _OPENING:
            expected.append(_OPENING[character])
        elif character in _OPENING.values():
            if not expected or expected.pop() != character:
                raise PassSyntaxError(f"unexpected '{character}' in pass pipeline '{text}'")
        elif character == "," and not expected:
            yield _element(text, start, position)
            start = position + 1
    if expected:
        raise PassSyntaxError(f"missing '{expected[-1]}' in pass pipeline '{text}'")
    yield _element(text, start, len(text))


def _element(text: str, start: int, end: int) -> str:
    element = text[start:end].strip()
    if not element:
        raise PassSyntaxError(f"empty element in pass pipeline '{text}'")
    return element


def _add_own_pass(
    manager: PassManager, pass_: Pass, containment: Containment, fail: Callable[[BaseException], None]
) -> None:
    """Add `pass_`, which fails after `fail` was given what it raised: nothing is raised through MLIR."""
    name = pass_name(pass_)

    def run(operation: ir.Operation, external_pass: object) -> None:
        try:
            with operation.context, operation.location, containment.running(name, operation):
                pass_.run(operation)
        except BaseException as error:
            fail(error)
            external_pass.signal_pass_failure()  # type: ignore[attr-defined]

    run.__name__ = name
    manager.add(run, name=type(pass_).__name__, argument=printable(format_pass(pass_)))


def _report_failures(error: BaseException) -> None:
    """Emit an error with its trace for each failure; a `PassError` has its diagnostics."""
    if isinstance(error, RewriteFailuresError):
        for failure in error.failures:
            failure.location.emit_error(f"{failure}\n{failure.trace}")
    elif not isinstance(error, PassError):
        raise error
