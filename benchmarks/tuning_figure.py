"""The figure of `benchmarks.tuning`: a pair of bars per layer, drawn as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from xml.etree import ElementTree

COLORS = {"chosen by the cost model": "#7fa8d9", "tuned": "#1f4e8c"}
_BAR, _PITCH, _HEIGHT = 7, 20, 220
_LEFT, _TOP, _LABELS = 46, 40, 330


def speedup_figure(layers: Sequence[tuple[str, float, float]]) -> str:
    """An SVG document: for each layer its name and two speed-ups over the fixed algorithm."""
    most = ceil(max(max(speedups) for _, *speedups in layers))
    width, height = _LEFT + _PITCH * len(layers) + 20, _TOP + _HEIGHT + _LABELS
    svg = ElementTree.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=str(width),
        height=str(height),
        attrib={"font-family": "sans-serif", "font-size": "11"},
    )
    _add(svg, "rect", width=width, height=height, fill="white")
    for value in range(most + 1):
        y = _TOP + _HEIGHT * (1 - value / most)
        _add(svg, "path", d=f"M{_LEFT} {y:.1f}H{width - 20}", stroke="black" if value == 1 else "#ddd")
        _text(svg, _LEFT - 6, y + 4, f"{value}x", anchor="end")
    for number, (color, name) in enumerate((color, name) for name, color in COLORS.items()):
        _add(svg, "rect", x=_LEFT + 190 * number, y=10, width=10, height=10, fill=color)
        _text(svg, _LEFT + 190 * number + 15, 19, name)
    for number, (name, *speedups) in enumerate(layers):
        left = _LEFT + _PITCH * number + (_PITCH - 2 * _BAR) / 2
        for position, (speedup, color) in enumerate(zip(speedups, COLORS.values(), strict=True)):
            tall = _HEIGHT * speedup / most
            bar = _add(
                svg,
                "rect",
                x=left + position * _BAR,
                y=round(_TOP + _HEIGHT - tall, 1),
                width=_BAR,
                height=round(tall, 1),
                fill=color,
            )
            _add(bar, "title").text = f"{name}: {speedup:.2f}x"
        x, y = left + _BAR, _TOP + _HEIGHT + 8
        label = _text(svg, x, y, name.partition(" stride")[0], anchor="end")
        label.set("transform", f"rotate(-90 {x} {y})")
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _add(parent: ElementTree.Element, tag: str, **attributes: object) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: str(value) for name, value in attributes.items()})


def _text(
    parent: ElementTree.Element, x: float, y: float, text: str, anchor: str = "start"
) -> ElementTree.Element:
    element = ElementTree.SubElement(
        parent, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}
    )
    element.text = text
    return element
