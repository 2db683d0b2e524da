"""Gradients and steps of training on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table


def layers(files: Sequence[Any]) -> list[str]:
    """Milliseconds of gradients by ours in both layouts, beside torch's faster one; a file per run."""
    heads = ("layer", "gradient by", "threads", "torch, ms", "NCHW", "NHWC", "speed-up", "error", "torch's")
    rows, means = [], dict[tuple[str, int], list[float]]()
    for file in files:
        for layer in file["layers"]:
            contenders = layer["contenders"]
            torch = min(
                (contenders[name] for name in contenders if name.startswith("torch")),
                key=lambda each: float(each["milliseconds"]),
            )
            ours = [contenders["ours-nchw"], contenders["ours-nhwc"]]
            speedup = torch["milliseconds"] / min(each["milliseconds"] for each in ours)
            means.setdefault((layer["gradient"], file["threads"]), []).append(speedup)
            rows.append(
                (
                    layer["layer"].removeprefix("resnet "),
                    layer["gradient"],
                    str(file["threads"]),
                    *(f"{each['milliseconds']:.1f}" for each in (torch, *ours)),
                    f"{speedup:.2f}",
                    f"{ours[1]['error']:.1e}",
                    f"{torch['error']:.1e}",
                )
            )
    for (gradient, threads), speedups in means.items():
        rows.append(("geometric mean", gradient, str(threads), *[""] * 3, f"{mean(speedups):.2f}", "", ""))
    return table(heads, rows)


def depthwise(files: Sequence[Any]) -> list[str]:
    """Gradients of depthwise filters: times as fast as torch's channels-last kernels, by machine."""
    (runs,) = files
    heads = ("machine", "batch", "threads", "geometric mean", "least", "most")
    rows = []
    for run in runs:
        speedups = [
            layer["contenders"]["torch-nhwc"]["milliseconds"]
            / layer["contenders"]["ours-nhwc"]["milliseconds"]
            for layer in run["layers"]
        ]
        figures = (mean(speedups), min(speedups), max(speedups))
        rows.append(
            (run["where"], str(run["batch"]), str(run["threads"]), *(f"{each:.2f}" for each in figures))
        )
    return table(heads, rows)


def steps(files: Sequence[Any]) -> list[str]:
    """Milliseconds of a training step, channels last, by each backend."""
    rows = [row for file in files for row in file["training"] if "milliseconds" in row]
    heads = (
        "network",
        "batch",
        "threads",
        "eager, ms",
        "Inductor, ms",
        "ours, ms",
        "speed-up",
        "error",
        "eager's",
    )
    return table(
        heads,
        (
            (
                "ResNet-18" if row["network"] == "resnet18" else row["network"],
                str(row["batch"]),
                str(row["threads"]),
                *(
                    number(row["milliseconds"].get(f"{name}-channels-last"), ".0f")
                    for name in ("eager", "inductor", "winograd")
                ),
                number(row.get("ratio"), ".2f"),
                *(
                    number(row["errors"].get(f"{name}-channels-last"), ".1e")
                    for name in ("winograd", "eager")
                ),
            )
            for row in rows
        ),
    )
