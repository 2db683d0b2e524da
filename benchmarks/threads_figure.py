"""The figure of `benchmarks.threads`: times over the number of threads, a panel per subject.

python -m benchmarks.threads_figure benchmarks/results/threads.json docs/measurements/threads.svg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from math import ceil, floor, log2
from pathlib import Path
from xml.etree.ElementTree import Element

from iree.winograd.report.figure import figure, legend, text
from iree.winograd.report.markup import element

from benchmarks.threads_report import Row, kernel_table, threads_table

CURVES = {
    "ours": ("ours, load", "#1f4e8c"),
    "ours-runner": ("ours, stock runner", "#7fa8d9"),
    "torch": ("torch", "#d98c3f"),
    "onnxruntime": ("ONNX Runtime", "#4f9a5b"),
    "openvino": ("OpenVINO", "#8a5fb0"),
    "iree": ("IREE", "#999999"),
    "iree-tiled": ("IREE, data-tiled", "#cccccc"),
}
"""Of contenders whose names are these, or begin with these and a hyphen; the fastest counts."""

_PANEL_WIDTH, _PANEL_HEIGHT, _LEFT, _TOP, _COLUMNS = 210, 170, 44, 60, 4
_GAP_X, _GAP_Y = 36, 46


def main() -> None:
    stored = json.loads(Path(sys.argv[1]).read_text())["threads"].values()
    rows = [row for panel in _panels(list(stored)).values() for row in panel]
    Path(sys.argv[2]).write_text(scaling_figure(rows))
    print("\n".join([*threads_table(rows), "", *kernel_table(rows)]))


def curve(row: Row, name: str) -> float | None:
    """Milliseconds of the fastest contender of a curve."""
    times = [
        float(values["milliseconds"])
        for contender, values in row["contenders"].items()
        if "milliseconds" in values and _curve_of(contender) == name
    ]
    return min(times, default=None)


def _curve_of(contender: str) -> str | None:
    """The longest name of a curve that the contender's begins with; an aligned array has none."""
    names = [name for name in CURVES if contender == name or contender.startswith(f"{name}-")]
    return None if contender == "ours-aligned" else max(names, key=len, default=None)


def scaling_figure(rows: Sequence[Row]) -> str:
    """An SVG document: milliseconds over threads, both axes logarithmic."""
    panels = _panels(rows)
    columns = min(_COLUMNS, len(panels))
    width = _LEFT + columns * (_PANEL_WIDTH + _GAP_X)
    height = _TOP + ceil(len(panels) / columns) * (_PANEL_HEIGHT + _GAP_Y)
    elements = list(legend(dict(CURVES.values()), _LEFT, 130))
    for number, (title, panel) in enumerate(panels.items()):
        left = _LEFT + number % columns * (_PANEL_WIDTH + _GAP_X)
        top = _TOP + number // columns * (_PANEL_HEIGHT + _GAP_Y)
        elements += _panel(left, top, title, panel)
    return figure(width, height, *elements)


def _panels(rows: Sequence[Row]) -> dict[str, list[Row]]:
    panels: dict[str, list[Row]] = {}
    for row in rows:
        panels.setdefault(f"{row['name']}, batch {row['batch']}", []).append(row)
    return {title: sorted(panel, key=lambda row: int(row["threads"])) for title, panel in panels.items()}


def _panel(left: float, top: float, title: str, rows: Sequence[Row]) -> Iterator[Element]:
    times = [time for row in rows for name in CURVES if (time := curve(row, name)) is not None]
    low, high = floor(log2(min(times))), ceil(log2(max(times)))
    high = max(high, low + 1)
    threads = [int(row["threads"]) for row in rows]
    most = max(log2(max(threads)), 1)

    def x(count: int) -> float:
        return left + log2(count) / most * _PANEL_WIDTH

    def y(milliseconds: float) -> float:
        return top + (high - log2(milliseconds)) / (high - low) * _PANEL_HEIGHT

    yield text(left, top - 8, title)
    for power in range(low, high + 1):
        yield element("path", d=f"M{left} {y(2.0**power):.1f}h{_PANEL_WIDTH}", stroke="#ddd")
        yield text(left - 4, y(2.0**power) + 4, f"{2.0**power:g} ms", "end", size=8)
    for count in threads:
        yield text(x(count), top + _PANEL_HEIGHT + 14, str(count), "middle")
    for name, (label, color) in CURVES.items():
        points = [(x(int(row["threads"])), curve(row, name)) for row in rows]
        drawn = [f"{across:.1f} {y(time):.1f}" for across, time in points if time is not None]
        if drawn:
            path = "M" + "L".join(drawn)
            caption = element("title", f"{label}, {title}")
            yield element("path", caption, d=path, stroke=color, fill="none", stroke_width=2)


if __name__ == "__main__":
    main()
