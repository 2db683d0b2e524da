"""Tables of networks on GPUs as users call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table

_CALLED = {
    "inductor": "Inductor, TF32",
    "inductor-graphs": "its graphs, TF32",
    "inductor-graphs-fp16": "its graphs, fp16",
}
_SAME_TYPE = ("inductor", "inductor-graphs")
"""Inductor's modes that compute in the type of the model, f32 as TF32."""


def called_networks(files: Sequence[Any]) -> list[str]:
    """Milliseconds of calls by torch.compile beside Inductor's, ratios, errors, and what is left.

    Where networks were measured in f32 and f16, those in f32 are listed, beside Inductor's time in fp16.
    """
    heads = (
        "network",
        "batch",
        "ours, ms",
        *_CALLED.values(),
        "over TF32",
        "over fp16",
        "ours, chained",
        "TF32, chained",
        "our kernels, ms",
        "TF32's",
        "our error",
        "fp32's",
        "left",
    )
    rows = [row for file in files for row in file["gpu_networks"].values()]
    if any(map(_is_single, rows)):
        halves = {(row["network"], row["batch"]): row for row in rows if row.get("type") == "f16"}
        rows = [
            _beside_fp16(row, halves.get((row["network"], row["batch"]))) for row in rows if _is_single(row)
        ]
    ratios = [(over_tf32(row), _over(row, "inductor-graphs-fp16")) for row in rows]
    lines = table(heads, (_called(row, *pair) for row, pair in zip(rows, ratios, strict=True)))
    for name, values in zip(("TF32", "fp16"), zip(*ratios, strict=True), strict=False):
        if known := [value for value in values if value is not None]:
            least = f"{mean(known):.2f} in the geometric mean of {len(known)}, {min(known):.2f} at least"
            lines += ["", f"Over {name}: {least}."]
    return [*lines, *_errors(rows)]


