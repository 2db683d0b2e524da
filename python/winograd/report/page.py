"""A report on decisions as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, tostring

from iree.winograd.report.markup import element
from iree.winograd.report.quantities import quantity
from iree.winograd.report.roofline_plot import roofline_plot
from iree.winograd.report.schema import (
    CandidateReport,
    DecisionReport,
    FailureReport,
    LayerReport,
    TotalsReport,
    anchor,
    attained_rate,
    best_known_seconds,
    choice,
    is_left_to_iree,
    types_text,
)

STYLE_SHEET = Path(__file__).with_suffix(".css")
SHOWN_CANDIDATES = 12
"""Of one layer, the fastest and the chosen one."""
_STAGE_COLORS = 8
"""Okabe and Ito's, with gray for black: told apart by those who see fewer colors, too."""
_BAR_WIDTH, _BAR_HEIGHT = 1000, 40
_COLUMNS = ("", "Layer", "Computed by", "Time", "Stages", "Error", "Rate")
_NO_PREDICTION = "\N{EN DASH}"
_NUMERIC_COLUMNS = ("", "Time", "Error", "Rate")


def decision_page(report: DecisionReport, *further: Element) -> str:
    """The text of the page, `further` parts at its end."""
    title = "Layers, and how they are computed"
    if report["model"] is not None:
        title = f"Layers of {Path(report['model']).name}, and how they are computed"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", STYLE_SHEET.read_text(encoding="utf-8")),
    )
    body = element(
        "body",
        element("h1", title),
        *_introduction(report),
        *_roofline(report),
        *_layers(report),
        *_others(report),
        *further,
    )
    page = element("html", head, body, lang="en")
    return "<!DOCTYPE html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


def _introduction(report: DecisionReport) -> Iterator[Element]:
    if report["target"] is None:
        yield element("p", "The program has no convolutions or products of rows and a matrix.")
    where = "" if report["target"] is None else f" for {report['target']}"
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    yield element("p", f"Compiled{where} on {report['date']} by {versions}.", class_="faint")
    for failure in report["failures"]:
        yield element("p", _failure_text(failure), class_="warning")
    yield element("dl", *_totals(report["totals"]), class_="totals")
    if report["machine"] is not None:
        rows = (
            element("tr", element("th", name), element("td", str(value)))
            for name, value in report["machine"].items()
        )
        yield element(
            "details", element("summary", "The machine that times are for"), element("table", *rows)
        )


def _failure_text(failure: FailureReport) -> str:
    names = f"{failure['names'][0]}: " if failure["names"] else ""
    cost = "Nothing of this was applied" if failure["left_out"] is None else f"{failure['left_out']} was left"
    return f"{cost}: {names}{failure['rewrite']} failed on {failure['subject']}: {failure['reason']}"


def _totals(totals: TotalsReport) -> Iterator[Element]:
    left = totals["layers"] - totals["rewritten"]
    yield _total("Layers", str(totals["layers"]), f"{left} left to IREE" if left else "none left")
    if not totals["rewritten"]:
        return
    seconds, direct, operations = (
        totals["predicted_seconds"],
        totals["direct_operations"],
        totals["operations"],
    )
    yield _total("Predicted time", quantity(seconds, "s"), "of those that are rewritten")
    yield _total(
        "By definition", quantity(direct, "FLOP"), f"{quantity(direct / seconds, 'FLOP/s')} attained"
    )
    yield _total("In products", quantity(operations, "FLOP"), f"{direct / operations:.2f} times fewer")


def _total(name: str, value: str, note: str) -> Element:
    return element("div", element("dt", name), element("dd", value, element("small", note)))


def _roofline(report: DecisionReport) -> Iterator[Element]:
    if report["limits"] is None:
        return
    yield element("h2", "Roofline")
    caption = (
        "Operations are those of the layers as they are defined, bytes those of input, filter and output. "
        "Winograd takes fewer operations, so that its convolutions may lie above the roof. Times are "
        "measured where the tuning database has them, else predicted. Layers left to IREE are shown "
        "where their times are known."
    )
    yield element("figure", roofline_plot(report["limits"], report["layers"]), element("figcaption", caption))


def _layers(report: DecisionReport) -> Iterator[Element]:
    layers = report["layers"]
    if not layers:
        return
    choices = [chosen for chosen in map(choice, layers) if chosen is not None]
    stages = list(dict.fromkeys(stage for chosen in choices for stage in chosen["stage_seconds"]))
    slowest = max((chosen["predicted_seconds"] or 0.0 for chosen in choices), default=0.0)
    yield element("h2", "Layers")
    yield element("ul", *(_legend_entry(stage, index) for index, stage in enumerate(stages)), class_="legend")
    header = element("tr", *(_cell(name, name in _NUMERIC_COLUMNS, "th") for name in _COLUMNS))
    rows = [row for each in layers for row in _rows(each, stages, slowest)]
    table = element("table", element("thead", header), element("tbody", *rows))
    yield element("div", table, class_="scroll")


def _legend_entry(stage: str, index: int) -> Element:
    square = element("svg", element("rect", width=10, height=10, class_=_color(index)), viewBox="0 0 10 10")
    return element("li", square, stage)


