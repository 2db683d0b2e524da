"""Layers, compilation and tuning on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table
from benchmarks.tables.networks import TOOLS

_OURS = ("ours-nhwc", "ours-nchw")
_NOT_COMPARED = ("ours", "iree", "onednn")
_OPEN_TOOLS = {**TOOLS, "inductor": "Inductor"}
"""Those that images of any size are timed with."""


def layers(files: Sequence[Any]) -> list[str]:
    """A row per layer, ours in both layouts beside the best other tool, and the geometric means.

    Cells of a layout that wasn't timed are empty, as are those of other tools where none was.
    """
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
    measured = [layer for file in files for layer in file["layers"]]
    speedups = ([layer["speedups"].get(name) for layer in measured] for name in _OURS)
    known = ([value for value in values if value is not None] for values in speedups)
    means = [f"{mean(values):.2f}" if values else "" for values in known]
    rows = [_layer_cells(layer) for layer in measured]
    return table(heads, [*rows, ("geometric mean", *[""] * 4, *means, *[""] * 4)])


def _layer_cells(layer: dict[str, Any]) -> tuple[str, ...]:
    contenders, speedups = layer["contenders"], layer["speedups"]
    others = {name: each for name, each in contenders.items() if not name.startswith(_NOT_COMPARED)}
    best = min(others, key=lambda name: float(others[name]["milliseconds"]), default="")
    other = others.get(best, {})
    ours = [contenders.get(name, {}) for name in _OURS]
    timed = ours[0] or ours[1]
    return (
        f"{_size(layer)}, {layer['channels']} -> {layer['filters']}",
        *(number(each.get("milliseconds"), ".3f") for each in ours),
        number(other.get("milliseconds"), ".3f"),
        best,
        *(number(speedups.get(name), ".2f") for name in _OURS),
        f"{timed['gflops']:.0f}",
        f"{layer['limits']['flops'] / 1e9:.0f}",
        f"{timed['error']:.1e}",
        number(other.get("error"), ".1e"),
    )


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


def open_sizes(files: Sequence[Any]) -> list[str]:
    """Milliseconds of a program for all sizes beside those for one size alone, and beside other tools.

    The first size of a network is the one that is expected.
    """
    networks = [pair for file in files for pair in file["networks"].items()]
    measured = {tool for _, sizes in networks for times in sizes.values() for tool in times}
    others = {tool: name for tool, name in _OPEN_TOOLS.items() if tool in measured}
    rows, ratios, ratios_elsewhere, speedups = [], [], [], []
    for network, sizes in networks:
        for place, (size, times) in enumerate(sizes.items()):
            speedups.append(min(times[tool] for tool in others if tool in times) / times["open"])
            ratio = times["open"] / times["static"] if "static" in times else None
            if ratio is not None:
                (ratios_elsewhere if place else ratios).append(ratio)
            cells = (number(times.get(tool), ".2f") for tool in ("open", "static", *others))
            rows.append((network, size, *cells, number(ratio, ".2f"), f"{speedups[-1]:.2f}"))
    heads = ("network", "size", "any size, ms", "that size", *others.values(), "ratio", "speed-up")
    over_static = f"{mean(ratios):.2f} times as long as one for that size ({max(ratios):.2f} at most)"
    over_others = f"{mean(speedups):.2f} times as fast as the best other ({min(speedups):.2f} at least)"
    lines = [f"In the geometric mean a program for any size takes {over_static},"]
    if ratios_elsewhere:
        times = f"{mean(ratios_elsewhere):.2f} times ({max(ratios_elsewhere):.2f} at most)"
        lines.append(f"at the sizes that aren't expected {times},")
    return [*table(heads, rows), "", *lines, f"and is {over_others}."]


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


def main_loops(files: Sequence[Any]) -> list[str]:
    """How LLVM's models of processors execute products: a row per layer and processor."""
    heads = (
        "kernel",
        "layer",
        "for",
        "model",
        "multiply-adds",
        "instructions",
        "cycles",
        "of the peak",
        "spills",
    )
    return table(
        heads,
        (
            (
                loop["kernel"],
                loop["layer"],
                loop["processor"],
                loop["model"],
                str(loop["multiply_adds"]),
                str(loop["instructions"]),
                f"{loop['cycles']:.1f}",
                f"{loop['share']:.2f}",
                str(loop["spills"]),
            )
            for file in files
            for loop in file["loops"]
        ),
    )


def _size(layer: dict[str, Any]) -> str:
    return f"{layer['batch']} x {layer['height']} x {layer['width']}"


def _layer(layer: dict[str, Any]) -> str:
    return f"{layer['height']}x{layer['width']}x{layer['channels']}"


def _compile_ratio(row: dict[str, Any]) -> float:
    return float(row["ours"] / row["iree"])
