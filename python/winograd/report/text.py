"""A report on decisions as text, for terminals and logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.winograd.report.quantities import quantity
from iree.winograd.report.schema import (
    DecisionReport,
    DispatchReport,
    LayerReport,
    best_known_seconds,
    choice,
    is_left_to_iree,
    types_text,
)


def decision_text(report: DecisionReport) -> str:
    """What the program is, a line for each layer and for what isn't one, and what failed."""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [
        f"model    {report['model'] or 'unnamed'}",
        f"date     {report['date']}",
        f"by       {versions}",
        f"target   {report['target'] or 'none: there are no layers'}",
        f"layers   {report['totals']['layers']}, {report['totals']['rewritten']} rewritten",
        *(
            f"failed   {each['rewrite']} on {each['subject']}: {each['reason']}"
            for each in report["failures"]
        ),
        "",
        *_columns([_layer(each) for each in report["layers"]]),
    ]
    others = [each for each in report["dispatches"] if not each["is_layer"]]
    if others:
        lines += ["", "beside the layers", *_columns([_dispatch(each) for each in others])]
    return "\n".join(lines) + "\n"


def _layer(layer: LayerReport) -> Sequence[str]:
    chosen = choice(layer)
    return (
        f"{layer['kind']} {layer['number']}",
        "" if chosen is None else quantity(best_known_seconds(chosen), "s"),
        "IREE's own code" if chosen is None or is_left_to_iree(layer) else chosen["algorithm"],
        types_text(layer["types"]),
        next(iter(layer["names"]), ""),
        layer["reason"],
    )


def _dispatch(dispatch: DispatchReport) -> Sequence[str]:
    seconds = dispatch["seconds"]
    return ("" if seconds is None else quantity(seconds, "s"), dispatch["kernel"], dispatch["name"])


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """`rows` with as much room for each column as it needs."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{each:{width}}" for each, width in zip(row, widths, strict=True)).rstrip()
