"""`iree-winograd run`: calls a program, says what came of it and how long it took."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd.atomic_file import atomic_file
from iree.winograd.command_line.flags import FlagError
from iree.winograd.command_line.interruption import silent_interrupts
from iree.winograd.commands import onnx_options
from iree.winograd.commands.files import input_problem
from iree.winograd.errors import InvalidOptionError, WinogradError
from iree.winograd.importers.import_model import import_onnx, is_onnx
from iree.winograd.report.file import REPORT_FILES, ReportFileError, is_report_path, report_file
from iree.winograd.targets import TARGET_OF_DRIVER, driver_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from iree.winograd.importers.imported_model import ImportedModel
    from iree.winograd.loading.runtime import LoadedFunction, LoadedProgram
    from iree.winograd.running.profile import DispatchTime, Profile

    Array = npt.NDArray[np.generic]
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_COMPILED = ".vmfb"
_REPORT = "report.json"


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "run",
        help="run and time a program or model",
        usage="%(prog)s PROGRAM [options] [-- flags of iree-compile]",
        description="Runs a program: prints what it returns, and how long calls take. What isn't compiled "
        "is compiled first, for the device that it runs on, with the flags after --.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="a .vmfb, an .onnx, or MLIR text or bytecode")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        dest="inputs",
        metavar="[NAME=]WHAT",
        help="a .npy, .npz, .raw or image file, or sizes of a random array, as 1x3x224x224; in order, or by "
        "name. Without, inputs are random and sizes that the program leaves open are 1. A program that "
        "doesn't tell what it takes needs all of them, and types other than f32, as 1x128xi64",
    )
    for option, what in (("mean", "subtracted from"), ("std", "that divide")):
        parser.add_argument(
            f"--{option}",
            type=_numbers,
            default=(0.0,) if option == "mean" else (1.0,),
            metavar="R,G,B",
            help=f"numbers {what} the pixels of images, which are 0 to 1",
        )
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        dest="outputs",
        metavar="FILE.npy",
        help="where to write a result; may be given for each, in order",
    )
    onnx_options.add_arguments(parser)
    parser.add_argument("--device", default="local-task", help="a device of IREE's runtime")
    parser.add_argument("--threads", type=int, help="workers of local-task; one for each core by default")
    parser.add_argument("--function", help="the function to call, if there are several")
    parser.add_argument("--tuning-database", metavar="FILE", help="as for compile, where PROGRAM is compiled")
    parser.add_argument(
        "--clients",
        type=_count,
        default=1,
        metavar="N",
        help="call from so many threads at once, each with the program loaded for itself",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=1.0, help="for how long to time calls; 1 by default, 0 for none"
    )
    parser.add_argument(
        "--compare",
        nargs="?",
        const="",
        metavar="MODEL",
        help="compare with this .onnx in ONNX Runtime or .pt2 in torch; by default with PROGRAM, an .onnx",
    )
    parser.add_argument("--profile", action="store_true", help="measure each dispatch")
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="as for compile, where PROGRAM is compiled; with the times of --profile",
    )
    parser.add_argument("--trace", metavar="FILE.json", help="the same as a trace that Perfetto shows")
    parser.add_argument("--json", action="store_true", help="print all as one JSON object, times in seconds")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    try:
        with tempfile.TemporaryDirectory() as folder:
            record, text = _results(options, Path(folder))
    except (FlagError, WinogradError) as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(record) if options.json else "\n".join(text))
    return 0


def _results(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What the command found, as one object and as lines to read."""
    # Other subcommands need neither numpy nor the runtime.
    with silent_interrupts():
        from iree.winograd.loading.runtime import load
        from iree.winograd.pipelines.machines.host import physical_cores
        from iree.winograd.running.arguments import arguments_of, stated_arguments
        from iree.winograd.running.images import Pixels
        from iree.winograd.running.memory import forget_peak, peak_bytes
        from iree.winograd.running.profile import profile, with_limits
        from iree.winograd.running.timing import time_calls, time_clients

    driver = driver_name(options.device)
    if driver not in TARGET_OF_DRIVER:
        raise InvalidOptionError(
            f"--device must be one of {', '.join(TARGET_OF_DRIVER)}, not {options.device}"
        )
    profiles = options.profile or options.trace is not None
    if onnx_options.import_arguments(options) and not is_onnx(options.program):
        raise InvalidOptionError(onnx_options.ONLY_ONNX)
    record: dict[str, Any] = {"program": options.program, "device": options.device}
    made = folder / _REPORT
    path = Path(options.program)
    if path.suffix == _COMPILED:
        if options.flags or options.tuning_database is not None or options.report is not None:
            raise InvalidOptionError(
                f"{path} is compiled already: flags, databases and reports are for others"
            )
    else:
        if problem := input_problem(options.program):
            raise InvalidOptionError(problem)
        if options.report is not None and not is_report_path(options.report):
            raise InvalidOptionError(f"--report must be {REPORT_FILES}, not {options.report}")
        with _step(f"compiling {path}", record, "compile_seconds"):
            path = _compiled(options, folder)
    forget_peak()
    with _step(f"loading {path.name}", record, "load_seconds"):
        loaded = load(path, options.device, threads=options.threads)
    function = _function(loaded, options.function)
    on_cpu = TARGET_OF_DRIVER[driver] == "cpu"
    threads = 1 if driver == "local-sync" else options.threads or physical_cores()
    if on_cpu:
        record["threads"] = threads
    if function.signature is None:
        arguments = stated_arguments(function.argument_count, options.inputs)
    else:
        pixels = Pixels(options.mean, options.std)
        arguments = arguments_of(function.signature.inputs, options.inputs, pixels)
    with _step("first call", record, "first_call_seconds"):
        returned = function(*arguments)
    results: tuple[Array, ...] = returned if isinstance(returned, tuple) else (returned,)
    text = _describe(function, results, record)
    _save(results, options.outputs)
    if options.seconds > 0:
        with _step("timing calls", record, "timing_seconds"):
            if options.clients == 1:
                times = time_calls(lambda: function(*arguments), options.seconds)
            else:
                others = [
                    load(path, options.device, threads=options.threads) for _ in range(options.clients - 1)
                ]
                functions = [function, *(_function(each, options.function) for each in others)]
                times = time_clients([partial(each, *arguments) for each in functions], options.seconds)
        record["times"] = times.record()
        text.append(str(times))
    record["peak_memory_bytes"] = peak_bytes()
    text.append(_costs(record))
    if options.compare is not None:
        text += _compare(options, arguments, results, threads, record)
    dispatches: tuple[DispatchTime, ...] = ()
    if profiles:
        measured = profile(
            path, function.name, arguments, options.device, threads if on_cpu else None, function.layers
        )
        if made.exists():
            measured = replace(measured, dispatches=with_limits(measured.dispatches, _limits(made)))
        dispatches = measured.dispatches
        text += _show_profile(options, measured, record)
    if options.report is not None:
        _report(made, options, dispatches)
    return record, text


