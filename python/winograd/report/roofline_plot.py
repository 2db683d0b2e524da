"""The roofline picture of a report: what the layers attain, below what the machine allows.

Both axes are logarithmic. A layer lies at the operations of its definition per byte of its input,
filter and output, and at those operations per second (Williams, Waterman and Patterson, Roofline, 2009); one
that takes fewer operations than its definition may lie above the machine's peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import atan2, ceil, degrees, floor, log10
from xml.etree.ElementTree import Element

from iree.winograd.report.markup import element
from iree.winograd.report.quantities import quantity
from iree.winograd.report.schema import (
    CandidateReport,
    LayerReport,
    LimitsReport,
    anchor,
    attained_rate,
    best_known_seconds,
    choice,
    is_direct,
)

_WIDTH, _HEIGHT = 860, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 20, 24, 52
_MARGIN = 1.6
"""Between the outermost values and the frame, as a factor."""
_RIDGE_MARGIN = 3
"""To the left of where the first bandwidth meets the peak: room for its name."""
_RADIUS = 5


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis: values from `low` to `high` lie at `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def position(self, value: float) -> float:
        return self.start + (self.end - self.start) * log10(value / self.low) / log10(self.high / self.low)

    def ticks(self) -> Iterator[float]:
        for exponent in range(floor(log10(self.low)), ceil(log10(self.high)) + 1):
            for digit in (1, 2, 5):
                value = digit * 10.0**exponent
                if self.low <= value <= self.high:
                    yield value


@dataclass(frozen=True)
class _Point:
    layer: LayerReport
    chosen: CandidateReport
    intensity: float
    """Operations per byte."""
    rate: float
    """Operations per second."""


def roofline_plot(limits: LimitsReport, layers: Sequence[LayerReport]) -> Element:
    """An `svg` element with the limits as lines, and a point for each layer that is rewritten.

    Points link to the rows of layers, say more when the pointer is over them, and are of class `direct` or
    `tiled`; colors are left to the style sheet.
    """
    points = list(_points(layers))
    peak = limits["operations_per_second"]
    ridges = [peak / level["bytes_per_second"] for level in limits["bandwidths"]]
    intensities = [*ridges, *(point.intensity for point in points)]
    rates = [peak, *(point.rate for point in points)]
    x = _Axis(
        min(*intensities, min(ridges) / _RIDGE_MARGIN) / _MARGIN,
        max(intensities) * _MARGIN,
        _LEFT,
        _WIDTH - _RIGHT,
    )
    y = _Axis(min(min(rates), peak / 20) / _MARGIN, max(rates) * _MARGIN, _HEIGHT - _BOTTOM, _TOP)
    return element(
        "svg",
        *_grid(x, y),
        *_roofs(x, y, limits),
        *(_mark(x, y, point) for point in points),
        *_legend(points),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label="Roofline: operations per second over operations per byte",
        class_="roofline",
    )


def _points(layers: Sequence[LayerReport]) -> Iterator[_Point]:
    for layer in layers:
        chosen, rate = choice(layer), attained_rate(layer)
        operations, size = layer["direct_operations"], layer["least_bytes"]
        if chosen is not None and rate is not None and operations is not None and size is not None:
            yield _Point(layer, chosen, operations / size, rate)


def _grid(x: _Axis, y: _Axis) -> Iterator[Element]:
    for value in x.ticks():
        at = x.position(value)
        yield element("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="grid")
        yield element("text", f"{value:g}", x=at, y=y.start + 16, text_anchor="middle")
    for value in y.ticks():
        at = y.position(value)
        yield element("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid")
        yield element("text", quantity(value, ""), x=x.start - 6, y=at + 4, text_anchor="end")
    yield element(
        "text", "operations per byte", x=(x.start + x.end) / 2, y=y.start + 38, text_anchor="middle"
    )
    middle = (y.start + y.end) / 2
    yield element(
        "text",
        "operations per second",
        x=16,
        y=middle,
        text_anchor="middle",
        transform=f"rotate(-90 16 {middle:.6g})",
    )


def _roofs(x: _Axis, y: _Axis, limits: LimitsReport) -> Iterator[Element]:
    peak = limits["operations_per_second"]
    top = y.position(peak)
    for level in limits["bandwidths"]:
        bandwidth = level["bytes_per_second"]
        first = max(x.low, y.low / bandwidth)
        x1, y1 = x.position(first), y.position(first * bandwidth)
        x2 = x.position(peak / bandwidth)
        yield element("line", x1=x1, y1=y1, x2=x2, y2=top, class_="roof")
        yield element(
            "text",
            f"{level['name']}, {quantity(bandwidth, 'B/s')}",
            x=0,
            y=-5,
            class_="roof",
            transform=f"translate({x1 + 6:.6g} {y1 - 6 * (y1 - top) / (x2 - x1):.6g}) "
            f"rotate({-degrees(atan2(y1 - top, x2 - x1)):.6g})",
        )
    innermost = max(level["bytes_per_second"] for level in limits["bandwidths"])
    yield element("line", x1=x.position(peak / innermost), y1=top, x2=x.end, y2=top, class_="roof")
    yield element(
        "text",
        f"peak, {quantity(peak, 'FLOP/s')}",
        x=x.end - 4,
        y=top - 6,
        text_anchor="end",
        class_="roof",
    )


def _mark(x: _Axis, y: _Axis, point: _Point) -> Element:
    shape = _shape(x.position(point.intensity), y.position(point.rate), is_direct(point.chosen))
    title = element("title", _description(point))
    return element("a", element("g", title, shape), href=f"#{anchor(point.layer)}")


def _shape(x: float, y: float, square: bool) -> Element:
    if square:
        side = 2 * _RADIUS - 1
        return element("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, class_="point direct")
    return element("circle", cx=x, cy=y, r=_RADIUS, class_="point tiled")


def _legend(points: Sequence[_Point]) -> Iterator[Element]:
    for row, square in enumerate(sorted({is_direct(point.chosen) for point in points})):
        x, y = _WIDTH - _RIGHT - 150, _HEIGHT - _BOTTOM - 14 - 20 * row
        yield _shape(x, y, square)
        yield element("text", "direct" if square else "Winograd, F(m, r)", x=x + 12, y=y + 4)


def _description(point: _Point) -> str:
    layer, chosen = point.layer, point.chosen
    how = "predicted" if chosen["measured_seconds"] is None else "measured"
    return "\n".join(
        (
            " ".join([str(layer["number"]), *layer["names"][:1]]),
            "" if layer["problem"] is None else layer["problem"]["text"],
            f"{chosen['algorithm']}, {quantity(best_known_seconds(chosen), 's')} {how}",
            f"{quantity(point.rate, 'FLOP/s')} at {point.intensity:.3g} operations per byte",
        )
    )
