"""The file that a report on decisions goes to, in the format that its suffix says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import atomic_file

if TYPE_CHECKING:
    from iree.winograd.report.schema import DecisionReport


def _page(report: DecisionReport) -> str:
    # It takes an XML library, which not everyone who compiles needs.
    from iree.winograd.report.page import decision_page

    return decision_page(report)


def _text(report: DecisionReport) -> str:
    from iree.winograd.report.text import decision_text

    return decision_text(report)


_FORMATS: dict[str, Callable[[DecisionReport], str]] = {
    ".json": lambda report: json.dumps(report, indent=1) + "\n",
    ".html": _page,
    ".txt": _text,
}


class ReportFileError(Exception):
    """A report can't be written; the text says which file, and why."""


REPORT_FILES = "an .html or .txt or .json file"


def is_report_path(path: str | os.PathLike[str]) -> bool:
    """Whether the suffix of `path` is that of a format: whether it is one of `REPORT_FILES`."""
    return Path(path).suffix in _FORMATS


@contextmanager
def report_file(path: str | os.PathLike[str]) -> Iterator[Callable[[DecisionReport], None]]:
    """Yield what writes a report; `path` appears, complete, when the block ends without an exception.

    `path` is one of `REPORT_FILES`. Raises ReportFileError, before it yields where possible, when it can't be
    written.
    """
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(atomic_file(os.fspath(path)))
        except OSError as error:
            raise _failure(path, error) from None

        def write(report: DecisionReport) -> None:
            try:
                Path(temporary).write_text(_FORMATS[Path(path).suffix](report), encoding="utf-8")
            except OSError as error:
                raise _failure(path, error) from None

        yield write


def _failure(path: str | os.PathLike[str], error: OSError) -> ReportFileError:
    return ReportFileError(f"cannot open report file '{os.fspath(path)}': {error.strerror}")
