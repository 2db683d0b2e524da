"""Figures: SVG documents of their own, drawn with text, squares of color and what their makers add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.etree.ElementTree import Element, tostring

from iree.winograd.report.markup import element

_FONT_SIZE = 11
_LEGEND_TOP, _SQUARE = 10, 10


def figure(width: float, height: float, *elements: Element) -> str:
    """The text of an SVG document of this size in pixels, on white."""
    root = element(
        "svg",
        element("rect", width=width, height=height, fill="white"),
        *elements,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        font_family="sans-serif",
        font_size=_FONT_SIZE,
    )
    return tostring(root, encoding="unicode") + "\n"


def text(x: float, y: float, content: str, anchor: str = "start", size: int = _FONT_SIZE) -> Element:
    """A line of text at `x` on the baseline `y`; `anchor` is `start`, `middle` or `end`."""
    return element("text", content, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, font_size=size)


def legend(colors: Mapping[str, str], left: float, pitch: float) -> Iterator[Element]:
    """A square and a name for each of `colors`, `pitch` pixels apart, at the top of a figure."""
    for number, (name, color) in enumerate(colors.items()):
        x = left + pitch * number
        yield element("rect", x=x, y=_LEGEND_TOP, width=_SQUARE, height=_SQUARE, fill=color)
        yield text(x + 15, _LEGEND_TOP + 9, name)