def _others(report: DecisionReport) -> Iterator[Element]:
    """What is run beside the layers, the slowest first where that is measured."""
    others = [each for each in report["dispatches"] if not each["is_layer"]]
    if not others:
        return
    measured = sum(each["seconds"] or 0.0 for each in report["dispatches"])
    text = f"{len(others)} of {len(report['dispatches'])} dispatches of a call compute what isn't a layer"
    if measured:
        share = sum(each["seconds"] or 0.0 for each in others) / measured
        text += f": {share:.0%} of the measured time, of {quantity(measured, 's')}"
    else:
        text += ". iree-winograd run with --profile and --report measures them"
    yield element("h2", "Beside the layers")
    yield element("p", f"{text}.")
    names = ("Operation", "Kernel", "By", "Time") if measured else ("Operation", "Kernel", "By")
    header = element("tr", *(_cell(name, name in _NUMERIC_COLUMNS, "th") for name in names))
    ordered = sorted(others, key=lambda each: each["seconds"] or 0.0, reverse=True)
    rows = (
        element(
            "tr",
            _cell(each["name"]),
            _cell(each["kernel"]),
            _cell("iree-winograd" if each["kernel"].startswith("winograd_") else "IREE"),
            *([_cell(quantity(each["seconds"] or 0.0, "s"), is_number=True)] if measured else []),
        )
        for each in ordered
    )
    table = element("table", element("thead", header), element("tbody", *rows))
    yield element("div", table, class_="scroll")


def _rows(layer: LayerReport, stages: Sequence[str], slowest: float) -> Iterator[Element]:
    problem, chosen, rate = layer["problem"], choice(layer), attained_rate(layer)
    names = layer["names"]
    description = element(
        "td",
        *(element("div", name) for name in names[:1]),
        *([element("div", problem["text"], class_="faint")] if problem is not None else []),
    )
    computed = "left to IREE" if chosen is None or is_left_to_iree(layer) else chosen["algorithm"]
    explained = [text for text in (types_text(layer["types"]), layer["reason"]) if text]
    yield element(
        "tr",
        _cell(str(layer["number"]), is_number=True),
        description,
        element(
            "td", element("div", computed), *(element("div", text, class_="faint") for text in explained)
        ),
        _cell("" if chosen is None else quantity(best_known_seconds(chosen), "s"), is_number=True),
        _cell("") if chosen is None else _stages(chosen, stages, slowest),
        _cell("" if chosen is None else f"{chosen['predicted_error']:.1e}", is_number=True),
        _cell("" if rate is None else quantity(rate, "FLOP/s"), is_number=True),
        id=anchor(layer),
        **({"class_": "with-candidates"} if layer["candidates"] else {}),
    )
    if layer["candidates"]:
        yield element("tr", element("td"), _candidates(layer), class_="candidates")


def _stages(candidate: CandidateReport, stages: Sequence[str], slowest: float) -> Element:
    """What each stage is predicted to take, the slowest layer as wide as the column."""
    if not candidate["stage_seconds"]:
        return _cell(_NO_PREDICTION)
    bar = element(
        "svg",
        viewBox=f"0 0 {_BAR_WIDTH} {_BAR_HEIGHT}",
        preserveAspectRatio="none",
        class_="stages",
        role="img",
        aria_label="Predicted time by stage",
    )
    left, predicted = 0.0, sum(candidate["stage_seconds"].values())
    for stage, seconds in candidate["stage_seconds"].items():
        width = _BAR_WIDTH * seconds / slowest
        title = element("title", f"{stage}: {quantity(seconds, 's')}, {seconds / predicted:.0%}")
        color = _color(stages.index(stage))
        bar.append(element("rect", title, x=left, y=0, width=width, height=_BAR_HEIGHT, class_=color))
        left += width
    return element("td", bar)


def _candidates(layer: LayerReport) -> Element:
    chosen = choice(layer)
    ordered = sorted(layer["candidates"], key=lambda each: (each is not chosen, best_known_seconds(each)))
    shown = sorted(ordered[:SHOWN_CANDIDATES], key=best_known_seconds)
    names = ("Algorithm", "Predicted", "Measured", "Error", "Operations", "Schedule")
    count = len(ordered)
    summary = f"{count} candidates" + (f", the {len(shown)} fastest" if len(shown) < count else "")
    table = element(
        "table",
        element("thead", element("tr", *(_cell(name, name in names[1:5], "th") for name in names))),
        element("tbody", *(_candidate_row(each, each is chosen) for each in shown)),
    )
    return element(
        "td", element("details", element("summary", summary), table), colspan=str(len(_COLUMNS) - 1)
    )


def _candidate_row(candidate: CandidateReport, is_chosen: bool) -> Element:
    predicted, measured = candidate["predicted_seconds"], candidate["measured_seconds"]
    schedule = " ".join(f"{name}={value}" for name, value in candidate["schedule"].items())
    return element(
        "tr",
        _cell(candidate["algorithm"]),
        _cell(_NO_PREDICTION if predicted is None else quantity(predicted, "s"), is_number=True),
        _cell("" if measured is None else quantity(measured, "s"), is_number=True),
        _cell(f"{candidate['predicted_error']:.1e}", is_number=True),
        _cell(quantity(candidate["operations"], "FLOP"), is_number=True),
        _cell(schedule),
        **({"class_": "chosen"} if is_chosen else {}),
    )


def _cell(text: str, is_number: bool = False, tag: str = "td") -> Element:
    return element(tag, text, **({"class_": "number"} if is_number else {}))


def _color(stage: int) -> str:
    return f"stage-{stage % _STAGE_COLORS}"