@contextmanager
def _step(what: str, record: dict[str, Any], key: str) -> Iterator[None]:
    """Say on a terminal what is going on, and record how long it took."""
    watched = sys.stderr.isatty()
    if watched:
        print(f"{what} ... ", end="", file=sys.stderr, flush=True)
    begin = time.perf_counter()
    try:
        yield
        record[key] = time.perf_counter() - begin
    finally:
        if watched:
            print(f"{time.perf_counter() - begin:.2f} s", file=sys.stderr, flush=True)


def _compiled(options: argparse.Namespace, folder: Path) -> Path:
    with silent_interrupts():
        from iree.winograd.command_line.flags import parse_command_line
        from iree.winograd.compiling.program import compile

    flags = parse_command_line(options.flags)
    if others := [*flags.inputs, *flags.main]:
        raise InvalidOptionError(f"{others[0]!r} after -- is no flag that says how to compile")
    path = folder / f"program{_COMPILED}"
    driver = driver_name(options.device)
    threads = 1 if driver == "local-sync" else options.threads
    source: Path | ImportedModel = Path(options.program)
    if is_onnx(options.program):
        source = import_onnx(options.program, **onnx_options.import_arguments(options))
    limits_are_shown = options.profile and TARGET_OF_DRIVER[driver] != "cpu"
    given = {
        **vars(flags.options),
        **({} if options.tuning_database is None else {"tuning_database": options.tuning_database}),
        **({} if threads is None else {"threads": threads}),
    }
    compile(
        source,
        target=TARGET_OF_DRIVER[driver],
        output=path,
        flags=flags.library,
        report=folder / _REPORT if options.report is not None or limits_are_shown else None,
        **given,
    )
    return path


def _report(made: Path, options: argparse.Namespace, dispatches: Sequence[DispatchTime]) -> None:
    """Write the report that was `made` of the program where it is to be, with the times of `dispatches`.

    Raises `InvalidOptionError` where that can't be written.
    """
    report = json.loads(made.read_text(encoding="utf-8"))
    report["model"] = options.program
    seconds: dict[str, list[float]] = {}
    for measured in dispatches:
        seconds.setdefault(measured.kernel, []).append(measured.seconds)
    for each in report["dispatches"]:
        if times := seconds.get(each["kernel"]):
            each["seconds"] = times.pop(0)
    try:
        with report_file(options.report) as write:
            write(report)
    except ReportFileError as error:
        raise InvalidOptionError(str(error)) from None


