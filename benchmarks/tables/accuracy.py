"""Rounding errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.tables.markdown import number, table

_DIRECT = ("torch-nchw", "torch-nhwc", "openvino", "iree")
_EVERY_STEPS = 50


def relative_errors(files: Sequence[Any]) -> list[str]:
    """Relative errors in the 1-norm of direct convolutions and of Winograd's, a row per layer."""
    rows = [row for file in files for row in file["accuracy"]]
    algorithms = sorted(
        {(each["part_size"], each["output_tile"]) for row in rows for each in row["winograd"]},
        key=lambda algorithm: (algorithm[0], algorithm[1]),
    )
    heads = ("layer", *_DIRECT, *(f"F({tile}, {part})" for part, tile in algorithms))
    lines = []
    for row in rows:
        ours = {(each["part_size"], each["output_tile"]): each["relative"] for each in row["winograd"]}
        direct = (row["direct"].get(name, {}).get("relative") for name in _DIRECT)
        values = [*direct, *(ours.get(algorithm) for algorithm in algorithms)]
        lines.append((row["layer"], *(number(value, ".1e") for value in values)))
    return table(heads, lines)


def large_kernels(files: Sequence[Any]) -> list[str]:
    """Relative errors of large and strided kernels, and of their gradients."""
    heads = ("image", "kernel", "stride", "of", "direct", "Winograd, unsplit", "parts of 3 taps", "as chosen")
    rows = []
    for layer in (layer for file in files for layer in file["layers"]):
        for subject, errors in layer["errors"].items():
            rows.append(
                (
                    f"{layer['size']}x{layer['size']}x{layer['channels']}",
                    f"{layer['taps']}x{layer['taps']}",
                    str(layer["stride"]),
                    subject,
                    *(f"{errors[name]:.1e}" for name in ("direct", "unsplit", "parts of 3", "chosen")),
                )
            )
    return table(heads, rows)


def losses(files: Sequence[Any]) -> list[str]:
    """The loss after every 50 steps, and the largest difference from eager's until then."""
    (curves,) = (file["losses"] for file in files)
    eager, others = curves["eager"], [name for name in curves if name != "eager"]
    last = len(eager) - 1
    rows = []
    for step in [*range(0, last, _EVERY_STEPS), last]:
        furthest = (max(abs(curves[name][each] - eager[each]) for each in range(step + 1)) for name in others)
        losses_now = (f"{curves[name][step]:.6f}" for name in curves)
        rows.append((str(step), *losses_now, *(f"{each:.1e}" for each in furthest)))
    return table(("step", *curves, *(f"{name}: largest difference" for name in others)), rows)
