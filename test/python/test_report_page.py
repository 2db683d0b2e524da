"""The page that a report becomes: well-formed, complete, and without anything from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from xml.etree.ElementTree import Element

import pytest
from iree.winograd.report.page import SHOWN_CANDIDATES, STYLE_SHEET, decision_page
from iree.winograd.report.quantities import quantity
from iree.winograd.report.roofline_plot import roofline_plot
from iree.winograd.report.schema import (
    SCHEMA_VERSION,
    BandwidthReport,
    CandidateReport,
    DecisionReport,
    DispatchReport,
    FailureReport,
    LayerReport,
    LimitsReport,
    ProblemReport,
    TotalsReport,
)
from iree.winograd.report.text import decision_text

VOID_ELEMENTS = {"meta", "br", "hr", "img", "input", "link", "col"}
PEAK, BANDWIDTH = 1e12, 1e11


@dataclass
class Page(HTMLParser):
    """Checks that elements are closed in order; keeps tags, attributes and text."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str]:
        return [value for attribute, value in self.attributes if attribute == name]


def parse(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


def candidate(tile: int, seconds: float, measured: float | None = None) -> CandidateReport:
    return CandidateReport(
        algorithm="a direct convolution" if tile == 1 else f"F({tile}x{tile}, 3x3)",
        output_tile=[tile, tile],
        part_size=[1, 1] if tile == 1 else [3, 3],
        schedule={"kind": "direct" if tile == 1 else "winograd", "row_block": 2},
        operations=1000,
        stage_seconds={"input": seconds / 4, "products": 3 * seconds / 4},
        predicted_seconds=seconds,
        predicted_error=1e-7,
        measured_seconds=measured,
        limit_seconds=None,
    )


def convolution(
    number: int, candidates: list[CandidateReport], chosen: int | None, *, operations: int = 10**9
) -> LayerReport:
    return LayerReport(
        kind="convolution",
        number=number,
        names=[f"layer<{number}> & more"],
        problem=ProblemReport(
            text=f"problem {number}",
            batch=1,
            input_size=[8, 8],
            output_size=[8, 8],
            input_channels=4,
            output_channels=4,
            kernel_size=[3, 3],
            strides=[1, 1],
            dilations=[1, 1],
            padding_low=[1, 1],
            padding_high=[1, 1],
            groups=1,
            element_type="f32",
        ),
        direct_operations=operations,
        least_bytes=10**8,
        candidates=candidates,
        chosen=chosen,
        types=None,
        precision="as-written",
        reason=f"reason {number}",
        tuned=False,
    )


def report(convolutions: list[LayerReport], failures: Sequence[FailureReport] = ()) -> DecisionReport:
    rewritten = [each["candidates"][each["chosen"]] for each in convolutions if each["chosen"] is not None]
    return DecisionReport(
        schema_version=SCHEMA_VERSION,
        model="models/a <model>.onnx",
        date="2026-11-26T20:00:00+00:00",
        versions={"iree-winograd": "0.2", "iree-base-compiler": "3.13"},
        target="a <target>" if convolutions else None,
        machine={"name": "a <machine>"} if convolutions else None,
        limits=limits() if convolutions else None,
        dynamic_batch=1,
        failures=list(failures),
        totals=TotalsReport(
            layers=len(convolutions),
            rewritten=len(rewritten),
            predicted_seconds=sum(each["predicted_seconds"] for each in rewritten),
            direct_operations=10**9 * len(rewritten),
            operations=sum(each["operations"] for each in rewritten),
            failures=len(failures),
        ),
        layers=convolutions,
        dispatches=[
            DispatchReport(kernel="winograd_f4", name="conv", is_layer=True, seconds=1e-3),
            DispatchReport(kernel="main_dispatch_0_softmax", name="attention", is_layer=False, seconds=3e-3),
            DispatchReport(kernel="winograd_max_pool", name="pool", is_layer=False, seconds=4e-3),
        ],
    )


def limits() -> LimitsReport:
    return LimitsReport(
        operations_per_second=PEAK, bandwidths=[BandwidthReport(name="memory", bytes_per_second=BANDWIDTH)]
    )


@pytest.fixture(scope="module")
def three_layers() -> Page:
    many = [candidate(tile, 1e-3 * tile) for tile in range(2, SHOWN_CANDIDATES + 10)]
    return parse(
        decision_page(
            report(
                [
                    convolution(0, many, len(many) - 1),
                    convolution(1, [], None),
                    convolution(2, [candidate(1, 4e-6, measured=5e-6), candidate(4, 3e-6)], 0),
                ],
                [
                    FailureReport(
                        rewrite="lowering", subject="layer", names=["a<b>"], reason="<gone>", left_out=None
                    ),
                    FailureReport(
                        rewrite="fusing", subject="pad 3", names=[], reason="<odd>", left_out="pad 3"
                    ),
                ],
            )
        )
    )


def test_every_layer_is_there(three_layers: Page) -> None:
    for number in range(3):
        assert f"layer<{number}> & more" in three_layers.text
        assert f"problem {number}" in three_layers.text
        assert f"reason {number}" in three_layers.text
        assert f"convolution-{number}" in three_layers.values("id")
    failures = (
        "Nothing of this was applied: a<b>: lowering failed on layer: <gone>",
        "pad 3 was left: fusing failed on pad 3: <odd>",
    )
    for text in ("a <target>", "a <machine>", *failures, "left to IREE", "1 left"):
        assert text in three_layers.text


def test_of_many_candidates_the_fastest_and_the_chosen_are_shown(three_layers: Page) -> None:
    assert f"F({SHOWN_CANDIDATES}x{SHOWN_CANDIDATES}, 3x3)" in three_layers.text
    assert f"F({SHOWN_CANDIDATES + 1}x{SHOWN_CANDIDATES + 1}, 3x3)" not in three_layers.text
    chosen = SHOWN_CANDIDATES + 9
    # In the layer's row, in its list of candidates, and in the title of its point.
    assert three_layers.text.count(f"F({chosen}x{chosen}, 3x3)") == 3
    assert three_layers.values("class").count("chosen") == 2


def test_measured_times_go_before_predicted_ones(three_layers: Page) -> None:
    assert "5 µs measured" in three_layers.text
    assert "200 TFLOP/s" in three_layers.text


def test_nothing_from_elsewhere(three_layers: Page) -> None:
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(three_layers.tags)
    assert three_layers.values("src") == []
    assert "svg" in three_layers.tags
    links = three_layers.values("href")
    assert sorted(links) == ["#convolution-0", "#convolution-2"]
    for external in ("http", "url(", "@import"):
        assert external not in three_layers.text


def test_light_and_dark(three_layers: Page) -> None:
    assert "prefers-color-scheme: dark" in three_layers.text


@pytest.mark.parametrize("convolutions", [[], [convolution(0, [], None)]])
def test_without_anything_to_show(convolutions: list[LayerReport]) -> None:
    page = parse(decision_page(report(convolutions)))
    assert ("has no convolutions" in page.text) == (not convolutions)
    assert "left to IREE" in page.text or not convolutions


def lines(plot: Element, name: str) -> list[dict[str, float]]:
    return [
        {key: float(each.attrib[key]) for key in ("x1", "y1", "x2", "y2")}
        for each in plot.iter("line")
        if each.attrib["class"] == name
    ]


def test_a_point_at_the_ridge() -> None:
    """As many operations per byte as the memory needs to feed the peak, and these at the peak."""
    at_ridge = convolution(0, [candidate(4, 1e-3)], 0, operations=10**9)
    plot = roofline_plot(limits(), [at_ridge])
    memory, peak = lines(plot, "roof")
    point = plot.find(".//a/g/circle")
    assert point is not None
    position = float(point.attrib["cx"]), float(point.attrib["cy"])
    assert position == pytest.approx((memory["x2"], memory["y2"]), abs=0.01)
    assert position == pytest.approx((peak["x1"], peak["y1"]), abs=0.01)
    title = plot.find(".//a/g/title")
    assert title is not None and title.text is not None
    for text in ("0 layer<0> & more", "problem 0", "F(4x4, 3x3), 1 ms predicted", "1 TFLOP/s at 10"):
        assert text in title.text


def test_points_keep_to_the_frame() -> None:
    fast = convolution(0, [candidate(4, 1e-6)], 0)
    slow = convolution(1, [candidate(1, 1.0)], 0, operations=10**6)
    plot = roofline_plot(limits(), [fast, slow])
    _, _, width, height = map(float, plot.attrib["viewBox"].split())
    (square,) = (each.find("g/rect") for each in plot.iter("a") if each.attrib["href"] == "#convolution-1")
    (circle,) = (each.find("g/circle") for each in plot.iter("a") if each.attrib["href"] == "#convolution-0")
    assert square is not None and circle is not None
    assert 0 < float(circle.attrib["cy"]) < float(square.attrib["y"]) < height
    assert 0 < float(square.attrib["x"]) < float(circle.attrib["cx"]) < width


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.234e-6, "1.23 µs"),
        (9.996e-4, "1 ms"),
        (0.5, "500 ms"),
        (12.34, "12.3 s"),
    ],
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value, "s") == text


