"""Tables of layers, kernels and programs on GPUs, by what they take without a caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.tables.markdown import mean, number, table
from benchmarks.tables.networks import NAMES

_AIM = 0.7
"""Of the limit, that a layer is asked to reach."""
_SMALL = 5
"""Microseconds of a limit below which launches and the latency of memory are most of what a layer takes."""


def networks(files: Sequence[Any]) -> list[str]:
    """Milliseconds of a call, torch's as CUDA graphs in the better layout, and largest errors."""
    heads = (
        "network",
        "batch",
        "ours, ms",
        "torch fp32",
        "torch TF32",
        "over fp32",
        "over TF32",
        "our error",
        "fp32's",
        "TF32's",
        "load, s",
    )
    rows = []
    for record in (record for file in files for record in file["networks"]):
        (ours,) = record["ours"].values()
        fp32, tf32 = (fastest_graph(record["cudnn"][precision]) for precision in ("fp32", "tf32"))
        rows.append(
            (
                NAMES[record["network"]],
                str(record["batch"]),
                f"{1e3 * ours['call']:.2f}",
                f"{1e3 * fp32:.2f}",
                f"{1e3 * tf32:.2f}",
                f"{fp32 / ours['call']:.2f}",
                f"{tf32 / ours['call']:.2f}",
                f"{ours['error']:.1e}",
                f"{record['cudnn']['fp32']['error']:.1e}",
                f"{record['cudnn']['tf32']['error']:.1e}",
                f"{ours['load']:.2f}",
            )
        )
    return table(heads, rows)


def layers(files: Sequence[Any]) -> list[str]:
    """Microseconds of layers as chosen beside cuDNN's, and geometric means of 3x3 layers by batch."""
    heads = (
        "N x H x W, filter, channels",
        "ours, us",
        "its kernels",
        "cuDNN fp32",
        "TF32",
        "over fp32",
        "over TF32",
        "error",
        "fp32's",
        "TF32's",
    )
    rows, means = [], dict[int, list[tuple[float, float]]]()
    for layer in (layer for file in files for layer in file["layers"]):
        ours = next(each for each in layer["ours"] if each["variant"] == "chosen")
        fp32, tf32 = (layer["cudnn"][precision] for precision in ("fp32", "tf32"))
        ratios = (fp32["seconds"] / ours["seconds"], tf32["seconds"] / ours["seconds"])
        if layer["layer"]["taps"] == 3:
            means.setdefault(layer["layer"]["batch"], []).append(ratios)
        rows.append(
            (
                _name(layer["layer"]),
                f"{1e6 * ours['seconds']:.1f}",
                f"{1e6 * sum(seconds for name, seconds in ours['stages'].items() if name != 'filter'):.1f}",
                f"{1e6 * fp32['seconds']:.1f}",
                f"{1e6 * tf32['seconds']:.1f}",
                *(f"{ratio:.2f}" for ratio in ratios),
                *(f"{each['error']:.1e}" for each in (ours, fp32, tf32)),
            )
        )
    for batch, ratios_of_batch in means.items():
        cells = (f"{mean(values):.2f}" for values in zip(*ratios_of_batch, strict=True))
        rows.append((f"3x3, N = {batch}, geometric mean", *[""] * 4, *cells, *[""] * 3))
    return table(heads, rows)


def then_and_now(files: Sequence[Any]) -> list[str]:
    """Microseconds of layers by programs of two versions that ran in turns, with half of the quartiles'
    distance, and the later one's time by the earlier one's."""
    (file,) = files
    rows, ratios = [], dict[str, list[float]]()
    for layer in file["layers"]:
        for target in dict.fromkeys(each["target"] for each in layer["ours"]):
            before, now = (
                next(each for each in layer["ours"] if (each["folder"], each["target"]) == (version, target))
                for version in ("before", "now")
            )
            cells = [cell for each in (before, now) for cell in (each["variant"], _around(each))]
            ratio = now["seconds"] / before["seconds"]
            ratios.setdefault(target, []).append(ratio)
            rows.append((_name(layer["layer"]), target, *cells, f"{ratio:.2f}"))
    rows += [
        ("geometric mean", target, *[""] * 4, f"{mean(values):.2f}") for target, values in ratios.items()
    ]
    return table(("layer", "target", "then", "us", "now", "us", "times"), rows)


def _around(record: Mapping[str, Any]) -> str:
    return f"{1e6 * record['seconds']:.1f} ± {1e6 * record['interquartile_range'] / 2:.1f}"


