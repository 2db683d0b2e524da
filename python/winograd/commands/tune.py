"""`iree-winograd tune`: measures implementations of a program's convolutions for the tuning database."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import textwrap
from typing import TYPE_CHECKING, NoReturn

from iree.winograd.command_line.interruption import INTERRUPTED, silent_interrupts
from iree.winograd.commands import onnx_options
from iree.winograd.commands.files import input_problem
from iree.winograd.errors import InvalidOptionError, WinogradError
from iree.winograd.importers.import_model import import_onnx, is_onnx
from iree.winograd.targets import TARGET_OF_DRIVER, driver_name

if TYPE_CHECKING:
    from iree.winograd.compiling.program import Source

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3600}


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status.

    What is parsed into has to have `flags`, those of `iree-compile`.
    """
    parser = subparsers.add_parser(
        "tune",
        help="measure implementations of a program's convolutions",
        usage="%(prog)s PROGRAM [-o FILE] [options] [-- flags of iree-compile]",
        description="Measures implementations of the convolutions of a program on a device, and records "
        "them in a tuning database, which iree-compile takes by --iree-winograd-tuning-database. May be "
        "interrupted at any time; the next run goes on from there. Flags after -- are those that the program "
        "is going to be compiled with.",
    )
    parser.add_argument(
        "program", metavar="PROGRAM", help="MLIR text or bytecode, - for standard input, or an .onnx"
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="compile the program, too, with what is fastest, to a .vmfb",
    )
    parser.add_argument(
        "--device",
        default="local-task",
        metavar="DEVICE",
        help=f"{', '.join(TARGET_OF_DRIVER)}, as a URI of IREE's runtime: cuda://1, say; by default "
        "local-task, this machine's CPU",
    )
    parser.add_argument(
        "--target",
        help="the target that is compiled for, e.g. cuda:sm_80 or cpu:znver4; the device's by default",
    )
    parser.add_argument(
        "--threads", type=int, help="threads of local-task; one for each core of the machine by default"
    )
    parser.add_argument(
        "--budget", type=_seconds, default=600.0, metavar="TIME", help="90s, 10min or 1h; 10min by default"
    )
    parser.add_argument(
        "--database",
        metavar="FILE",
        default="winograd-tuning.db",
        help="created when there is none; winograd-tuning.db by default",
    )
    parser.add_argument(
        "--max-relative-error",
        type=float,
        metavar="ERROR",
        help="as --iree-winograd-max-relative-error of iree-compile",
    )
    parser.add_argument("--machine", metavar="FILE", help="as --iree-winograd-machine of iree-compile")
    parser.add_argument(
        "--workers", type=int, help="processes that compile; one for each processor by default"
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="compile and measure by the workers of the Dask cluster there, e.g. tcp://head:8786",
    )
    onnx_options.add_arguments(parser)
    parser.set_defaults(run=lambda options: run(options, parser))
    return parser


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Runs the subcommand. Impossible options end the process through `parser.error`."""
    driver = driver_name(options.device)
    if driver not in TARGET_OF_DRIVER:
        parser.error(f"--device must be one of {', '.join(TARGET_OF_DRIVER)}, not {options.device}")
    if options.threads is not None and driver != "local-task":
        parser.error("--threads is for local-task")
    # Other subcommands need neither the compiler nor the runtime.
    with silent_interrupts():
        from iree.winograd.compiling.program import compile
        from iree.winograd.tuning.tuner import tune

    # Processes and files of the tuner are for it to remove, however it ends.
    signal.signal(signal.SIGTERM, _exit)
    shared = {
        "target": options.target or TARGET_OF_DRIVER[driver],
        "flags": options.flags,
        "threads": options.threads,
        "max_relative_error": options.max_relative_error,
        "machine": options.machine,
    }
    try:
        source = _source(options)
        tune(
            source,
            device=options.device,
            database=options.database,
            budget=options.budget,
            workers=options.workers,
            scheduler=options.scheduler,
            report=_print,
            **shared,
        )
        if options.output is not None:
            if driver == "local-sync":
                shared["threads"] = 1
            compile(source, output=options.output, tuning_database=options.database, **shared)
    except WinogradError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted; what was measured is in {options.database}", file=sys.stderr)
        return INTERRUPTED
    print(f"recorded in {options.database}, which compile and run take by --tuning-database")
    if options.output is not None:
        print(f"compiled to {options.output}")
    return 0


def _source(options: argparse.Namespace) -> Source:
    """The program. Raises `WinogradError`s."""
    of_model = onnx_options.import_arguments(options)
    if of_model and not is_onnx(options.program):
        raise InvalidOptionError(onnx_options.ONLY_ONNX)
    if of_model:
        return import_onnx(options.program, **of_model)
    if os.path.exists(options.program) and (problem := input_problem(options.program)):
        raise InvalidOptionError(problem)
    if options.program == "-":
        return sys.stdin.buffer.read()
    path: str = options.program
    return path


def _exit(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|)", text)
    if match is None or not float(match[1]) > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 90s, 10min or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _print(line: str) -> None:
    """On a terminal a line that is too long goes on in an indented one."""
    if sys.stdout.isatty():
        line = textwrap.fill(
            line, shutil.get_terminal_size().columns, subsequent_indent="    ", drop_whitespace=False
        )
    print(line, flush=True)
