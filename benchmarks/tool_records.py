"""What became of a network in each tool, as a comparison records it, in words."""

from __future__ import annotations

from typing import Any


def in_a_line(row: dict[str, Any]) -> str:
    """The `failure` of a row; else that of each of its `tools`, or the error, and the time if known."""
    if "failure" in row:
        return str(row["failure"])
    parts = []
    for tool, record in row["tools"].items():
        if "failure" in record:
            parts.append(f"{tool} failed: {record['failure'][:100]}")
        elif "milliseconds" in record:
            parts.append(f"{tool} {record['milliseconds']:.2f} ms, error {record['error']:.1e}")
        else:
            parts.append(f"{tool} error {record['error']:.1e}")
    return "; ".join(parts)
