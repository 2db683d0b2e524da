"""Textual pass pipelines that mix this project's passes with IREE's and MLIR's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from iree.winograd.dialect.bindings import PassManager, ir
from iree.winograd.ir_dumps import IRDumps
from iree.winograd.passes.registry import (
    Pass,
    PassError,
    PassSyntaxError,
    format_pass,
    import_passes,
    parse_pass,
    pass_name,
    registered_passes,
)

_ANCHOR = "builtin.module"
_OPENING = {"{": "}", "(": ")", "[": "]"}


def load_passes() -> dict[str, type]:
    """Register every pass of the project; returns them by name."""
    import_passes("iree.winograd.passes")
    import_passes("iree.winograd.pipelines")
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
            _add_own_pass(manager, parse_pass(element))
            continue
        try:
            manager.add(element)
        except ValueError as error:
            raise PassSyntaxError(str(error).strip()) from None
    return manager


def run_passes(module: ir.Operation, passes: Iterable[Pass], dumps: IRDumps) -> None:
    """Run `passes` on `module`, printing it as `dumps` say.

    Raises MLIRError when a pass fails, after error diagnostics, and whatever else a pass raises.
    """
    for pass_ in passes:
        manager = PassManager(_ANCHOR, module.context)
        _add_own_pass(manager, pass_)
        dumps.enable(manager, pass_name(pass_))
        manager.run(module)


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


def _add_own_pass(manager: PassManager, pass_: Pass) -> None:
    manager.add(_run_function(pass_), name=type(pass_).__name__, argument=format_pass(pass_))


def _run_function(pass_: Pass) -> Callable[[ir.Operation, object], None]:
    def run(operation: ir.Operation, external_pass: object) -> None:
        with operation.context, operation.location:
            try:
                pass_.run(operation)
            except PassError:
                external_pass.signal_pass_failure()  # type: ignore[attr-defined]

    run.__name__ = pass_name(pass_)
    return run