def test_says_what_was_compiled_when_and_by_what(three_layers: Page) -> None:
    assert "Layers of a <model>.onnx, and how they are computed" in three_layers.text
    assert (
        "Compiled for a <target> on 2026-11-26T20:00:00+00:00 by iree-winograd 0.2, iree-base-compiler 3.13."
        in three_layers.text
    )


def test_what_is_no_layer_is_shown_by_its_time(three_layers: Page) -> None:
    text = three_layers.text.partition("Beside the layers")[2]
    assert text.startswith("2 of 3 dispatches of a call compute what isn't a layer: 88% of the measured time")
    assert text.index("max_pool") < text.index("softmax") and "winograd_f4" not in text
    unmeasured = report([convolution(0, [candidate(4, 1e-3)], 0)])
    for each in unmeasured["dispatches"]:
        each["seconds"] = None
    assert "iree-winograd run with --profile and --report" in decision_page(unmeasured)


def test_the_text_has_a_line_for_each_layer() -> None:
    layers = [convolution(0, [candidate(4, 1e-3, measured=2e-3)], 0), convolution(1, [], None)]
    text = decision_text(report(layers)).splitlines()
    assert text[:2] == ["model    models/a <model>.onnx", "date     2026-11-26T20:00:00+00:00"]
    assert "layers   2, 1 rewritten" in text
    first, second = (line for line in text if line.startswith("convolution"))
    assert first.split("  ")[:2] == ["convolution 0", "2 ms"] and "F(4x4, 3x3)" in first
    assert "IREE's own code" in second and second.endswith("reason 1")
    begin = text.index("beside the layers") + 1
    assert text[begin:] == [
        "3 ms  main_dispatch_0_softmax  attention",
        "4 ms  winograd_max_pool        pool",
    ]
    assert "none: there are no layers" in decision_text(report([]))


def test_eight_stages_have_eight_colors() -> None:
    stages = candidate(4, 1e-3)
    stages["stage_seconds"] = {f"stage {number}": 1e-4 for number in range(8)}
    page = parse(decision_page(report([convolution(0, [stages], 0)])))
    classes = [value for value in page.values("class") if value.startswith("stage-")]
    assert len(set(classes)) == 8
    style = STYLE_SHEET.read_text()
    for scheme in style.split("prefers-color-scheme: dark"):
        colors = re.findall(r"--(stage-\d): (#\w+);", scheme)
        assert {name for name, _ in colors} == set(classes)
        assert len({color for _, color in colors}) == 8