def _errors(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """How networks' errors compare with torch's in the same type."""
    pairs = ((row.get("tools", {}).get("winograd", {}).get("error"), row.get("eager_error")) for row in rows)
    ratios = [ours / theirs for ours, theirs in pairs if ours and theirs]
    if not ratios:
        return []
    told = f"{mean(ratios):.2f} of torch's in the geometric mean of {len(ratios)}, {max(ratios):.2f} at most"
    return ["", f"Errors: {told}."]


def _is_single(row: Mapping[str, Any]) -> bool:
    return bool(row.get("type", "f32") == "f32")


def _beside_fp16(row: Mapping[str, Any], half: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A row of f32 with the time of Inductor's graphs in fp16, which may be that of the network in f16."""
    tools = row.get("tools", {})
    in_half = {} if half is None else half.get("tools", {}).get("inductor-graphs", {})
    return {**row, "tools": {"inductor-graphs-fp16": in_half, **tools}} if in_half and tools else row


_ROUTES = {
    "winograd": "`torch.compile`",
    "winograd-fewer-guards": "with `fewer_guards`",
    "winograd-loaded": "`load`",
}
_ALLOWED_RATIO, _ALLOWED_MILLISECONDS = 1.1, 0.02
"""What a call is to take at most: so many times its kernels' time, and so much more."""


def call_routes(files: Sequence[Any]) -> list[str]:
    """Milliseconds of calls by torch.compile, with fewer guards, and of the program alone, and of kernels."""
    heads = (
        "network",
        "batch",
        "by",
        "a call, ms",
        "of it the host",
        "ten in a row",
        "kernels",
        "1.1 and 20 us",
    )
    rows, within = [], dict[str, list[bool]]()
    measured = [row for file in files for row in file["gpu_networks"].values()]
    for row in measured:
        for tool, route in _ROUTES.items():
            found = row.get("tools", {}).get(tool, {})
            if "kernel_milliseconds" not in found:
                continue
            call, kernels = found["milliseconds"], found["kernel_milliseconds"]
            allowed = _ALLOWED_RATIO * kernels + _ALLOWED_MILLISECONDS
            within.setdefault(route, []).append(call <= allowed)
            times = (call, found["host_milliseconds"], found["chained"], kernels, allowed)
            cells = (number(each, ".3f") for each in times)
            rows.append((f"`{row['network']}`", str(row["batch"]), route, *cells))
    told = ", ".join(f"{route} {sum(each)} of {len(each)}" for route, each in within.items())
    return [*table(heads, rows), "", f"Within 1.1 times their kernels' time and 20 us: {told}."]


def torch_guards(files: Sequence[Any]) -> list[str]:
    """Microseconds that torch takes of a call, and its guards of them, by which guards are kept."""
    kinds = ("all", "fewer", "none")
    heads = (
        "network",
        "torch",
        "arguments",
        "guards",
        "a call, us",
        "of it guards",
        "fewer",
        "a call",
        "of it guards",
        "without, a call",
    )
    rows = []
    for file in files:
        networks = {row["network"]: row for row in file["torch_guards"].values()}
        for network in networks:
            found = [file["torch_guards"].get(f"{network} {kind}") for kind in kinds]
            all_, fewer, none = found
            if all_ is None or fewer is None or none is None:
                continue
            times = [
                (str(each["kept"]), f"{each['call']:.0f}", f"{each['guards_of_call']:.0f}")
                for each in (all_, fewer)
            ]
            facts = (f"`{network}`", all_["torch"], str(all_["arguments"]))
            rows.append((*facts, *times[0], *times[1], f"{none['call']:.0f}"))
    return table(heads, rows)


def half_networks(files: Sequence[Any]) -> list[str]:
    """Milliseconds of calls in f16 and bf16 beside Inductor's in the same type, ratios and errors."""
    heads = ("network", "type", "batch", "ours, ms", "Inductor", "its graphs", "over the better")
    rows, ratios = [], []
    halves = [row for file in files for row in file["gpu_networks"].values() if not _is_single(row)]
    for row in halves:
        tools, ratio = row.get("tools", {}), over_tf32(row)
        ratios += [] if ratio is None else [ratio]
        times = (tools.get(name, {}).get("milliseconds") for name in ("winograd", *_SAME_TYPE))
        errors = (tools.get("winograd", {}).get("error"), row.get("eager_error"))
        named = (f"`{row['network']}`", row["type"], str(row["batch"]))
        rows.append(
            (
                *named,
                *(number(each, ".2f") for each in times),
                number(ratio, ".2f"),
                *(number(each, ".1e") for each in errors),
            )
        )
    lines = table((*heads, "our error", "torch's"), sorted(rows))
    told = f"The geometric mean of {len(ratios)} ratios is {mean(ratios):.2f}."
    return [*lines, "", told, *_errors(halves)]


def searched_networks(files: Sequence[Any]) -> list[str]:
    """Milliseconds of calls beside Inductor's that searched for kernels, seconds to compile, and errors."""
    heads = ("network", "type", "batch", "ours, ms", "its graphs", "its search", "over its search")
    heads += ("ours compiles in, s", "its graphs", "its search", "our error", "torch's")
    rows = []
    for row in (row for file in files for row in file["gpu_networks"].values()):
        tools = [row["tools"][name] for name in ("winograd", "inductor-graphs", "inductor-max-autotune")]
        named = (f"`{row['network']}`", row["type"], str(row["batch"]))
        ratio = tools[-1]["milliseconds"] / tools[0]["milliseconds"]
        errors = (tools[0]["error"], row["eager_error"])
        rows.append(
            (
                *named,
                *(number(each["milliseconds"], ".2f") for each in tools),
                number(ratio, ".2f"),
                *(number(each["seconds"], ".0f") for each in tools),
                *(number(each, ".1e") for each in errors),
            )
        )
    return table(heads, sorted(rows))


def open_sizes(files: Sequence[Any]) -> list[str]:
    """Milliseconds of a program for all sizes beside those of one size and of other tools, where measured."""
    records = [pair for file in files for pair in file["gpu_open_sizes"].items()]
    measured = [
        (network, size, found)
        for network, record in records
        for size, found in record.get("sizes", {}).items()
        # A run may end before all are timed.
        if all("milliseconds" in each for each in found.values())
    ]
    known = {tool for _, _, found in measured for tool in found}
    tools = {tool: head for tool, head in _OPEN_TOOLS.items() if tool in known}
    others = [tool for tool in tools if tool in _OPEN_OTHERS]
    errors = [tool for tool in _OPEN_ERRORS if tool in tools]
    heads = (
        "network",
        "size",
        *tools.values(),
        *(f"over {_OPEN_OTHERS[tool]}" for tool in others),
        *(_OPEN_ERRORS[tool] for tool in errors),
    )
    rows, ratios = [], []
    for network, size, found in measured:
        ratio = [found[tool]["milliseconds"] / found["open"]["milliseconds"] for tool in others]
        ratios.append(ratio)
        cells = (f"{each:.2f}" for each in (*(found[tool]["milliseconds"] for tool in tools), *ratio))
        rows.append((network, size, *cells, *(f"{found[tool]['error']:.1e}" for tool in errors)))
    means = [f"{mean(each):.2f}" for each in zip(*ratios, strict=True)]
    over = ", ".join(
        f"{each} times as fast as {_OPEN_PROGRAMS[tool]}" for each, tool in zip(means, others, strict=True)
    )
    failures = (f"{network}: {record['failure']}" for network, record in records if "failure" in record)
    kernels = _open_kernels([found for _, _, found in measured])
    sentences = [f"In the geometric mean of {len(rows)} it is {over}.", *(f"{each}." for each in failures)]
    return [*table(heads, rows), *kernels, "", " ".join(sentences)]


def _open_kernels(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the kernels of programs for all sizes compare with those of one size, where both were measured."""
    pairs = ([found[name].get("kernel_milliseconds") for name in ("open", "static")] for found in measured)
    ratios = [ours / static for ours, static in pairs if ours and static]
    if not ratios:
        return []
    told = (
        f"{mean(ratios):.2f} times as long in the geometric mean of {len(ratios)}, {max(ratios):.2f} at most"
    )
    return ["", f"Its kernels take {told}."]


_OPEN_TOOLS = {"open": "any size, ms", "static": "that size", "inductor": "Inductor", "torch": "torch"}
_OPEN_OTHERS = {"static": "that size", "inductor": "Inductor"}
_OPEN_PROGRAMS = {"static": "a program of that size", "inductor": "Inductor's"}
_OPEN_ERRORS = {"open": "our error", "torch": "torch's"}


def over_tf32(row: Mapping[str, Any]) -> float | None:
    """How many times faster ours is than the better of Inductor's modes, f32 as TF32; None without either."""
    return _over(row, *_SAME_TYPE)


def _over(row: Mapping[str, Any], *others: str) -> float | None:
    ours, *times = (row.get("tools", {}).get(name, {}).get("milliseconds") for name in ("winograd", *others))
    known = [each for each in times if each is not None]
    return min(known) / ours if ours is not None and known else None


def _called(row: Mapping[str, Any], over_tf32: float | None, over_fp16: float | None) -> list[str]:
    tools = row.get("tools", {})

    def cell(name: str, fact: str = "milliseconds") -> str:
        known = tools.get(name, {})
        return "failed" if "failure" in known else number(known.get(fact), ".2f")

    return [
        f"`{row['network']}`" + (f" {row['type']}" if row.get("type", "f32") != "f32" else ""),
        str(row["batch"]),
        "failed" if "failure" in row and not tools.get("winograd") else cell("winograd"),
        *map(cell, _CALLED),
        number(over_tf32, ".2f"),
        number(over_fp16, ".2f"),
        cell("winograd", "chained"),
        cell("inductor-graphs", "chained"),
        cell("winograd", "kernel_milliseconds"),
        cell("inductor-graphs", "kernel_milliseconds"),
        number(tools.get("winograd", {}).get("error"), ".1e"),
        number(row.get("eager_error"), ".1e"),
        str(len(row["left"])) if "left" in row else "",
    ]
