"""`iree-winograd database`: show, merge and export the measurements in tuning databases."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import STANDARD_STREAM, atomic_file

if TYPE_CHECKING:
    from iree.winograd.pipelines.selection.tuning_database import Entry, TuningDatabase

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "database",
        help="show, merge or export tuning databases",
        description="Shows, merges or exports the measurements in tuning databases.",
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = actions.add_parser(
        "show",
        help="print what is fastest for each convolution",
        description="Prints the fastest measured implementation of each convolution, by target and machine.",
    )
    show.add_argument("file", metavar="FILE")
    show.add_argument("--problem", metavar="GLOB", default="*", help="only convolutions that match it")
    show.set_defaults(run=lambda options: _run(_show, options))
    merge = actions.add_parser(
        "merge",
        help="add the measurements of some databases to another",
        description="Adds the measurements in the SOURCEs to those in TARGET, which is created when there is "
        "none. Of two of the same implementation the newer one is kept.",
    )
    merge.add_argument("target", metavar="TARGET")
    merge.add_argument("sources", metavar="SOURCE", nargs="+")
    merge.set_defaults(run=lambda options: _run(_merge, options))
    export = actions.add_parser(
        "export",
        help="write all measurements as JSON or CSV",
        description="Writes all measurements, those of other versions too, as JSON or CSV.",
    )
    export.add_argument("file", metavar="FILE")
    export.add_argument("--format", choices=("json", "csv"), default="json", help="json by default")
    export.add_argument("-o", metavar="OUTPUT", dest="output", default=STANDARD_STREAM, help="a file")
    export.set_defaults(run=lambda options: _run(_export, options))
    return parser


def _run(action: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        return action(options)
    except BrokenPipeError:
        raise
    except OSError as error:
        _print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 1
    except ValueError as error:
        _print_error(str(error))
        return 1


def _print_error(message: str) -> None:
    print(f"iree-winograd database: {message}", file=sys.stderr)


class _Source:
    """A database that is read; `is_damaged` once something in it had to be ignored."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_damaged = False

    def __enter__(self) -> TuningDatabase:
        from iree.winograd.pipelines.selection.tuning_database import TuningDatabase

        self._database = TuningDatabase(self.path, report=self._report, read_only=True)
        return self._database

    def __exit__(self, *exception: object) -> None:
        self._database.close()

    def _report(self, message: str) -> None:
        self.is_damaged = True
        _print_error(message)


def _show(options: argparse.Namespace) -> int:
    source = _Source(options.file)
    with source as database:
        entries = [entry for entry in database.entries() if fnmatchcase(entry.problem, options.problem)]
    if not entries and not source.is_damaged:
        print("no measurements")
    for line in _table(entries):
        print(line)
    return int(source.is_damaged)


def _merge(options: argparse.Namespace) -> int:
    from iree.winograd.pipelines.selection.tuning_database import TuningDatabase

    sources = [_Source(path) for path in options.sources]
    with ExitStack() as stack:
        # Before the target is touched all of them have to be there.
        databases = [stack.enter_context(source) for source in sources]
        target = stack.enter_context(TuningDatabase(options.target, report=_print_error))
        for source, database in zip(sources, databases, strict=True):
            print(f"{source.path}: {_count(target.merge(database), 'new measurement')}")
    return int(any(source.is_damaged for source in sources))


def _export(options: argparse.Namespace) -> int:
    from iree.winograd.commands.database_export import as_csv, as_json

    source = _Source(options.file)
    with source as database:
        entries = tuple(database.entries())
    if source.is_damaged and not entries:
        return 1
    text = {"csv": as_csv, "json": as_json}[options.format](entries)
    with atomic_file(options.output) as path:
        if path == STANDARD_STREAM:
            sys.stdout.write(text)
        else:
            Path(path).write_text(text, encoding="utf-8")
    return int(source.is_damaged)


def _table(entries: Sequence[Entry]) -> Iterator[str]:
    """A heading per target, machine and version, current ones first, and a line per convolution."""
    groups: dict[tuple[str, str, str], dict[str, list[Entry]]] = {}
    for entry in sorted(entries, key=lambda each: (not each.is_current, each.key, each.machine)):
        problems = groups.setdefault((entry.key, entry.machine, entry.version), {})
        problems.setdefault(entry.problem, []).append(entry)
    for number, ((key, machine, version), problems) in enumerate(groups.items()):
        if number:
            yield ""
        is_current = next(iter(problems.values()))[0].is_current
        yield f"{key}, on {machine or 'an unnamed machine'}"
        yield f"{version}, {'the kernels of this version' if is_current else 'other kernels: ignored'}"
        for problem, measured in problems.items():
            yield f"  {problem}"
            yield f"    {_best(measured)}"


def _best(entries: Sequence[Entry]) -> str:
    from iree.winograd.report.quantities import quantity

    best = min(entries, key=lambda entry: entry.seconds)
    try:
        implementation = str(best.measurement().implementation)
    except ValueError:
        implementation = "an implementation that this version doesn't know"
    spread = f"± {100 * best.spread / 2:.1f}%"
    counted = _count(len(entries), "measurement")
    return f"{quantity(best.seconds, 's')} {spread}, the best of {counted}: {implementation}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