def gradients(files: Sequence[Any]) -> list[str]:
    """Microseconds of gradients in both layouts beside cuDNN's in the better one."""
    heads = (
        "layer",
        "gradient by",
        "NHWC, us",
        "NCHW",
        "cuDNN fp32",
        "TF32",
        "NHWC over fp32",
        "over TF32",
        "NCHW over fp32",
        "error",
        "fp32's",
        "TF32's",
    )
    rows = []
    for layer in (layer for file in files for layer in file["layers"]):
        ours = {each["name"]: each for each in layer["ours"]}
        best = {
            precision: min((layer["cudnn"][f"{precision} {layout}"] for layout in ours), key=_seconds)
            for precision in ("fp32", "tf32")
        }
        seconds = {name: _seconds(each) for name, each in (*ours.items(), *best.items())}
        rows.append(
            (
                layer["name"]
                + (f" stride {layer['layer']['stride']}" if layer["layer"]["stride"] > 1 else ""),
                layer["gradient"],
                *(f"{1e6 * seconds[name]:.1f}" for name in ("nhwc", "nchw", "fp32", "tf32")),
                f"{seconds['fp32'] / seconds['nhwc']:.2f}",
                f"{seconds['tf32'] / seconds['nhwc']:.2f}",
                f"{seconds['fp32'] / seconds['nchw']:.2f}",
                *(f"{each['error']:.1e}" for each in (ours["nhwc"], best["fp32"], best["tf32"])),
            )
        )
    return table(heads, rows)


def steps(files: Sequence[Any]) -> list[str]:
    """Milliseconds of training steps."""
    return table(
        ("network", "batch", "contender", "ms", "of it in our calls", "median relative error of gradients"),
        (
            (
                NAMES[row["network"]],
                str(row["batch"]),
                row["contender"],
                f"{row['milliseconds']:.1f}",
                number(row.get("in_calls") or None, ".1f"),
                f"{row['error']:.1e}",
            )
            for file in files
            for row in file["steps"]
        ),
    )


def fastest_graph(measured: dict[str, float]) -> float:
    """Seconds of a call by torch's CUDA graph in the better layout."""
    return min(seconds for name, seconds in measured.items() if name.startswith("graph"))


def _seconds(measured: dict[str, float]) -> float:
    return measured["seconds"]


def _name(layer: dict[str, int]) -> str:
    channels = str(layer["channels"])
    if layer["filters"] != layer["channels"]:
        channels += f" to {layer['filters']}"
    return (
        f"{layer['batch']} x {layer['size']} x {layer['size']}, {layer['taps']}x{layer['taps']}, {channels}"
    )


def reductions(files: Sequence[Any]) -> list[str]:
    """The largest error of each kind of reduction beside convolutions, over both sizes of images."""
    heads = ("reduction", "where", "our error", "stock IREE's", "torch's on a CPU")
    rows = []
    for case in (case for file in files for case in file["cases"]):
        errors = (f"{max(case[name]):.1e}" for name in ("ours", "stock", "torch"))
        rows.append((case["network"], case["place"], *errors))
    return table(heads, sorted(rows))


def half_layers(files: Sequence[Any]) -> list[str]:
    """Microseconds of layers by their kernels beside cuDNN's in the same type, ratios and errors."""
    heads = ("layer", "ours, us", "cuDNN", "over cuDNN", "predicted", "our error", "cuDNN's", "computed by")
    rows, ratios = [], []
    layers = {name: row for file in files for name, row in file["layers"].items()}
    for layer, found in sorted(layers.items()):
        ratios.append(found["torch_us"] / found["ours_us"])
        times = (found["ours_us"], found["torch_us"])
        errors = (found["ours_error"], found["torch_error"])
        rows.append(
            (
                layer,
                *(number(each, ".1f") for each in times),
                number(ratios[-1], ".2f"),
                number(found["predicted_us"], ".1f"),
                *(number(each, ".1e") for each in errors),
                found["schedules"],
            )
        )
    summary = (
        f"The geometric mean of {len(ratios)} ratios is {mean(ratios):.2f}, the least {min(ratios):.2f}."
    )
    return [*table(heads, rows), "", summary]


