"""The command line of `iree-compile`: our own flags, those of its main program, and all others."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iree.winograd.command_line.stock_flags import takes_next_argument
from iree.winograd.passes.infrastructure.option import FALSE_WORDS, TRUE_WORDS, Option, option, options_of
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.report.file import REPORT_FILES, is_report_path
from iree.winograd.targets import spelled_out

ENABLE = "iree-enable-winograd"
HELP_FLAGS = frozenset(f"{dashes}{name}" for dashes in ("-", "--") for name in ("help", "help-hidden", "h"))
VERSION_FLAGS = frozenset(("-version", "--version"))
OWN_PREFIX = "iree-winograd-"
"""Of our flags but the one that enables them."""
REPORT = "iree-winograd-report"


@dataclass(frozen=True)
class DriverOptions:
    """Our flags that are no options of the passes; `compile` has parameters of its own for them."""

    enable_winograd: bool = option(
        False,
        purpose="rewrite convolutions and fully connected layers; the others below have no effect without",
        flag=ENABLE,
    )
    report: str | None = option(
        None,
        REPORT_FILES,
        "say what each layer could have become, and why it became what it did",
        flag=REPORT,
        accepts=is_report_path,
    )


OWN_FLAGS = {
    each.flag: each for owner in (DriverOptions, WinogradOptions) for each in options_of(owner) if each.flag
}
"""Our flags, without dashes, and what they set."""

# The flags that the program `iree-compile` itself reads; IREE's library reads the others.
MAIN_BOOLEANS = (
    "emit-mlir-bytecode",
    "iree-hal-list-target-backends",
    "iree-list-plugins",
    "split-input-file",
    "verify",
)
_MAIN_VALUES = (
    "compile-from",
    "compile-mode",
    "compile-to",
    "dump-compilation-phases-to",
    "emit-mlir-bytecode-version",
    "o",
    "output-format",
    "remarks-filter",
    "remarks-output-file",
)


def flag_of(name: str) -> str:
    """The flag that sets the option `name`, without dashes."""
    return next(flag for flag, each in OWN_FLAGS.items() if each.name == name)


def is_own(argument: str) -> bool:
    """Whether an argument of `iree-compile` is a flag of ours."""
    name, _ = _split_flag(argument)
    return name in OWN_FLAGS


def help_text() -> str:
    """The section on our flags, laid out as in the help of the stock tool."""
    lines = (f"  --{_usage(each):<70} - {each.help}\n" for each in OWN_FLAGS.values())
    return f"iree-winograd options:\n\n{''.join(lines)}"


def _usage(flag: Option) -> str:
    return f"{flag.flag}" if flag.type is bool else f"{flag.flag}=<{'|'.join(flag.listed_values)}>"


class FlagError(Exception):
    """A flag of this project has a value that it doesn't take; the text is what LLVM's parser would say."""


@dataclass(frozen=True)
class CommandLine:
    """A command line of `iree-compile`, taken apart.

    `driver` and `options` are what our flags say, `stock` is the line without them; `main` holds the flags of
    the main program, the last of each winning, booleans as "true" or "false"; `inputs` the positional
    arguments; `library` all others, each with its value if it has one.
    """

    driver: DriverOptions
    options: WinogradOptions
    stock: tuple[str, ...]
    main: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    library: tuple[str, ...] = ()


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Take `arguments`, with response files expanded, apart.

    Raises `FlagError` for a bad value of one of our flags. Whatever else is wrong is left to the stock tool.
    """
    own: dict[str, object] = {}
    main: dict[str, str] = {}
    stock: list[str] = []
    inputs: list[str] = []
    library: list[str] = []
    remaining = deque(arguments)
    while remaining:
        argument = remaining.popleft()
        if argument == "--":
            stock += [argument, *remaining]
            inputs += remaining
            break
        name, value = _split_flag(argument)
        if name in OWN_FLAGS:
            flag = OWN_FLAGS[name]
            if value is None and flag.type is not bool:
                value = _required_value(name, remaining)
            own[flag.name] = _with_earlier(own.get(flag.name), _parse_own(flag, value))
            continue
        stock.append(argument)
        if name is None:
            inputs.append(argument)
        elif name in MAIN_BOOLEANS:
            main[name] = _boolean(value or "")
        elif name in _MAIN_VALUES:
            if value is None:
                value = _required_value(name, remaining)
                stock.append(value)
            main[name] = value
        elif value is None and remaining and takes_next_argument(argument):
            stock.append(remaining.popleft())
            library.append(f"{argument}={stock[-1]}")
        else:
            library.append(argument)
    driver = DriverOptions(**_values_of(DriverOptions, own))
    if driver.report is not None and main.get("split-input-file") == "true":
        raise FlagError(
            f"for the --{REPORT} option: it is on one program, but --split-input-file makes several"
        )
    return CommandLine(
        driver,
        WinogradOptions(**_values_of(WinogradOptions, own)),
        stock=tuple(stock),
        main=main,
        inputs=tuple(inputs),
        library=spelled_out(library),
    )


def expand_response_files(arguments: Sequence[str], active: tuple[Path, ...] = ()) -> Iterator[str]:
    """`arguments` with `@file` replaced by the arguments in that file, as LLVM's tools do it.

    One that can't be read is left for the stock tool to complain about.
    """
    for argument in arguments:
        path = Path(argument[1:])
        if (
            not argument.startswith("@")
            or path in active
            or not os.access(path, os.R_OK)
            or not path.is_file()
        ):
            yield argument
            continue
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
        # To LLVM an argument ends at a null character, as any string in C.
        tokens = [token.partition("\0")[0] for token in _tokenize(text)]
        yield from expand_response_files(tokens, (*active, path))


def _tokenize(text: str) -> Iterator[str]:
    """The arguments in a response file: blanks separate, quotes group, a backslash escapes."""
    token: str | None = None
    quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            token = (token or "") + next(characters, "\\")
        elif quote and character == quote:
            quote = ""
        elif quote:
            token = (token or "") + character
        elif character in "\"'":
            quote = character
            token = token or ""
        elif character.isspace():
            if token is not None:
                yield token
            token = None
        else:
            token = (token or "") + character
    if token is not None:
        yield token


def _split_flag(argument: str) -> tuple[str | None, str | None]:
    """The name and value of a flag, which one or two dashes lead; no name for a positional argument."""
    if len(argument) < 2 or not argument.startswith("-"):
        return None, None
    name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
    return name, value if equals else None


def _required_value(name: str, remaining: deque[str]) -> str:
    if not remaining:
        dashes = "-" if len(name) == 1 else "--"
        raise FlagError(f"for the {dashes}{name} option: requires a value!")
    return remaining.popleft()


def _boolean(value: str) -> str:
    """ "true", "false", or `value` when it is neither."""
    if value in TRUE_WORDS:
        return "true"
    return "false" if value in FALSE_WORDS else value


def _parse_own(flag: Option, value: str | None) -> object:
    try:
        return flag.parse(value)
    except ValueError as error:
        raise FlagError(f"for the --{flag.flag} option: {error}") from None


def _with_earlier(earlier: object, value: object) -> object:
    """What a flag that is given again means: lists grow, other values replace what was there."""
    return (*earlier, *value) if isinstance(earlier, tuple) and isinstance(value, tuple) else value


def _values_of(options_class: type, own: Mapping[str, object]) -> dict[str, Any]:
    return {each.name: own[each.name] for each in options_of(options_class) if each.name in own}
