"""Whole networks: of `benchmarks.models`, `.zoo`, `.torch_compile` and `.torch_compile_zoo`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.half_precision import TOOLS as HALF_TOOLS
from benchmarks.tables.markdown import mean, number, table
from benchmarks.torch_compile_report import (
    torch_compile_failures_table,
    torch_compile_sweep_table,
    torch_compile_table,
    torch_compile_zoo_table,
)
from benchmarks.zoo_report import MIN_SPEEDUP, MOBILE, is_accurate

NAMES = {
    "alexnet": "AlexNet",
    "convnext_tiny": "ConvNeXt-T",
    "densenet161": "DenseNet-161",
    "diffusion_block": "U-Net block",
    "efficientnet_b0": "EfficientNet-B0",
    "googlenet": "GoogLeNet",
    "inceptionv3": "Inception-v3",
    "mobilenetv2": "MobileNetV2",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet152": "ResNet-152",
    "unet": "U-Net",
    "vae_decoder": "VAE decoder",
    "vgg16": "VGG-16",
}
TOOLS = {
    "torch": "torch",
    "torch-frozen": "torch, frozen",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
"""The tools that ours is compared with; stock IREE isn't one of them."""
FORMS = {"pt2e": "PT2E", "qdq": "QDQ"}
"""Of quantised networks."""


def networks(files: Sequence[Any]) -> list[str]:
    """A row per network: milliseconds of ours and of the best other tool."""
    heads = ("network", "batch", "threads", "ours, ms", "best other, ms", "which", "speed-up", "error")
    rows = []
    for record in (record for file in files for record in file):
        ours, (best, other) = record["times"]["ours"], best_other(record)
        rows.append(
            (
                NAMES[record["network"]],
                str(record["batch"]),
                str(record["threads"]),
                f"{ours['milliseconds']:.2f}",
                f"{other:.2f}",
                TOOLS[best],
                f"{ours['speedup']:.2f}",
                number(ours.get("error"), ".1e"),
            )
        )
    return table(heads, rows)


def best_other(record: dict[str, Any]) -> tuple[str, float]:
    """The fastest other tool, and its milliseconds."""
    times = {
        tool: float(values["milliseconds"])
        for tool, values in record["times"].items()
        if tool in TOOLS and "milliseconds" in values
    }
    best = min(times, key=lambda tool: times[tool])
    return best, times[best]


def summary(files: Sequence[Any]) -> list[str]:
    """The first file beside the second, networks of both: milliseconds and speed-ups of two machines."""
    first, second = ({record["network"]: record for record in file} for file in files)
    heads = (
        "network",
        "Zen 5: ours, ms",
        "best other",
        "speed-up",
        "Zen 4: ours, ms",
        "best other",
        "speed-up",
    )
    rows = []
    for network in sorted(first, key=lambda network: -float(first[network]["times"]["ours"]["speedup"])):
        cells = [NAMES[network]]
        for record in (first[network], second[network]):
            ours = record["times"]["ours"]
            other = f"{best_other(record)[1]:.1f}"
            cells += [f"{ours['milliseconds']:.1f}", other, f"{ours['speedup']:.2f}"]
        rows.append(cells)
    return table(heads, rows)


def zoo(files: Sequence[Any]) -> list[str]:
    """A row per network of a run of the zoo that was timed."""
    (rows,) = (file["zoo"] for file in files)
    heads = ("network", "convolutions", "ours, ms", *TOOLS.values(), "speed-up", "error", "torch's")
    timed = {name: row["tools"] for name, row in rows.items() if "speedup" in row["tools"].get("ours", {})}
    return table(
        heads,
        (
            (
                name,
                str(tools["ours"]["convolutions"]["ours"]),
                f"{tools['ours']['milliseconds']:.2f}",
                *(number(tools.get(tool, {}).get("milliseconds"), ".2f") for tool in TOOLS),
                f"{tools['ours']['speedup']:.2f}",
                f"{tools['ours']['error']:.1e}",
                number(tools.get("torch", {}).get("error"), ".1e"),
            )
            for name, tools in timed.items()
        ),
    )


def zoo_summary(files: Sequence[Any]) -> list[str]:
    """What a run of the zoo amounts to: means, the slowest networks, failures."""
    (rows,) = (file["zoo"] for file in files)
    ours = {name: row["tools"].get("ours", {}) for name, row in rows.items()}
    speedups = {name: float(each["speedup"]) for name, each in ours.items() if "speedup" in each}
    counts = [each["convolutions"] for each in ours.values() if "convolutions" in each]
    slowest = sorted(speedups, key=lambda name: speedups[name])[:5]
    slow = [name for name in speedups if speedups[name] < MIN_SPEEDUP]
    phones = [speedups[name] for name in MOBILE if name in speedups]
    inaccurate = [name for name, row in rows.items() if not is_accurate(row)]
    failed = [name for name, each in ours.items() if "failure" in each or "failure" in rows[name]]
    lines = [
        ("networks that were timed", str(len(speedups))),
        ("speed-up over the best other tool, geometric mean", f"{mean(speedups.values()):.2f}"),
        (f"the {len(phones)} networks for phones", f"{mean(phones):.2f}" if phones else ""),
        (f"below {MIN_SPEEDUP}", f"{len(slow)}"),
        ("the five slowest", ", ".join(f"{name} ({speedups[name]:.2f})" for name in slowest)),
        ("less accurate than 4 times torch's error, and than 1e-5", ", ".join(inaccurate) or "none"),
        ("convolutions", str(sum(each["ours"] for each in counts))),
        ("convolutions left to IREE", str(sum(sum(each["left"].values()) for each in counts))),
        ("networks that fail", ", ".join(failed) or "none"),
    ]
    return table(("", ""), (line for line in lines if line[1]))


