"""What AMD's compilers make of kernels, and what they are predicted to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.tables.markdown import table

SHOWN = ("gfx942", "gfx1201", "radv:gfx1201", "radv:navi31", "radv:navi21")
"""Targets of which each layer has a row: one of a family and a compiler."""


def choices(files: Sequence[Any]) -> list[str]:
    """Of each layer and target what is chosen, and the bound of its main loop beside stock IREE's."""
    (file,) = files
    programs = list(file["programs"].values())
    stock = {(each["program"], each["target"]): each for each in programs if each["by"] == "stock"}
    heads = (
        "layer",
        "target",
        "chosen",
        "predicted, us",
        "spilled",
        "waves",
        "bound",
        "stock's spilled",
        "stock's bound",
    )
    rows = []
    for each in programs:
        if each["by"] == "stock" or each["target"] not in SHOWN:
            continue
        other = stock.get((each["program"], each["target"]))
        rows.append(
            (
                each["program"],
                each["target"],
                *_choice(each["layers"]),
                *_figures(each["kernels"]),
                _bound(each["kernels"]),
                "" if other is None else _figures(other["kernels"])[0],
                "" if other is None else _bound(other["kernels"]),
            )
        )
    return table(heads, rows)


def by_target(files: Sequence[Any]) -> list[str]:
    """Of each target the registers that all kernels spill, the fewest waves, and the least bounds."""
    (file,) = files
    programs = [each for each in file["programs"].values() if each["by"] == "ours"]
    heads = (
        "target",
        "layers",
        "kernels",
        "spilled",
        "fewest waves",
        "least bound of products",
        "of fused kernels",
    )
    rows = []
    for target in sorted({each["target"] for each in programs}):
        own = [each for each in programs if each["target"] == target]
        kernels = [kernel for each in own for kernel in each["kernels"]]
        rows.append(
            (
                f"{target}",
                str(len(own)),
                str(len(kernels)),
                *_figures(kernels),
                _least(kernels, ("winograd_products", "winograd_direct")),
                _least(kernels, ("winograd_fused",)),
            )
        )
    return table(heads, rows)


def networks(files: Sequence[Any]) -> list[str]:
    """Of each network and batch what all convolutions are predicted to take, and to take IREE's own code."""
    (file,) = files
    rows = list(file["networks"].values())
    targets = list(dict.fromkeys(each["target"] for each in rows))
    named = {(each["network"], each["batch"], each["target"]): each for each in rows}
    found = []
    for network, batch in dict.fromkeys((each["network"], each["batch"]) for each in rows):
        own = [named.get((network, batch, target)) for target in targets]
        found.append((network, str(batch), *map(_times, own)))
    return table(("network", "batch", *targets), found)


def _times(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    times = f"{1e3 * row['seconds']:.2f} / {1e3 * row['stock_seconds']:.2f}"
    return f"{times} ({len(row['slower'])})" if row["slower"] else times


def _choice(layers: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Algorithm and schedule, and microseconds."""
    if not layers:
        return "IREE's code", ""
    (layer,) = layers
    schedule = layer["schedule"]
    block = "x".join(str(schedule[name]) for name in ("block_rows", "block_columns") if name in schedule)
    seconds = layer["predicted_seconds"]
    return (
        f"{layer['algorithm']}, {schedule['kind']} {block}".strip(),
        "" if seconds is None else f"{1e6 * seconds:.0f}",
    )


def _figures(kernels: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Registers that all kernels spill, and the waves of the one that has least."""
    return str(sum(each["spilled"] for each in kernels)), str(min(each["waves"] for each in kernels))


def _bound(kernels: Sequence[Mapping[str, Any]]) -> str:
    """Of the loop that does most; nothing where compilers unrolled it."""
    loops = [each["loop"] for each in kernels if "loop" in each and not _is_transform(each["name"])]
    return f"{max(loops, key=_work)['bound']:.2f}" if loops else "unrolled"


def _work(loop: Mapping[str, Any]) -> int:
    matrices: int = loop["matrix_products"]
    multiply_adds: int = loop["multiply_adds"]
    return 1000 * matrices + multiply_adds


def _least(kernels: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> str:
    bounds = [bound for each in kernels if each["name"].startswith(names) for bound in _bounds(each)]
    return f"{min(bounds):.2f}" if bounds else ""


def _bounds(kernel: Mapping[str, Any]) -> Iterator[float]:
    if "loop" in kernel:
        yield kernel["loop"]["bound"]


def _is_transform(kernel: str) -> bool:
    return kernel.startswith(("winograd_input", "winograd_output"))
