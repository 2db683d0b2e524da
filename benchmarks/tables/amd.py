"""What AMD's compilers make of kernels, and what they are predicted to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.tables.markdown import table


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
        if each["by"] == "stock":
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

    def work(loop: Mapping[str, Any]) -> int:
        matrices: int = loop["matrix_products"]
        multiply_adds: int = loop["multiply_adds"]
        return 1000 * matrices + multiply_adds

    loops = [each["loop"] for each in kernels if "loop" in each and not _is_transform(each["name"])]
    return f"{max(loops, key=work)['bound']:.2f}" if loops else "unrolled"


def _is_transform(kernel: str) -> bool:
    return kernel.startswith(("winograd_input", "winograd_output"))