def layer_limits(files: Sequence[Any]) -> list[str]:
    """Shares of the limit by kind of layers, and of each that isn't small, the worst first.

    Beside the limit there is, where it was measured, what a kernel takes that copies as many bytes: the
    larger of the two is what a kernel of few bytes can take.
    """
    rows = {name: row for file in files for name, row in file["layers"].items()}
    shares = {name: row["limit_us"] / row["ours_us"] for name, row in rows.items()}
    beside_copies = {
        name: max(row["limit_us"], row["copied_us"]) / row["ours_us"]
        for name, row in rows.items()
        if "copied_us" in row
    }
    kinds: dict[tuple[str, ...], list[str]] = {}
    for name, row in rows.items():
        images, size = name.split("x")[0], "small" if row["limit_us"] < _SMALL else "others"
        kinds.setdefault((row["type"], images, _kind(name), size), []).append(name)
    heads = (
        "type",
        "images",
        "layers",
        "limit",
        "number",
        "share, mean",
        "least",
        f"at least {_AIM}",
        "of a copy or the limit, mean",
        f"at least {_AIM}",
        "us, mean",
    )
    summed = [
        (
            *kind[:3],
            f"{'less than' if kind[3] == 'small' else 'at least'} {_SMALL} us",
            str(len(names)),
            number(mean([shares[name] for name in names]), ".2f"),
            number(min(shares[name] for name in names), ".2f"),
            str(sum(shares[name] >= _AIM for name in names)),
            *_reached([beside_copies[name] for name in names if name in beside_copies]),
            number(mean([rows[name]["ours_us"] for name in names]), ".1f"),
        )
        for kind, names in sorted(kinds.items())
    ]
    large = sorted((name for name, row in rows.items() if row["limit_us"] >= _SMALL), key=shares.__getitem__)
    told = [
        (
            name,
            number(rows[name]["ours_us"], ".1f"),
            "" if rows[name].get("torch_us") is None else number(rows[name]["torch_us"], ".1f"),
            number(rows[name]["limit_us"], ".1f"),
            number(shares[name], ".2f"),
            number(rows[name].get("copied_us"), ".1f"),
            number(beside_copies.get(name), ".2f"),
            number(rows[name]["predicted_us"], ".1f"),
            *(number(rows[name][fact], ".1e") for fact in ("ours_error", "predicted_error")),
            rows[name]["schedules"],
        )
        for name in large
    ]
    found = [shares[name] for name in large]
    reached = sum(each >= _AIM for each in found)
    summary = (
        f"The geometric mean of {len(rows)} shares is {mean(shares.values()):.2f}, of the {len(found)} whose "
        f"limit is {_SMALL} us or more {mean(found):.2f}: {reached} of these are at least {_AIM}."
    )
    below = [rows[name] for name in large if shares[name] < _AIM and rows[name].get("torch_us") is not None]
    slower = sum(row["torch_us"] >= row["ours_us"] for row in below)
    compared = [f"Of the other {len(below)} that torch was timed with, too, {slower} take it no less time."]
    predictions = (
        "Predicted times over those measured, in the geometric mean, least and most:",
        f"{_spread(rows[name]['predicted_us'] / rows[name]['ours_us'] for name in large)} of these, "
        f"{_spread(row['predicted_us'] / row['ours_us'] for row in rows.values())} of all layers.",
    )
    each = table(
        (
            *("layer", "us", "torch", "limit", "share", "copy", "of the larger", "predicted"),
            *("error", "error predicted", "computed by"),
        ),
        told,
    )
    return [*table(heads, summed), "", summary, *(compared if below else []), *predictions, "", *each]


def _reached(shares: Sequence[float]) -> tuple[str, str]:
    """The mean of shares, and how many are as large as is asked for; nothing of none."""
    return (number(mean(shares), ".2f"), str(sum(each >= _AIM for each in shares))) if shares else ("", "")


_COUNTERS = {
    "memory": "memory",
    "second_cache": "second cache",
    "first_cache": "first cache",
    "issue": "instructions",
    "multiply_adds": "multiply-adds",
    "matrix_units": "matrix units",
}
"""Of a kernel's peaks, as results name them, and as the table does."""
_OF_ALL_TIME = ("memory", "second_cache")
"""Of these the ones whose percent are of all of a kernel's time, not of what multiprocessors are busy."""
_BUSY = 60
"""Percent of a peak from which on that bounds a kernel."""


