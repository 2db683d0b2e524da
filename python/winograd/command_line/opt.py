"""`winograd-opt`: run passes of this project, of IREE and of MLIR on a file."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from iree.winograd import __version__
from iree.winograd.command_line.expected_diagnostics import check_diagnostics
from iree.winograd.compiling.diagnostics import capture_diagnostics, capture_remarks
from iree.winograd.compiling.pass_pipeline import build_pass_manager, load_passes, parse_pass_pipeline
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import PassManager, ir
from iree.winograd.passes.infrastructure.option import options_of
from iree.winograd.passes.infrastructure.registry import PassSyntaxError

_SPLIT_MARKER = re.compile(r"^// -----.*$", re.MULTILINE)
# A location is printed with the name of the file; text that was parsed from memory is named so by MLIR.
_MEMORY_NAME = "-"
_PASS_SYNTAX = "a pass is written --NAME or --NAME='option=value ...'"


class Optimizer:
    """One run over one piece of input: its context, and the diagnostics emitted in it."""

    def __init__(self, source: str, filename: str, arguments: argparse.Namespace) -> None:
        self.source = source
        self.filename = filename
        self.arguments = arguments
        self.diagnostics: list[Diagnostic] = []
        self.context = ir.Context()
        # Its workers would wait for ever to report an error to this thread.
        self.context.enable_multithreading(False)
        self.context.allow_unregistered_dialects = True
        capture_diagnostics(self.context, self._report)
        capture_remarks(self.context, self._report)

    def run(self) -> str | None:
        """The rewritten module as text; None when it didn't parse, verify, or when a pass failed.

        Raises `PassSyntaxError` when the pass pipeline can't be read.
        """
        try:
            module = ir.Module.parse(self.source, self.context)
        except ir.MLIRError:
            return None
        manager = self._pass_manager()
        try:
            manager.run(module.operation)
        except ir.MLIRError:
            return None
        arguments = self.arguments
        text: str = module.operation.get_asm(
            enable_debug_info=arguments.mlir_print_debuginfo,
            large_elements_limit=arguments.mlir_elide_elementsattrs_if_larger,
            large_resource_limit=arguments.mlir_elide_resource_strings_if_larger,
            print_generic_op_form=arguments.mlir_print_op_generic,
            use_local_scope=arguments.mlir_print_local_scope,
            use_name_loc_as_prefix=arguments.mlir_use_nameloc_as_prefix,
        )
        return text if text.endswith("\n") else text + "\n"

    def problems(self) -> list[Diagnostic]:
        """Where the diagnostics differ from what the source's comments expect."""
        return check_diagnostics(self.source, self.filename, self.diagnostics)

    def print_diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            print(diagnostic.format(self.source), file=sys.stderr)

    def _pass_manager(self) -> PassManager:
        arguments = self.arguments
        if arguments.pass_pipeline is not None:
            manager = parse_pass_pipeline(arguments.pass_pipeline, self.context)
        else:
            manager = build_pass_manager(arguments.passes, self.context)
        manager.enable_verifier(arguments.verify_each)
        prints_before = arguments.mlir_print_ir_before_all
        prints_after = (
            arguments.mlir_print_ir_after_all
            or arguments.mlir_print_ir_after_change
            or arguments.mlir_print_ir_after_failure
        )
        if prints_before or prints_after:
            manager.enable_ir_printing(
                print_before_all=prints_before,
                print_after_all=prints_after,
                print_module_scope=arguments.mlir_print_ir_module_scope,
                print_after_change=arguments.mlir_print_ir_after_change,
                print_after_failure=arguments.mlir_print_ir_after_failure,
                large_elements_limit=arguments.mlir_elide_elementsattrs_if_larger,
                large_resource_limit=arguments.mlir_elide_resource_strings_if_larger,
                enable_debug_info=arguments.mlir_print_debuginfo,
                print_generic_op_form=arguments.mlir_print_op_generic,
            )
        if arguments.mlir_timing:
            manager.enable_timing()
        return manager

    def _report(self, diagnostic: Diagnostic) -> None:
        position = diagnostic.position
        if position is not None and position.filename == _MEMORY_NAME:
            diagnostic = replace(diagnostic, position=replace(position, filename=self.filename))
        self.diagnostics.append(diagnostic)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `winograd-opt` command; returns its exit code."""
    parsed = _parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        source, filename = _read_input(parsed.input)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        print(f"cannot open input file '{parsed.input}': {reason}", file=sys.stderr)
        return 1
    try:
        outputs, succeeded = _run_chunks(source, filename, parsed)
    except PassSyntaxError as error:
        print(f"winograd-opt: {error}", file=sys.stderr)
        return 1
    if outputs is not None and (succeeded or parsed.split_input_file):
        text = "// -----\n\n".join(outputs)
        try:
            _write_output(parsed.output, text)
        except OSError as error:
            print(f"cannot open output file '{parsed.output}': {error.strerror}", file=sys.stderr)
            return 1
    return 0 if succeeded else 1


def _run_chunks(source: str, filename: str, arguments: argparse.Namespace) -> tuple[list[str] | None, bool]:
    outputs: list[str] = []
    succeeded = True
    for chunk in _split(source) if arguments.split_input_file else [source]:
        optimizer = Optimizer(chunk, filename, arguments)
        text = optimizer.run()
        if arguments.verify_diagnostics:
            problems = optimizer.problems()
            optimizer.print_diagnostics(problems)
            succeeded = succeeded and not problems
            continue
        optimizer.print_diagnostics(optimizer.diagnostics)
        if text is None:
            succeeded = False
        else:
            outputs.append(text)
    return (None if arguments.verify_diagnostics else outputs), succeeded


def _split(source: str) -> list[str]:
    """The parts of `source` between `// -----` lines, each led by empty lines so that line numbers hold."""
    chunks = []
    start = 0
    for end in [*(match.start() for match in _SPLIT_MARKER.finditer(source)), len(source)]:
        chunks.append("\n" * source.count("\n", 0, start) + source[start:end])
        start = end
    return chunks


def _read_input(path: str) -> tuple[str, str]:
    if path == "-":
        return sys.stdin.read(), "<stdin>"
    return Path(path).read_text(encoding="utf-8"), path


def _write_output(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def _parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="winograd-opt",
        usage="%(prog)s [--NAME[='option=value ...'] ...] [options] [FILE]",
        description="Run passes of iree-winograd, IREE and MLIR on an MLIR file; without one, or for '-', on "
        "standard input.",
        epilog="--NAME or --NAME='option=value ...' runs the pass of that name, of IREE, MLIR or these:\n\n"
        + "\n".join(_pass_help(name, pass_class) for name, pass_class in load_passes().items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("-o", dest="output", default="-", help="output file; '-' writes to stdout")
    parser.add_argument("--pass-pipeline", help="'builtin.module(pass{option=value},util.func(pass),...)'")
    parser.add_argument(
        "--split-input-file", action="store_true", help="process parts between '// -----' one by one"
    )
    parser.add_argument(
        "--verify-diagnostics", action="store_true", help="check diagnostics against expected-* comments"
    )
    parser.add_argument(
        "--verify-each", type=_boolean, default=True, metavar="{true,false}", help="verify after each pass"
    )
    parser.add_argument("--mlir-timing", action="store_true", help="report the time each pass takes")
    printing = parser.add_argument_group("printing")
    for flag in (
        "--mlir-print-ir-after-all",
        "--mlir-print-ir-after-change",
        "--mlir-print-ir-after-failure",
        "--mlir-print-ir-before-all",
        "--mlir-print-ir-module-scope",
        "--mlir-print-debuginfo",
        "--mlir-print-local-scope",
        "--mlir-print-op-generic",
        "--mlir-use-nameloc-as-prefix",
    ):
        printing.add_argument(flag, action="store_true")
    printing.add_argument("--mlir-elide-elementsattrs-if-larger", type=int, metavar="N")
    printing.add_argument("--mlir-elide-resource-strings-if-larger", type=int, metavar="N")
    # A positional argument would take passes for files: argparse does when their options hold spaces.
    parsed, others = parser.parse_known_args(arguments)
    files = [argument for argument in others if argument == "-" or not argument.startswith("-")]
    if len(files) > 1:
        parser.error(f"more than one file: {', '.join(map(repr, files))}; {_PASS_SYNTAX}")
    parsed.input = files[0] if files else "-"
    parsed.passes = [_pass_of_flag(parser, argument) for argument in others if argument not in files]
    if parsed.pass_pipeline is not None and parsed.passes:
        parser.error("--pass-pipeline and passes by flag can't be used together")
    return parsed


def _pass_of_flag(parser: argparse.ArgumentParser, flag: str) -> str:
    name, _, options = flag.partition("=")
    if not name.startswith("--"):
        parser.error(f"unexpected argument {flag!r}; {_PASS_SYNTAX}")
    return f"{name[2:]}{{{options}}}" if options else name[2:]


def _pass_help(name: str, pass_class: type) -> str:
    summary = (pass_class.__doc__ or "").partition("\n")[0]
    options = (
        f"      {option.text_name}=<{'|'.join(option.listed_values)}>  {option.help}"
        for option in options_of(pass_class)
    )
    return "\n".join([f"  --{name}", f"      {summary}", *options])


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"'{text}' is not 'true' or 'false'")
    return text == "true"


if __name__ == "__main__":
    sys.exit(main())
