"""What AMD's compilers make of kernels, and what they are predicted to take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.amd.causes import HIGH, LEFT, LOW, OTHER
from benchmarks.tables.markdown import table

SHOWN = ("gfx90a", "gfx942", "gfx1201", "radv:gfx1201", "radv:navi31", "radv:navi21")
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
        "stock's, us",
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
                f"{1e6 * each['stock_seconds']:.0f}",
                *_figures(each["kernels"]),
                _bound(each["kernels"]),
                "" if other is None else _figures(other["kernels"])[0],
                "" if other is None else _bound(other["kernels"]),
            )
        )
    return table(heads, rows)


def rdna4(files: Sequence[Any]) -> list[str]:
    """Of each layer on RDNA 4 by Mesa the bound of its main loop, before and now, and 1.3 times the first."""
    before, now = files
    heads = ("layer", "then", "spilled", "bound", "1.3 times that", "now", "bound", "times")
    rows = []
    for each in before["layers"].values():
        program = now["programs"][f"{each['layer']}, radv:gfx1201, ours"]
        asked, bound = 1.3 * each["bound"], _bound(program["kernels"])
        rows.append(
            (
                each["layer"],
                each["chosen"],
                str(each["spilled"]),
                f"{each['bound']:.2f}",
                f"{asked:.2f}" if asked <= 1 else "more than all",
                _choice(program["layers"])[0],
                bound,
                f"{float(bound) / each['bound']:.2f}",
            )
        )
    return table(heads, rows)


def by_target(files: Sequence[Any]) -> list[str]:
    """Of each target how many kernels spill registers, and the fewest waves that a SIMD has room for."""
    (file,) = files
    groups = list(file["kernels"].values())
    rows = []
    for target in sorted({each["target"] for each in groups}):
        own = [each for each in groups if each["target"] == target]
        kernels, spilling = (sum(each[name] for each in own) for name in ("kernels", "spilling"))
        registers = max(each["most_registers"] for each in own)
        waves = min(each["fewest_waves"] for each in own)
        rows.append((target, *map(str, (kernels, spilling, registers, waves))))
    return table(("target", "kernels", "spilling", "most registers", "fewest waves"), rows)


def products(files: Sequence[Any]) -> list[str]:
    """Of each kind of products and fused kernels the bounds by family, and the kernels that have them."""
    (file,) = files
    groups = [each for each in file["kernels"].values() if each["bounds"] and each["stage"] in _MULTIPLYING]
    kinds = sorted({_kind(each) for each in groups})
    rows = []
    for kind in kinds:
        cells = []
        for prefix in _FAMILIES.values():
            own = [each for each in groups if _kind(each) == kind and re.match(prefix, each["target"])]
            cells.append(_range([bound for each in own for bound in each["bounds"]]))
        rows.append((*kind, *cells))
    return table(("kernel", "block", "of a thread or warp", *_FAMILIES), rows)


def on_nvidia(files: Sequence[Any]) -> list[str]:
    """Of each kind of kernel that is chosen by Vulkan how many programs ran on an NVIDIA GPU, how many of
    them were right, and their errors by those that are predicted."""
    (file,) = files
    kinds: dict[tuple[str, str, str], list[Any]] = {}
    for each in file["results"]:
        kinds.setdefault(_scheduled(each["implementation"]["schedule"]), []).append(each)
    rows = []
    for kind, results in sorted(kinds.items()):
        families = sorted(
            {target.removeprefix("vulkan:rdna") for each in results for target in each["targets"]}
        )
        ratios = [each["error"] / each["predicted_error"] for each in results if "error" in each]
        right = sum(each.get("right", False) for each in results)
        rows.append((*kind, ", ".join(families), str(len(results)), str(right), _range(ratios)))
    heads = (
        "kernel",
        "block",
        "of a thread or warp",
        "RDNA",
        "programs",
        "right",
        "errors, of those predicted",
    )
    return table(heads, rows)


def _scheduled(schedule: Mapping[str, Any]) -> tuple[str, str, str]:
    """The kind, the block, and that of a thread or warp, of a schedule's record."""

    def sizes(*names: str) -> str:
        return "x".join(str(schedule[name]) for name in names if name in schedule)

    block = sizes("block_rows", "block_tiles", "block_columns")
    part = sizes("warp_rows", "warp_columns") or sizes("thread_rows", "thread_tiles", "thread_columns")
    return schedule["kind"], block, part


