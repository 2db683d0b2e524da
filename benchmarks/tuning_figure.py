"""The figure of `benchmarks.tuning`: a pair of bars per layer, drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from iree.winograd.report.figure import figure, legend, text
from iree.winograd.report.markup import element

COLORS = {"chosen by the cost model": "#7fa8d9", "tuned": "#1f4e8c"}
_BAR, _PITCH, _HEIGHT = 7, 20, 220
_LEFT, _TOP, _LABELS = 46, 40, 330


def speedup_figure(layers: Sequence[tuple[str, float, float]]) -> str:
    """An SVG document: for each layer its name and two speed-ups over the fixed algorithm."""
    most = ceil(max(max(speedups) for _, *speedups in layers))
    width, height = _LEFT + _PITCH * len(layers) + 20, _TOP + _HEIGHT + _LABELS
    elements = list(legend(COLORS, _LEFT, 190))
    for value in range(most + 1):
        y = _TOP + _HEIGHT * (1 - value / most)
        color = "black" if value == 1 else "#ddd"
        elements.append(element("path", d=f"M{_LEFT} {y:.1f}H{width - 20}", stroke=color))
        elements.append(text(_LEFT - 6, y + 4, f"{value}x", "end"))
    for number, (name, *speedups) in enumerate(layers):
        left = _LEFT + _PITCH * number + (_PITCH - 2 * _BAR) / 2
        for position, (speedup, color) in enumerate(zip(speedups, COLORS.values(), strict=True)):
            tall = _HEIGHT * speedup / most
            elements.append(
                element(
                    "rect",
                    element("title", f"{name}: {speedup:.2f}x"),
                    x=left + position * _BAR,
                    y=f"{_TOP + _HEIGHT - tall:.1f}",
                    width=_BAR,
                    height=f"{tall:.1f}",
                    fill=color,
                )
            )
        x, y = left + _BAR, _TOP + _HEIGHT + 8
        label = text(x, y, name.partition(" stride")[0], "end")
        label.set("transform", f"rotate(-90 {x} {y})")
        elements.append(label)
    return figure(width, height, *elements)
