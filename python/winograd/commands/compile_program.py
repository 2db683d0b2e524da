"""`iree-winograd compile`: `iree-compile` with our flag, for this machine unless it is told otherwise."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd import __version__
from iree.winograd.atomic_file import STANDARD_STREAM
from iree.winograd.command_line.flags import (
    ENABLE,
    HELP_FLAGS,
    OWN_FLAGS,
    OWN_PREFIX,
    VERSION_FLAGS,
    CommandLine,
    FlagError,
    expand_response_files,
    parse_command_line,
)
from iree.winograd.command_line.front import Front
from iree.winograd.command_line.interruption import end_on_interrupt, silent_interrupts
from iree.winograd.command_line.parser import CommandParser
from iree.winograd.command_line.progress import Progress
from iree.winograd.command_line.suggestion import most_similar
from iree.winograd.commands import onnx_options
from iree.winograd.commands.files import input_problem
from iree.winograd.errors import InvalidOptionError
from iree.winograd.importers.import_model import import_onnx, is_onnx
from iree.winograd.passes.infrastructure.option import Option
from iree.winograd.targets import target_flags

if TYPE_CHECKING:
    from iree.winograd.compiling.compilation import Compilation
    from iree.winograd.importers.imported_model import ImportedModel

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

PROGRAM = "iree-winograd compile"
_TARGET_FLAGS = ("iree-hal-target-", "iree-hal-local-target-")
"""What flags that say what to compile for contain."""
_SIZE_HINT = "size-hint"
"""A flag of `iree-compile` that takes sizes in order, here also by the names that an ONNX model has."""
SHORT_FLAGS = {
    name: flag
    for flag in OWN_FLAGS
    if flag != ENABLE and (name := flag.removeprefix(OWN_PREFIX)) != _SIZE_HINT
}
"""The other flags of ours of `iree-compile` by their names here, without dashes."""
_GROUPS: dict[str, dict[str, str | None]] = {
    "how layers are computed": {
        "threads": "N",
        "output-tile": "1-8",
        "max-relative-error": "ERROR",
        "allow-layers": "PATTERNS",
        "deny-layers": "PATTERNS",
    },
    "which times count": {"tuning-database": "FILE", "machine": "FILE"},
    "what is written": {"fold-filters": "auto|compile|load", "ptxas": "PROGRAM"},
    "what is said": {"report": "FILE.html|txt|json", "remarks": None, "strict": None},
}
"""Of our flags for the help, each with what stands for its value there, if it has one."""
_OTHERS = "how layers are computed"
"""The group of flags that are in none."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand, for help and completion: `run` takes its arguments, argparse would change some."""
    parser = subparsers.add_parser(
        "compile", help="compile a program or an ONNX model", parents=[options_parser()], add_help=False
    )
    parser.add_argument("program", metavar="PROGRAM", nargs="*")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Runs the subcommand with flags of `iree-compile` and those of `options_parser`; returns its exit code.

    Without a flag that says what to compile for it is the CPU of this machine. An ONNX model becomes a
    `.vmfb` of its name in the current folder, unless `-o` says otherwise; anything else that is asked for
    goes to the standard output.
    """
    parser = options_parser()
    own, rest = divided(list(expand_response_files(arguments)))
    if not arguments or HELP_FLAGS & set(rest):
        parser.print_help(sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    options = parser.parse_args(own)
    try:
        return _run(options, rest)
    except (FlagError, InvalidOptionError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    with silent_interrupts():
        from iree.winograd.command_line import driver

    if options.help_iree:
        driver.become_stock_tool(["--help"])
    target = options.target
    if target is None and not any(flag in argument for argument in rest for flag in _TARGET_FLAGS):
        target = "cpu"
    flags = [f"--{ENABLE}", *(() if target is None else target_flags(target)), *rest]
    command_line = parse_command_line(flags)
    if VERSION_FLAGS & set(command_line.library):
        print(f"iree-winograd {__version__}", flush=True)
        driver.become_stock_tool(["--version"])
    of_model = onnx_options.import_arguments(options)
    models = [path for path in command_line.inputs if is_onnx(path)]
    if of_model and command_line.inputs and not models:
        raise InvalidOptionError(onnx_options.ONLY_ONNX)
    _check_inputs(command_line)
    program = f"{Path(models[0]).stem}.vmfb" if models else STANDARD_STREAM
    if program == STANDARD_STREAM and "o" not in command_line.main and _writes_to_terminal(command_line):
        raise InvalidOptionError("a compiled program is nothing for a terminal: say where it goes by -o FILE")
    return driver.main(flags, _CompileCommand(options, of_model, program))


class _CompileCommand(Front):
    """The command, which says what became of a program and what it is doing, and names flags better."""

    def __init__(self, options: argparse.Namespace, of_model: Mapping[str, Any], program: str) -> None:
        super().__init__(Progress(options.progress, is_quiet=options.quiet))
        self.program = program
        self._of_model = of_model
        self._is_quiet = options.quiet

    def read_onnx(self, path: str) -> ImportedModel:
        return import_onnx(path, **self._of_model)

    def refusal(self, command_line: CommandLine) -> str | None:
        refusal = _refusal(command_line)
        return None if refusal is None else f"{PROGRAM}: {refusal}"

    def watch_for_interrupts(self) -> None:
        end_on_interrupt()

    def finish(self, compilation: Compilation, output: str) -> None:
        if self._is_quiet or sys.stderr is None:
            return
        # It takes what only compiles that succeed have imported.
        from iree.winograd.report.summary import summary

        is_file = output != STANDARD_STREAM and os.path.isfile(output)
        size = os.path.getsize(output) if is_file else None
        name = output if is_file else "the program"
        for line in summary(compilation.decisions, compilation.failures, size):
            print(f"{name}: {line}", file=sys.stderr)


def _refusal(command_line: CommandLine) -> str | None:
    """Which flags neither this command nor the stock tool knows, and what may have been meant."""
    from iree.winograd.command_line.unknown_flags import stock_flags, unknown_flags

    flags = [each for each in command_line.stock if each not in command_line.inputs]
    unknown = unknown_flags(flags)
    if not unknown:
        return None
    known = [*_option_names(), *OWN_FLAGS, *stock_flags()]
    lines = []
    for flag in unknown:
        meant = most_similar(flag, known)
        hint = "" if meant is None else f"; did you mean '--{meant}'?"
        lines.append(f"unknown flag '{flag}'{hint}")
    return "\n".join([*lines, f"see {PROGRAM} --help, and --help-iree for the flags of iree-compile"])


def options_parser() -> CommandParser:
    """Of the options that the stock tool doesn't know; its help has our flags as well."""
    parser = CommandParser(
        prog=PROGRAM,
        usage="%(prog)s PROGRAM [-o FILE] [options] [flags of iree-compile]",
        description="Compiles MLIR, text or bytecode, or an ONNX model, by default for this machine's CPU.",
        epilog="Any flag of iree-compile may be given as well: --help-iree lists them. There the flags above "
        f"from --threads on have the prefix --{OWN_PREFIX}.",
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
    )
    what = parser.add_argument_group("what to compile")
    what.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="the compiled program; by default the name of an ONNX model with .vmfb, else standard output",
    )
    what.add_argument("--target", help="cpu, vulkan, cuda or hip, with a chip if need be: cuda:sm_80")
    onnx_options.add_arguments(what)
    grouped = {name for names in _GROUPS.values() for name in names}
    others = {name: _value_of(OWN_FLAGS[flag]) for name, flag in SHORT_FLAGS.items() if name not in grouped}
    for title, names in _GROUPS.items():
        group = parser.add_argument_group(title)
        for name, value in (names | others if title == _OTHERS else names).items():
            text = OWN_FLAGS[SHORT_FLAGS[name]].help
            if value is None:
                group.add_argument(f"--{name}", action="store_true", help=text)
            else:
                group.add_argument(f"--{name}", metavar=value, help=text)
        if names == _GROUPS["what is said"]:
            group.add_argument("--quiet", action="store_true", help="say nothing when all went well")
            group.add_argument(
                "--progress", action="store_true", help="say what is being done, also where no terminal is"
            )
            group.add_argument("--help", "-h", action="store_true", help="say this")
            group.add_argument("--help-iree", action="store_true", help="list the flags of iree-compile")
            group.add_argument(
                "--version", action="store_true", help="print the versions of this and of IREE"
            )
    return parser


