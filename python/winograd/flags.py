"""The command line of `iree-compile`: our own flags, those of its main program, and all others."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iree.winograd.pipelines.selection.options import MAX_OUTPUT_TILE, WinogradOptions
from iree.winograd.report.file import check_report_path
from iree.winograd.stock_flags import takes_next_argument

ENABLE = "iree-enable-winograd"
OUTPUT_TILE = "iree-winograd-output-tile"
FOLD_FILTERS = "iree-winograd-fold-filters"
REMARKS = "iree-winograd-remarks"
ALLOW = "iree-winograd-allow-layers"
DENY = "iree-winograd-deny-layers"
MAX_RELATIVE_ERROR = "iree-winograd-max-relative-error"
THREADS = "iree-winograd-threads"
REPORT = "iree-winograd-report"
TUNING_DATABASE = "iree-winograd-tuning-database"
MACHINE = "iree-winograd-machine"
STRICT = "iree-winograd-strict"

_OWN_BOOLEANS = (ENABLE, REMARKS, STRICT)
_OWN_CHOICES = {
    OUTPUT_TILE: ("auto", *map(str, range(1, MAX_OUTPUT_TILE + 1))),
    FOLD_FILTERS: ("compile", "load"),
}
_OWN_LISTS = (ALLOW, DENY)
_OWN_VALUES = (MAX_RELATIVE_ERROR, THREADS, REPORT, TUNING_DATABASE, MACHINE)
_OWN = (*_OWN_BOOLEANS, *_OWN_CHOICES, *_OWN_LISTS, *_OWN_VALUES)

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

_PATTERNS = "numbers from 0 in program order, ranges (4-7), globs on location names"

_TRUE = ("", "true", "TRUE", "True", "1")
_FALSE = ("false", "FALSE", "False", "0")

_HELP = (
    (ENABLE, "Rewrite convolutions to Winograd and related fast forms."),
    (f"{ALLOW}=<pattern>,...", f"Rewrite only these convolutions: {_PATTERNS}"),
    (f"{DENY}=<pattern>,...", f"Leave these convolutions as they are: {_PATTERNS}"),
    (
        f"{FOLD_FILTERS}=<value>",
        "When constant filters are transformed: compile (default) or load time",
    ),
    (
        f"{MACHINE}=<file>",
        "Predict times for this machine, as `iree-winograd calibrate --output` writes it",
    ),
    (
        f"{MAX_RELATIVE_ERROR}=<number>",
        "Give no convolution an algorithm with a larger predicted error, relative to its output",
    ),
    (f"{OUTPUT_TILE}=<value>", f"Outputs per tile and dimension: 1 to {MAX_OUTPUT_TILE}, or auto (default)"),
    (REMARKS, "Say of every convolution what it became, or why it was left."),
    (
        f"{REPORT}=<file>",
        "Say in a .json or .html file what each convolution could have become, and the reason for the choice",
    ),
    (STRICT, "Make every failure of these passes an error, with a trace to report"),
    (
        f"{THREADS}=<value>",
        "Threads that the program is going to run on, on a CPU: a number, or auto (default) for one per core",
    ),
    (
        f"{TUNING_DATABASE}=<file>",
        "Where iree-winograd tune has measured a convolution, take what was fastest instead of predictions",
    ),
)


def help_text() -> str:
    """The section on our flags, laid out as in the help of the stock tool."""
    flags = "".join(f"  --{flag:<70} - {text}\n" for flag, text in _HELP)
    return f"iree-winograd options:\n\n{flags}"


class FlagError(Exception):
    """A flag of this project has a value that it doesn't take; the text is what LLVM's parser would say."""


@dataclass(frozen=True)
class CommandLine:
    """A command line of `iree-compile`, taken apart.

    `stock` is the line without our flags; `main` holds the flags of the main program, the last of each
    winning, booleans as "true" or "false"; `inputs` the positional arguments; `library` all others, each
    with its value if it has one. `report` is the file to describe decisions in.
    """

    enable_winograd: bool
    options: WinogradOptions
    stock: tuple[str, ...]
    main: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    library: tuple[str, ...] = ()
    report: str | None = None


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Take `arguments`, with response files expanded, apart.

    Raises `FlagError` for a bad value of one of our flags. Whatever else is wrong is left to the stock tool.
    """
    own: dict[str, list[str]] = {}
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
        if name in _OWN:
            if value is None and name not in _OWN_BOOLEANS:
                value = _required_value(name, remaining)
            own.setdefault(name, []).append(_check_own(name, value or ""))
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
    report = own.get(REPORT, [None])[-1]
    if report is not None and main.get("split-input-file") == "true":
        raise FlagError(
            f"for the --{REPORT} option: it is on one program, but --split-input-file makes several"
        )
    return CommandLine(
        enable_winograd=own.get(ENABLE, ["false"])[-1] == "true",
        options=_make_options(own),
        stock=tuple(stock),
        main=main,
        inputs=tuple(inputs),
        library=tuple(library),
        report=report,
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
    if value in _TRUE:
        return "true"
    return "false" if value in _FALSE else value


def _check_own(name: str, value: str) -> str:
    if name in _OWN_BOOLEANS:
        checked = _boolean(value)
        if checked not in ("true", "false"):
            raise FlagError(
                f"for the --{name} option: '{value}' is invalid value for boolean argument! Try 0 or 1"
            )
        return checked
    if name in _OWN_CHOICES and value not in _OWN_CHOICES[name]:
        raise FlagError(f"for the --{name} option: Cannot find option named '{value}'!")
    if name in _OWN_LISTS and not all(value.split(",")):
        raise FlagError(f"for the --{name} option: '{value}' holds an empty pattern")
    if name == THREADS and value != "auto" and not (value.isdecimal() and int(value) > 0):
        raise FlagError(f"for the --{name} option: '{value}' is neither a positive integer nor auto")
    if name == MAX_RELATIVE_ERROR and not _is_positive(value):
        raise FlagError(f"for the --{name} option: '{value}' is no positive number")
    if name in (TUNING_DATABASE, MACHINE) and not value:
        raise FlagError(f"for the --{name} option: requires a value!")
    if name == REPORT:
        try:
            check_report_path(value)
        except ValueError as error:
            raise FlagError(f"for the --{name} option: {error}") from None
    return value


def _is_positive(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False


def _make_options(own: Mapping[str, Sequence[str]]) -> WinogradOptions:
    output_tile = own.get(OUTPUT_TILE, ["auto"])[-1]
    max_relative_error = own.get(MAX_RELATIVE_ERROR, [None])[-1]
    threads = own.get(THREADS, ["auto"])[-1]
    return WinogradOptions(
        output_tile=None if output_tile == "auto" else int(output_tile),
        fold_filters="load" if own.get(FOLD_FILTERS, [""])[-1] == "load" else "compile",
        remarks=own.get(REMARKS, ["false"])[-1] == "true",
        allow=_patterns(own.get(ALLOW, [])),
        deny=_patterns(own.get(DENY, [])),
        max_relative_error=None if max_relative_error is None else float(max_relative_error),
        threads=None if threads == "auto" else int(threads),
        tuning_database=own.get(TUNING_DATABASE, [None])[-1],
        machine=own.get(MACHINE, [None])[-1],
        strict=own.get(STRICT, ["false"])[-1] == "true",
    )


def _patterns(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(pattern for value in values for pattern in value.split(","))