def _limits(made: Path) -> dict[str, float]:
    """By the name of a layer, what it can't take less than, of the report that was `made` of the program."""
    from iree.winograd.report.schema import choice

    layers = json.loads(made.read_text(encoding="utf-8"))["layers"]
    chosen = [(name, choice(layer)) for layer in layers for name in layer["names"][:1]]
    limits = ((name, each["limit_seconds"]) for name, each in chosen if each is not None)
    return {name: limit for name, limit in limits if limit is not None}


def _costs(record: Mapping[str, Any]) -> str:
    """What it took to get so far, on one line."""
    from iree.winograd.report.quantities import binary_size, quantity

    steps = (
        ("compiled in", "compile_seconds"),
        ("loaded in", "load_seconds"),
        ("first call", "first_call_seconds"),
    )
    parts = [f"{name} {quantity(record[key], 's')}" for name, key in steps if key in record]
    if record["peak_memory_bytes"] is not None:
        parts.append(f"at most {binary_size(record['peak_memory_bytes'])} of memory")
    return ", ".join(parts)


def _function(loaded: LoadedProgram, name: str | None) -> LoadedFunction:
    names = loaded.functions
    known = ", ".join(names) or "none on arrays"
    if name is None:
        name = names[0] if len(names) == 1 else "main"
        if name not in names:
            raise InvalidOptionError(f"choose one of the program's functions by --function: {known}")
    if name not in names:
        raise InvalidOptionError(f"the program has no function {name!r}, only {known}")
    function: LoadedFunction = getattr(loaded, name)
    return function


def _describe(function: LoadedFunction, results: Sequence[Array], record: dict[str, Any]) -> list[str]:
    import numpy as np
    from iree.winograd.running.arguments import label

    signatures = [None] * len(results) if function.signature is None else function.signature.outputs
    text, record["outputs"] = [], []
    for number, (signature, result) in enumerate(zip(signatures, results, strict=True)):
        finite = result[np.isfinite(result)] if result.dtype.kind == "f" else result
        least, most = (finite.min().item(), finite.max().item()) if finite.size else (None, None)
        name, sizes = label(signature, number), list(result.shape)
        entry = {"name": name, "type": str(result.dtype), "shape": sizes, "min": least, "max": most}
        if others := result.size - finite.size:
            entry["not_finite"] = others
        record["outputs"].append(entry)
        values = f"{least:.6g} to {most:.6g}" if finite.size else "no numbers"
        text.append(f"{name}: {result.dtype}{sizes}, {values}" + (f", {others} not finite" if others else ""))
    return text


def _save(results: Sequence[Array], paths: Sequence[str]) -> None:
    import numpy as np

    if len(paths) > len(results):
        raise InvalidOptionError(f"the function has {len(results)} result(s), not {len(paths)}")
    for path, result in zip(paths, results, strict=False):
        with _written(path) as temporary, open(temporary, "wb") as file:
            np.save(file, result)


@contextmanager
def _written(path: str) -> Iterator[str]:
    """As `atomic_file`, but raises `InvalidOptionError` where the file can't be written."""
    try:
        with atomic_file(path) as temporary:
            yield temporary
    except OSError as error:
        raise InvalidOptionError(f"cannot write '{path}': {error.strerror or error}") from None


def _compare(
    options: argparse.Namespace,
    arguments: Sequence[Any],
    results: Sequence[Array],
    threads: int,
    record: dict[str, Any],
) -> list[str]:
    from iree.winograd.running.comparison import peer_of, relative_error
    from iree.winograd.running.timing import time_calls

    model = options.compare or options.program
    if not options.compare and not is_onnx(model):
        raise InvalidOptionError("--compare needs the model to compare with, unless PROGRAM is an .onnx")
    peer = peer_of(model, arguments, threads)
    expected = peer.results
    if len(expected) != len(results):
        raise InvalidOptionError(f"{model!r} has {len(expected)} result(s), the program {len(results)}")
    error = max(map(relative_error, results, expected), default=0.0)
    # JSON has no infinity.
    known_error = error if math.isfinite(error) else None
    record["compare"] = {"peer": peer.name, "model": model, "largest_error": known_error}
    text = [f"{peer.name}: largest difference {error:.1e} of the largest output"]
    if options.seconds > 0:
        times = time_calls(peer.run, options.seconds)
        record["compare"]["times"] = times.record()
        text.append(f"{peer.name}: {times}")
    return text


def _show_profile(options: argparse.Namespace, measured: Profile, record: dict[str, Any]) -> list[str]:
    if options.trace is not None:
        with _written(options.trace) as temporary:
            Path(temporary).write_text(json.dumps(measured.trace()), encoding="utf-8")
    if not options.profile:
        return []
    record["dispatches"] = [asdict(each) for each in measured.dispatches]
    return [measured.table()]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return int(text)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} isn't numbers like 0.485,0.456,0.406") from None
