"""The entries of a tuning database as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from iree.winograd.pipelines.selection.tuning_database import Entry


def as_json(entries: Sequence[Entry]) -> str:
    """A list of objects with the fields of `Entry`, times in seconds."""
    records = [_record(entry) for entry in entries]
    return json.dumps(records, indent=1) + "\n"


def as_csv(entries: Sequence[Entry]) -> str:
    """A line per entry below one with the names of the fields; the implementation is JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Entry)], lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        writer.writerow(_record(entry) | {"implementation": json.dumps(entry.implementation)})
    return text.getvalue()


def _record(entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {"when": entry.when.isoformat()}