def torch_compile(files: Sequence[Any]) -> list[str]:
    """A row per measurement of `torch.compile` by each backend."""
    return torch_compile_table([row for file in files for row in file["torch_compile"]])


def torch_compile_zoo(files: Sequence[Any]) -> list[str]:
    """A row per network: both errors."""
    (rows,) = (file["torch_compile_zoo"] for file in files)
    return torch_compile_zoo_table(rows)


def torch_compile_sweep(files: Sequence[Any]) -> list[str]:
    """What became of calls with batches and sizes that change; a row per call that falls short."""
    (rows,) = (file["torch_compile_sweep"] for file in files)
    return torch_compile_sweep_table(rows)


def torch_compile_failures(files: Sequence[Any]) -> list[str]:
    """A row per network whose compilation failed at each step."""
    (rows,) = (file["torch_compile_failures"] for file in files)
    return torch_compile_failures_table(rows)


def quantized(files: Sequence[Any]) -> list[str]:
    """Milliseconds of processor time of quantised networks, and of the same in f32."""
    heads = ("network", "form", "quantised, ms", "f32, ms", "ratio", "difference")
    rows = []
    for network, forms in (pair for file in files for pair in file["networks"].items()):
        for form, figures in forms.items():
            milliseconds = (f"{1e3 * figures[name]:.2f}" for name in ("quantized", "f32"))
            ratio, difference = f"{figures['ratio']:.2f}", f"{figures['difference']:.1e}"
            rows.append((NAMES[network], FORMS[form], *milliseconds, ratio, difference))
    return table(heads, rows)


PEERS = ("torch", "torch-frozen", "openvino", "openvino-f32")
"""Tools beside ours that tables of half precision have."""
SCATTERED_ERROR = 3.0
"""Errors of one precision differ by less, those of bf16 are four times those of f16 and more."""


def half_precision(files: Sequence[Any]) -> list[str]:
    """Milliseconds of networks of half precision, of the same in f32, and of other tools in that type.

    OpenVINO takes bf16 where it is asked for f16 without units for that, as its error tells: the fastest tool
    beside ours is the fastest of those that are as precise. Ours by bf16 is beside OpenVINO's bf16.
    """
    records = [record for file in files for record in file]
    heads = {"ours-f32": "ours in f32", "ours-bf16": "ours by bf16", "openvino-f32": "openvino in f32"}
    others = [
        tool
        for tool in HALF_TOOLS[1:]
        if any("milliseconds" in record["times"].get(tool, {}) for record in records)
    ]
    by_bf16 = "ours-bf16" in others
    rows = []
    for record in records:
        times = record["times"]
        milliseconds = {tool: times.get(tool, {}).get("milliseconds") for tool in HALF_TOOLS}
        ours = milliseconds["ours"]
        errors = (times.get(tool, {}).get("error") for tool in ("ours", "torch", "torch-frozen", "openvino"))
        ours_error, eager, frozen, openvino_error = errors
        rows.append(
            (
                NAMES[record["network"]],
                record["type"],
                str(record["batch"]),
                str(record["threads"]),
                *(number(milliseconds[tool], ".2f") for tool in ("ours", *others)),
                _ratio(ours, milliseconds["ours-f32"]),
                _ratio(_fastest_as_precise(times), ours),
                *([_ratio(milliseconds["openvino"], milliseconds["ours-bf16"])] * by_bf16),
                *(number(error, ".1e") for error in (ours_error, eager or frozen, openvino_error)),
            )
        )
    return table(
        (
            "network",
            "type",
            "batch",
            "threads",
            "ours, ms",
            *(heads.get(tool, tool) for tool in others),
            "over f32",
            "fastest as precise, over ours",
            *(["OpenVINO's over ours by bf16"] * by_bf16),
            "error",
            "torch's",
            "OpenVINO's",
        ),
        rows,
    )


def _fastest_as_precise(times: Mapping[str, Any]) -> float | None:
    """Milliseconds of the fastest tool beside ours whose error is no larger, but for scatter."""
    ours = times["ours"].get("error")
    found = [times[tool] for tool in PEERS if "milliseconds" in times.get(tool, {})]
    precise = [each for each in found if ours is None or each["error"] <= SCATTERED_ERROR * ours]
    return min((each["milliseconds"] for each in precise), default=None)


def _ratio(above: float | None, below: float | None) -> str:
    return number(None if above is None or below is None else above / below, ".2f")


def half_zoo(files: Sequence[Any]) -> list[str]:
    """By type: networks that compile, images whose largest score is float64's, and errors over torch's.

    Images and errors are of the networks that torch runs in that type. Of networks that segment images each
    pixel has scores.
    """
    heads = ("type", "scores of", "networks", "compiled", "with convolutions left")
    rows = []
    for type_, place in product(("bf16", "f16"), ("images", "pixels")):
        rows_of_type = [row[type_] for file in files for row in file["networks"].values() if type_ in row]
        found = [row for row in rows_of_type if ("pixels" in row) == (place == "pixels")]
        measured = [row for row in found if "failure" not in row]
        if not measured:
            continue
        beside = [row for row in measured if "torch_failure" not in row]
        ratios = [row["error"] / row["torch_error"] for row in beside]
        rows.append(
            (
                type_,
                place,
                str(len(found)),
                str(len(measured)),
                str(sum(row["left"] > 0 for row in measured)),
                *(str(sum(row[name] for row in beside)) for name in (place, "agreeing", "torch_agreeing")),
                f"{mean(ratios):.2f}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
            )
        )
    heads = (*heads, "of them", "agreeing", "torch's")
    return table((*heads, "error over torch's", "of a network"), rows)