def layer_counters(files: Sequence[Any]) -> list[str]:
    """By what kernels of layers are bound: percent of peaks while multiprocessors are busy, and how long.

    The roof is what a kernel takes at least by its own instructions and bytes: what keeps one unit busy
    longest, at its peak from begin to end on all multiprocessors.
    """
    heads = (
        "layer",
        "share",
        "kernel",
        "us",
        *_COUNTERS.values(),
        "busy",
        "warps",
        "roof, us",
        "by",
        "bound by",
    )
    rows = []
    found = [pair for file in files for pair in file["layers"].items()]
    for layer, row in sorted(found, key=lambda pair: pair[1]["limit_us"] / pair[1]["ours_us"]):
        named = (layer, number(row["limit_us"] / row["ours_us"], ".2f"))
        for kernel in _distinct(row["kernels"]):
            busy = 100 * kernel["active"] / kernel["elapsed"]
            peaks = {name: kernel[name] for name in _COUNTERS if name in kernel}
            rows.append(
                (
                    *named,
                    kernel["kernel"].removeprefix("winograd_").split("_")[0],
                    number(kernel["microseconds"], ".1f"),
                    *(number(peaks.get(name), ".0f") for name in _COUNTERS),
                    number(busy, ".0f"),
                    number(kernel["warps"], ".0f"),
                    *_roof(peaks, busy, kernel["microseconds"]),
                    _bound(peaks, busy),
                )
            )
            named = ("", "")
    return table(heads, rows)


def _distinct(kernels: Sequence[Any]) -> list[Any]:
    """One of each name: a chain has layers twice."""
    return list({each["kernel"]: each for each in kernels}.values())


def _roof(peaks: Mapping[str, float], busy: float, microseconds: float) -> tuple[str, str]:
    """What a kernel takes at least by its own instructions and bytes, and by which."""
    of_all = {name: peak if name in _OF_ALL_TIME else peak * busy / 100 for name, peak in peaks.items()}
    most = max(of_all, key=of_all.__getitem__)
    return number(microseconds * of_all[most] / 100, ".1f"), _COUNTERS[most]


def _bound(peaks: Mapping[str, float], busy: float) -> str:
    """What a kernel is near the peak of, or else what it isn't."""
    most = max(peaks, key=peaks.__getitem__)
    if peaks[most] >= _BUSY:
        return _COUNTERS[most]
    return "its begin and its end" if busy < _BUSY else "latency"


def _spread(ratios: Iterable[float]) -> str:
    found = list(ratios)
    return f"{mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"


def _kind(layer: str) -> str:
    kinds = ("depthwise", "groups")
    return next((kind for kind in kinds if kind in layer), "pointwise")


def between(files: Sequence[Any]) -> list[str]:
    """Microseconds of layers between convolutions, by their kernels, and shares of memory's speed."""
    heads = (
        "layer",
        "N x C x H x W",
        "type",
        "MiB",
        "us",
        "kernels",
        "of memory's speed",
        "of an equal copy's",
        "Inductor, us",
        "our error",
        "torch's",
    )
    rows = []
    measured = [row for file in files for row in file["gpu_between"].values()]
    for found in sorted(measured, key=lambda row: (row["layer"], row["type"])):
        microseconds = found["microseconds"]
        copies = (found.get(f"{kind}copy_microseconds") for kind in ("", "equal_"))
        shares = (each / microseconds if each and microseconds else None for each in copies)
        rows.append(
            (
                found["layer"],
                " x ".join(map(str, found["shape"])),
                found["type"],
                number(found["bytes"] / 2**20, ".1f"),
                number(microseconds, ".1f"),
                number(sum(count for _, count, _ in found["kernels"]), ".0f"),
                *(number(share, ".2f") for share in shares),
                number(found.get("inductor_microseconds"), ".1f"),
                *(number(found[error], ".1e") for error in ("error", "torch_error")),
            )
        )
    return table(heads, rows)


def attention(files: Sequence[Any]) -> list[str]:
    """Microseconds of attention by kind of kernel and by torch, and errors."""
    kinds = ("multiply-adds", "matrix units", "torch, f32", "torch, f16")
    heads = ("attention", "heads", "tokens", "channels")
    rows = []
    for case in (case for file in files for case in file["cases"]):
        found = [case["measured"][kind] for kind in kinds]
        sizes = (str(case[size]) for size in ("heads", "tokens", "channels"))
        times = (number(1e6 * each["seconds"], ".0f") for each in found)
        rows.append((case["name"], *sizes, *times, *(number(each["error"], ".1e") for each in found[:3])))
    errors = (f"error of {kind}" for kind in kinds[:3])
    return table((*heads, *(f"{kind}, us" for kind in kinds), *errors), rows)
