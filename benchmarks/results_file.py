"""Rows of measurements in a JSON file, so that a run that ended is continued."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iree.winograd.atomic_file import atomic_file


class ResultsFile:
    """The rows by network under `title`, and the file, if any, that is written anew with each row."""

    def __init__(self, path: Path | None, title: str) -> None:
        self._path = path
        self._title = title
        self._lock = threading.Lock()
        self.rows: dict[str, Any] = json.loads(path.read_text())[title] if path and path.exists() else {}

    def add(self, network: str, row: dict[str, Any]) -> None:
        """Add a row, in alphabetical order. May be called from any thread."""
        self.add_all({network: row})

    def add_all(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Add several rows, for which the file is written once."""
        with self._lock:
            self.rows = dict(sorted({**self.rows, **rows}.items()))
            if self._path is None:
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(str(self._path)) as unfinished:
                Path(unfinished).write_text(json.dumps({self._title: self.rows}, indent=1) + "\n")