_MULTIPLYING = ("products", "direct", "fused")
_FAMILIES = {
    "RDNA 3, 4 by LLVM": "gfx1",
    "RDNA 3, 4 by Mesa": "radv:(?!navi21)",
    "RDNA 2 by Mesa": "radv:navi21",
    "CDNA 2, 3": "gfx9(0a|42)",
    "CDNA 4": "gfx950",
}
"""Targets by the beginnings of their names."""


def _kind(group: Mapping[str, Any]) -> tuple[str, str, str]:
    return group["schedule"], group["block"], group["part"]


def _range(bounds: Sequence[float]) -> str:
    if not bounds:
        return ""
    least, most = f"{min(bounds):.2f}", f"{max(bounds):.2f}"
    return least if least == most else f"{least} to {most}"


def blocks(files: Sequence[Any]) -> list[str]:
    """Of each target how many layers have bounds below 0.85 for which cause, and how many times as long the
    fastest kernels with higher ones are predicted to take."""
    (file,) = files
    rows = list(file["blocks"].values())
    named = {(each["target"], each["cause"]): each for each in rows}
    causes = (HIGH, *LOW, OTHER, LEFT)
    targets = dict.fromkeys(each["target"] for each in rows)
    return table(
        ("target", *causes),
        [(target, *(_layers(named.get((target, cause))) for cause in causes)) for target in targets],
    )


def _layers(row: Mapping[str, Any] | None) -> str:
    """How many, and the least and the greatest part of time."""
    if row is None:
        return ""
    if "times" not in row:
        return str(row["layers"])
    least, _, most = row["times"]
    return f"{row['layers']}: {least:.2f} to {most:.2f}"


def between(files: Sequence[Any]) -> list[str]:
    """Of each operation between convolutions the kernels that it takes, and what they are on all targets."""
    (file,) = files
    rows = list(file["operations"].values())
    found = []
    for operation in dict.fromkeys(each["operation"] for each in rows):
        own = [each for each in rows if each["operation"] == operation]
        kernels = [(each["target"], kernel) for each in own for kernel in each["kernels"]]
        names = {kernel["name"] for _, kernel in kernels}
        ours = sorted({_purpose(name) for name in names if name.startswith(_OURS)})
        spilling = sorted({target for target, kernel in kernels if kernel["spilled"]})
        registers = (
            max((kernel["registers"] for target, kernel in kernels if re.match(prefix, target)), default=0)
            for prefix in _COMPILERS.values()
        )
        found.append(
            (
                operation,
                str(len(own)),
                ", ".join(ours),
                ", ".join(sorted({_purpose(name) for name in names if not name.startswith(_OURS)})),
                ", ".join(spilling) or "none",
                *map(str, registers),
                str(min(kernel["waves"] for _, kernel in kernels)),
                _range([kernel["bound"] for _, kernel in kernels if "bound" in kernel]),
            )
        )
    heads = ("operation", "targets", "kernels of ours", "IREE's", "spills on", *_COMPILERS, "fewest waves")
    return table((*heads, "bound"), found)


_OURS = "winograd_"
_COMPILERS = {"most registers, RDNA by LLVM": "gfx1", "by Mesa": "radv:", "CDNA": "gfx9"}


def _purpose(kernel: str) -> str:
    """What the name of a kernel says but for sizes."""
    words = re.sub(r"^(?:winograd|main_dispatch_\d+|jit_eval_\d+_dispatch_\d+)_", "", kernel).split("_")
    return " ".join(word for word in words if not re.search(r"\d", word) and word not in ("from", "to"))


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


def _is_transform(kernel: str) -> bool:
    return kernel.startswith(("winograd_input", "winograd_output"))
