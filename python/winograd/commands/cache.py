"""`iree-winograd cache`: show and clear what `torch.compile(backend="winograd")` keeps on disk."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.keeping.program_cache import Usage, default_folder, graph_files, usage
from iree.winograd.report.schema import convolutions

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_MEBIBYTE = 2**20


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "cache",
        help="show or clear the compiled models that torch.compile keeps",
        description='Shows or clears the parts of models that torch.compile(backend="winograd") compiled.',
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="list them", description="Lists them, with when they were used last."
    )
    show.set_defaults(run=_show)
    clear = actions.add_parser("clear", help="remove them", description="Removes all of them.")
    clear.set_defaults(run=_clear)
    for action in (show, clear):
        action.add_argument(
            "--folder", metavar="FOLDER", help="where they are, if the option cache_folder was given"
        )
    return parser


def _show(options: argparse.Namespace) -> int:
    entries = _entries(options)
    for each in entries:
        used = datetime.fromtimestamp(each.seconds).isoformat(" ", "minutes")
        print(f"{_size(each.size)}  {used}  {_content(each)}")
    print(_total(options, entries))
    return 0


def _clear(options: argparse.Namespace) -> int:
    entries = _entries(options)
    try:
        for each in entries:
            each.entry.remove()
        for path in graph_files(_folder(options)):
            path.unlink(missing_ok=True)
    except OSError as error:
        print(f"iree-winograd cache: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"removed {_total(options, entries)}")
    return 0


def _folder(options: argparse.Namespace) -> Path:
    return Path(options.folder) if options.folder else default_folder()


def _entries(options: argparse.Namespace) -> list[Usage]:
    return list(usage(_folder(options)))


def _content(each: Usage) -> str:
    """What a program has in it, as its report says."""
    try:
        decisions = each.entry.decisions()
        return f"{len(convolutions(decisions))} convolutions for {decisions['target']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "incomplete"


def _total(options: argparse.Namespace, entries: list[Usage]) -> str:
    size = _size(sum(each.size for each in entries)).strip()
    return f"{len(entries)} program(s), {size}, in {_folder(options)}"


def _size(count: int) -> str:
    return f"{count / _MEBIBYTE:8.1f} MiB"