def _value_of(option: Option) -> str | None:
    """What stands for the value of a flag in the help; None where it has none."""
    if option.type is bool:
        return None
    are_words = all(re.fullmatch(r"[\w-]+", value) for value in option.listed_values)
    return "|".join(option.listed_values) if are_words else "VALUE"


def _option_names() -> Collection[str]:
    """Of all that the help of the command lists, without dashes."""
    return [name.lstrip("-") for action in options_parser()._actions for name in action.option_strings]


def divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What `options_parser` is to parse, each with its value, and the flags and inputs of `iree-compile`.

    Our flags are among the latter, by their names there.
    """
    parser = options_parser()
    takes_value = {
        name: action.nargs != 0
        for action in parser._actions
        for name in action.option_strings
        if name.lstrip("-") not in ("o", "help", "h", "version", *SHORT_FLAGS)
    }
    own: list[str] = []
    rest: list[str] = []
    remaining = deque(arguments)
    while remaining:
        argument = remaining.popleft()
        if argument == "--":
            rest += [argument, *remaining]
            break
        name, equals, value = argument.partition("=")
        if name.startswith("--") and name[2:] in SHORT_FLAGS:
            rest.append(f"--{SHORT_FLAGS[name[2:]]}{equals}{value}")
        elif name in takes_value:
            if takes_value[name] and not equals and remaining:
                value = remaining.popleft()
                argument = f"{name}={value}"
            if name == f"--{_SIZE_HINT}" and "=" not in value:
                rest.append(f"--{OWN_PREFIX}{_SIZE_HINT}={value}")
            else:
                own.append(argument)
        else:
            rest.append(argument)
    return own, rest


def _check_inputs(command_line: CommandLine) -> None:
    """Raises `InvalidOptionError` for what can't be compiled, as far as that is to be seen from outside."""
    inputs = command_line.inputs
    if len(inputs) != 1:
        # What looks like an input may be the value of a flag that nobody knows.
        if refusal := _refusal(command_line):
            raise InvalidOptionError(refusal)
        given = f"one at a time, not {', '.join(inputs)}" if inputs else "none is given"
        raise InvalidOptionError(f"a program to compile is needed, {given}; see {PROGRAM} --help")
    if problem := input_problem(inputs[0]):
        raise InvalidOptionError(problem)


def _writes_to_terminal(command_line: CommandLine) -> bool:
    """Whether the standard output is a terminal, and gets what isn't text."""
    main = command_line.main
    is_text = (
        main.get("compile-to", "end") != "end" or main.get("output-format", "vm-bytecode") != "vm-bytecode"
    )
    return not is_text and sys.stdout is not None and sys.stdout.isatty()
