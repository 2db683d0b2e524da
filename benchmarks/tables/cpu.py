"""Layers, compilation and tuning on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table

_OURS = {"NHWC": "ours-nhwc", "NCHW": "ours-nchw"}
_NOT_COMPARED = ("ours", "iree", "onednn")


def layers(files: Sequence[Any]) -> list[str]:
    """A row per layer, ours in both layouts beside the best other tool, and the geometric means."""
    heads = (
        "N x H x W, C -> K",
        "ours NHWC, ms",
        "NCHW, ms",
        "best other, ms",
        "which",
        "speed-up NHWC",
        "NCHW",
        "effective GFLOP/s",
        "peak",
        "error",
        "other's",
    )
    rows, speedups = [], {name: list[float]() for name in _OURS}
    for layer in (layer for file in files for layer in file["layers"]):
        contenders = layer["contenders"]
        others = {name: each for name, each in contenders.items() if not name.startswith(_NOT_COMPARED)}
        best = min(others, key=lambda name: float(others[name]["milliseconds"]))
        ours = [contenders.get(name, {}) for name in _OURS.values()]
        for layout, name in _OURS.items():
            speedups[layout] += [layer["speedups"][name]] if name in layer["speedups"] else []
        rows.append(
            (
                f"{_size(layer)}, {layer['channels']} -> {layer['filters']}",
                *(number(each.get("milliseconds"), ".3f") for each in ours),
                f"{others[best]['milliseconds']:.3f}",
                best,
                *(number(layer["speedups"].get(name), ".2f") for name in _OURS.values()),
                f"{(ours[0] or ours[1])['gflops']:.0f}",
                f"{layer['limits']['flops'] / 1e9:.0f}",
                f"{(ours[0] or ours[1])['error']:.1e}",
                f"{others[best]['error']:.1e}",
            )
        )
    means = [f"{mean(values):.2f}" if values else "" for values in speedups.values()]
    return table(heads, [*rows, ("geometric mean", *[""] * 4, *means, *[""] * 4)])


def layouts(files: Sequence[Any]) -> list[str]:
    """The time channels first over that channels last: a row per run and batch."""
    rows = []
    names = list(dict.fromkeys(_layer(layer) for file in files for layer in file["layers"]))
    for file in files:
        for batch in sorted({layer["batch"] for layer in file["layers"]}):
            ratios = {
                _layer(layer): layer["contenders"]["ours-nchw"]["milliseconds"]
                / layer["contenders"]["ours-nhwc"]["milliseconds"]
                for layer in file["layers"]
                if layer["batch"] == batch
            }
            cells = [number(ratios.get(name), ".2f") for name in names]
            rows.append((str(file["threads"]), str(batch), *cells, f"{mean(ratios.values()):.2f}"))
    return table(("threads", "batch", *names, "mean"), rows)


def compile_time(files: Sequence[Any]) -> list[str]:
    """Processor seconds of compilation, beside stock IREE's."""
    rows = sorted((row for file in files for row in file), key=_compile_ratio, reverse=True)
    return table(
        ("network", "IREE, s", "ours, s", "ratio"),
        (
            (row["network"], f"{row['iree']:.1f}", f"{row['ours']:.1f}", f"{_compile_ratio(row):.2f}")
            for row in rows
        ),
    )


def tuning(files: Sequence[Any]) -> list[str]:
    """What tuning gains over the choice without: a row per run."""
    rows = []
    for file in files:
        gains = [layer["chosen"] / layer["tuned"] for layer in file["layers"]]
        over_fixed = [layer["fixed"] / layer["tuned"] for layer in file["layers"] if layer.get("fixed")]
        rows.append(
            (
                str(file["threads"]),
                str(len(gains)),
                f"{mean(gains):.2f}",
                f"{max(gains):.2f}",
                f"{mean(over_fixed):.2f}" if over_fixed else "",
            )
        )
    heads = (
        "threads",
        "convolutions",
        "chosen / tuned, geometric mean",
        "most",
        "F(2) / tuned, geometric mean",
    )
    return table(heads, rows)


def exhaustive(files: Sequence[Any]) -> list[str]:
    """How near tuning comes to the fastest of many more implementations: a row per layer."""
    return table(
        ("convolution", "accurate enough", "measured", "tuned, ms", "fastest, ms", "tuned / fastest"),
        (
            (
                layer["problem"].split(" dilation")[0],
                str(layer["space"]),
                str(layer["measured"]),
                f"{1e3 * layer['tuned']:.3f}",
                f"{1e3 * layer['fastest']:.3f}",
                f"{layer['tuned'] / layer['fastest']:.2f}",
            )
            for file in files
            for layer in file["layers"]
        ),
    )


def _size(layer: dict[str, Any]) -> str:
    return f"{layer['batch']} x {layer['height']} x {layer['width']}"


def _layer(layer: dict[str, Any]) -> str:
    return f"{layer['height']}x{layer['width']}x{layer['channels']}"


def _compile_ratio(row: dict[str, Any]) -> float:
    return float(row["ours"] / row["iree"])
