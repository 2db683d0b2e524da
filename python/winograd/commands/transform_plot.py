"""The plot of docs/explanation/transforms.md: operations of the transforms of a tile.

It is like Figure 5 of Mazaheri et al.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from iree.winograd.commands.transform_tables import FILTER_SIZES, OUTPUT_TILES, PARTS
from iree.winograd.dialect.algebra.counts import FORMS, transform_counts
from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.report.figure import figure, legend, text
from iree.winograd.report.markup import element

_COLORS = {"dense": "#b8b8b8", "zero-skipping": "#7fa8d9", "recipe": "#1f4e8c"}
_PANEL_WIDTH, _PANEL_HEIGHT = 300, 150
_LEFT, _TOP, _GAP = 60, 50, 40
_BAR = 8


def operations_plot() -> str:
    """An SVG document: one panel per transform and filter size, bars per output tile and form.

    Operations are those of a tile nested in two dimensions; a fused multiply-add is two.
    """
    width = _LEFT + len(FILTER_SIZES) * (_PANEL_WIDTH + _GAP)
    height = _TOP + len(PARTS) * (_PANEL_HEIGHT + _GAP)
    axis = "output tile m; operations of one 2-D tile, and what recipes save of dense ones"
    elements = [*legend(_COLORS, _LEFT, 120), text(width / 2, height - 8, axis, "middle")]
    for row, part in enumerate(PARTS):
        for column, r in enumerate(FILTER_SIZES):
            x = _LEFT + column * (_PANEL_WIDTH + _GAP)
            y = _TOP + row * (_PANEL_HEIGHT + _GAP)
            elements.append(element("g", *_panel(part, r), transform=f"translate({x},{y})"))
    return figure(width, height, *elements)


def _panel(part: str, r: int) -> Iterator[Element]:
    counts = {
        m: {form: transform_counts(transforms(m, r), form, 2)[part].arithmetic for form in FORMS}
        for m in OUTPUT_TILES
    }
    most = max(count for forms in counts.values() for count in forms.values())
    pitch = _PANEL_WIDTH / len(counts)
    yield text(0, -8, f"{part} transform, r = {r}")
    yield text(-4, 8, f"{most}", "end")
    yield text(-4, _PANEL_HEIGHT, "0", "end")
    yield element("path", d=f"M0 0V{_PANEL_HEIGHT}H{_PANEL_WIDTH}", fill="none", stroke="black")
    for index, (m, forms) in enumerate(counts.items()):
        left = index * pitch + (pitch - len(FORMS) * _BAR) / 2
        for bar, (form, count) in enumerate(forms.items()):
            tall = _PANEL_HEIGHT * count / most
            yield element(
                "rect",
                x=f"{left + bar * _BAR:.1f}",
                y=f"{_PANEL_HEIGHT - tall:.1f}",
                width=_BAR,
                height=f"{tall:.1f}",
                fill=_COLORS[form],
            )
        saved = 1 - forms["recipe"] / forms["dense"]
        top = _PANEL_HEIGHT * (1 - forms["dense"] / most)
        yield text((index + 0.5) * pitch, max(top - 2, 8), f"-{saved:.0%}", "middle", size=9)
        yield text((index + 0.5) * pitch, _PANEL_HEIGHT + 12, f"{m}", "middle")
