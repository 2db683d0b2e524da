"""Passes by name: registration, and the `name{option-name=value ...}` text that MLIR uses for pass options.

A pass is a class whose `run` does the work; with options it is a frozen dataclass, whose fields they are:

    @register_pass("winograd-convert-conv")
    @dataclass(frozen=True)
    class ConvertConv:
        \"\"\"Rewrite annotated convolutions to winograd ops.\"\"\"

        output_tile: int | None = option(None, "1 to 8", "outputs per tile and dimension")

        def run(self, module: ir.Operation) -> None: ...

The text form is `winograd-convert-conv{output-tile=4}`, with what `option` declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Protocol, TypeVar

from iree.winograd.passes.infrastructure.option import options_of

if TYPE_CHECKING:
    from iree.winograd.dialect.bindings import ir


class Pass(Protocol):
    """What every registered pass provides."""

    def run(self, module: ir.Operation) -> None:
        """Rewrite `module`, a `builtin.module`, in place.

        Raises `PassError` after it has emitted an error diagnostic with a location.
        """


class PassError(Exception):
    """A pass emitted an error diagnostic and can't go on."""


class PassSyntaxError(ValueError):
    """A pass name that isn't registered, or options that its fields can't hold."""


PassClass = TypeVar("PassClass", bound=type)

_passes: dict[str, type] = {}
_names: dict[type, str] = {}

# An option list is space separated; a value may be quoted or braced to hold spaces of its own.
_OPTION = re.compile(
    r"\s*(?P<name>[A-Za-z0-9_-]+)\s*(?:=\s*(?P<value>\{[^{}]*\}|\"[^\"]*\"|'[^']*'|[^\s{}\"']+))?\s*"
)


def register_pass(name: str) -> Callable[[PassClass], PassClass]:
    """Class decorator that makes a pass available to pipelines as `name`."""

    def register(pass_class: PassClass) -> PassClass:
        if get_annotations(pass_class) and not is_dataclass(pass_class):
            raise TypeError(f"pass {name!r} has fields, so that {pass_class.__name__} must be a dataclass")
        if name in _passes:
            raise ValueError(
                f"pass {name!r} is registered twice: {_passes[name].__name__}, {pass_class.__name__}"
            )
        _passes[name] = pass_class
        _names[pass_class] = name
        return pass_class

    return register


def registered_passes() -> dict[str, type]:
    """All registered passes by name, in alphabetical order."""
    return dict(sorted(_passes.items()))


def pass_name(pass_: Pass) -> str:
    """The name that the class of `pass_` is registered under."""
    return _names[type(pass_)]


def parse_pass(text: str) -> Pass:
    """Build the pass that `name` or `name{option-name=value ...}` describes.

    Raises `PassSyntaxError` that names the pass, the option and what it accepts.
    """
    name, brace, rest = text.strip().partition("{")
    name = name.strip()
    if name not in _passes:
        raise PassSyntaxError(f"'{name}' does not refer to a registered pass")
    if brace and not rest.endswith("}"):
        raise PassSyntaxError(f"missing '}}' after the options of '{name}'")
    pass_class = _passes[name]
    options = {option.text_name: option for option in options_of(pass_class)}
    values: dict[str, object] = {}
    for text_name, value in _split_options(name, rest[:-1] if brace else ""):
        if text_name not in options:
            known = ", ".join(options) or "none"
            raise PassSyntaxError(f"'{name}' has no option '{text_name}' (its options: {known})")
        option = options[text_name]
        try:
            values[option.name] = option.parse(value)
        except ValueError as error:
            raise PassSyntaxError(f"option '{text_name}' of '{name}': {error}") from None
    try:
        return pass_class(**values)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise PassSyntaxError(f"'{name}': {error}") from None


def format_pass(pass_: Pass) -> str:
    """The text that `parse_pass` reads back as `pass_`; options that have their default are left out."""
    options = []
    for option in options_of(type(pass_)):
        value = getattr(pass_, option.name)
        if value != option.default:
            options.append(f"{option.text_name}={_format_value(value)}")
    return pass_name(pass_) + ("{" + " ".join(options) + "}" if options else "")


def _split_options(name: str, text: str) -> Iterator[tuple[str, str | None]]:
    position = 0
    while position < len(text.rstrip()):
        match = _OPTION.match(text, position)
        if match is None or match.end() == position:
            raise PassSyntaxError(f"can't read the options of '{name}' from '{text[position:].strip()}' on")
        value = match["value"]
        if value is not None and value[0] in "{\"'":
            value = value[1:-1]
        yield match["name"], value
        position = match.end()


def _format_value(value: object) -> str:
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(_format_value(element) for element in value)
    text = str(value)
    return f"'{text}'" if not text or re.search(r"[\s{}\"]", text) else text
