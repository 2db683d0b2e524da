"""HTML and SVG elements."""

from __future__ import annotations

from xml.etree.ElementTree import Element


def element(tag: str, *children: Element | str, **attributes: str | float) -> Element:
    """An element; `stroke_width` is the attribute `stroke-width`, and `class_` is `class`."""
    made = Element(
        tag,
        {
            name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else f"{value:.6g}"
            for name, value in attributes.items()
        },
    )
    last: Element | None = None
    for child in children:
        if isinstance(child, Element):
            made.append(child)
            last = child
        elif last is None:
            made.text = (made.text or "") + child
        else:
            last.tail = (last.tail or "") + child
    return made
