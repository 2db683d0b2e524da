"""What `benchmarks.zoo` measured, as a Markdown table, and what falls short in it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

Rows = dict[str, dict[str, Any]]

MIN_ERROR = 1e-5
"""An error relative to the output that no network is blamed for."""
ERROR_FACTOR = 4
"""How many times the error of torch in single precision a network's may be."""
MIN_SPEEDUP = 0.95
"""Over the best other tool."""
COMPILE_FACTOR = 1.5
"""How many times the processor time of stock IREE compilation may take."""

MOBILE = (
    "mobilenet_w1",
    "mobilenetv2_w1",
    "mobilenetv3_large_w1",
    "efficientnet_b0",
    "mixnet_s",
    "shufflenet_g1_w1",
    "shufflenetv2_w1",
    "mnasnet_b1",
    "ghostnet",
    "regnetx002",
)
"""Networks for phones, which have a mean of their own."""

_COLUMNS = (
    "network",
    "error",
    "torch's",
    "convolutions",
    "left to IREE",
    "ours, ms",
    "IREE",
    "torch",
    "ONNX Runtime",
    "OpenVINO",
    "speed-up",
    "over IREE",
    "compile time",
)


def zoo_table(rows: Rows) -> list[str]:
    """A row per network: errors, convolutions, milliseconds, what ours are compared with, and findings."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    lines += [f"| {' | '.join([network, *_cells(row)])} |" for network, row in rows.items()]
    return [*lines, "", *(f"* {finding}" for finding in findings(rows))]


def _cells(row: dict[str, Any]) -> list[str]:
    tools = {
        tool: row["tools"].get(tool, {}) for tool in ("ours", "iree", "torch", "onnxruntime", "openvino")
    }
    ours = tools["ours"]
    total, left = "", ours.get("failure") or row.get("failure") or ""
    if "convolutions" in ours:
        count = sum(ours["convolutions"]["left"].values())
        total, left = str(ours["convolutions"]["ours"] + count), str(count)
    milliseconds = {tool: record.get("milliseconds") for tool, record in tools.items()}
    frozen = row["tools"].get("torch-frozen", {}).get("milliseconds")
    milliseconds["torch"] = min(filter(None, (milliseconds["torch"], frozen)), default=None)
    return [
        _number(ours.get("error"), ".1e"),
        _number(tools["torch"].get("error"), ".1e"),
        total,
        left,
        *(_number(time, ".2f") for time in milliseconds.values()),
        _number(ours.get("speedup"), ".2f"),
        _number(over_iree(row), ".2f"),
        _number(compile_ratio(row), ".2f"),
    ]


def findings(rows: Rows) -> Iterator[str]:
    """What the table amounts to, and what is below the bounds of this module."""
    speedups = {network: _ours(row)["speedup"] for network, row in rows.items() if _ours(row).get("speedup")}
    if speedups:
        yield f"Mean speed-up over the best other tool: {statistics.geometric_mean(speedups.values()):.2f}"
    mobile = [speedups[network] for network in MOBILE if network in speedups]
    if mobile:
        yield f"On {len(mobile)} networks for phones: {statistics.geometric_mean(mobile):.2f}"
    slow = sorted((speedup, network) for network, speedup in speedups.items() if speedup < MIN_SPEEDUP)
    yield _listed(f"Below {MIN_SPEEDUP}", [f"{network} ({speedup:.2f})" for speedup, network in slow])
    yield _listed("Less accurate", [network for network, row in rows.items() if not is_accurate(row)])
    if any("iree" in row["tools"] for row in rows.values()):
        yield from _findings_beside_iree(rows)
    for network, row in rows.items():
        for reason, count in _ours(row).get("convolutions", {}).get("left", {}).items():
            yield f"{network} leaves {count} to IREE: {reason}"
        stock = row["tools"].get("iree", {}).get("failure")
        if failure := _ours(row).get("failure") or row.get("failure"):
            yield f"{network} failed: {failure}" + (f"; stock IREE failed: {stock}" if stock else "")


def _findings_beside_iree(rows: Rows) -> Iterator[str]:
    slower = [
        f"{network} ({ratio:.2f})" for network, row in rows.items() if (ratio := over_iree(row) or 1) < 1
    ]
    yield _listed("Slower than stock IREE", slower)
    long = [
        f"{network} ({ratio:.2f})"
        for network, row in rows.items()
        if (ratio := compile_ratio(row) or 1) > COMPILE_FACTOR
    ]
    yield _listed(f"Compiled in more than {COMPILE_FACTOR} times stock's processor time", long)


def is_accurate(row: dict[str, Any]) -> bool:
    """Whether our error is within the bounds; True where there is none."""
    error, reference = _ours(row).get("error", 0.0), row["tools"].get("torch", {}).get("error", 0.0)
    return bool(error <= max(MIN_ERROR, ERROR_FACTOR * reference))


def over_iree(row: dict[str, Any]) -> float | None:
    """How many times faster than stock IREE."""
    return _quotient(row["tools"].get("iree", {}), _ours(row), "milliseconds")


def compile_ratio(row: dict[str, Any]) -> float | None:
    """How many times stock IREE's processor time compilation takes."""
    return _quotient(_ours(row), row["tools"].get("iree", {}), "compile_seconds")


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = row["tools"].get("ours", {})
    return record


def _quotient(over: dict[str, Any], under: dict[str, Any], key: str) -> float | None:
    return over[key] / under[key] if key in over and key in under else None


def _number(value: float | None, style: str) -> str:
    return "" if value is None else f"{value:{style}}"


def _listed(title: str, items: list[str]) -> str:
    return f"{title}: {', '.join(items) or 'none'}"
