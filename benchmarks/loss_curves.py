"""Trains the sample's network of large kernels beside torch's eager, from the same weights on the same data.

    python -m benchmarks.loss_curves --output benchmarks/results/loss-curves.json \\
        --figure docs/measurements/losses.svg

Rounding makes any two runs differ, the more steps the more: how much, a second run of eager's tells whose
tensors are channels last. A Markdown table has the losses, and the largest differences from eager's so far.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import runpy
import warnings
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch
from xml.etree.ElementTree import Element

import torch
from iree.winograd.report.figure import figure, legend, text
from iree.winograd.report.markup import element
from iree.winograd.torch_compile import gain

CURVES = {"eager": "#d98c3f", "eager, channels last": "#999999", "winograd": "#1f4e8c"}
_WIDTH, _HEIGHT, _LEFT, _TOP = 560, 260, 44, 36
_SAMPLE = Path(__file__).parents[1] / "samples" / "train.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/loss-curves.json")
    parser.add_argument("--figure", type=Path, help="an SVG file, e.g. docs/measurements/losses.svg")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    losses = train(options.steps, options.batch)
    if options.output is not None:
        options.output.write_text(json.dumps({"batch": options.batch, "losses": losses}) + "\n")
    if options.figure is not None:
        options.figure.write_text(loss_figure(losses))
    print("\n".join(table(losses)))


def train(steps: int, batch: int) -> dict[str, list[float]]:
    """The loss of each step, by the names of the curves."""
    sample = runpy.run_path(str(_SAMPLE))
    torch.manual_seed(0)
    network = sample["Network"]()
    trainers = {}
    for name in CURVES:
        own = copy.deepcopy(network)
        if name.endswith("channels last"):
            own = own.to(memory_format=torch.channels_last)
        function = own
        if name == "winograd":
            function = torch.compile(own, backend="winograd", options={"fallback": "eager"})
        trainers[name] = sample["Trainer"](own, function)
    losses: dict[str, list[float]] = {name: [] for name in CURVES}
    # Layers as small as these aren't worth a call, but numbers are what is compared.
    with warnings.catch_warnings(), patch.object(gain, "CALL_SECONDS", -math.inf):
        warnings.simplefilter("ignore")
        for _ in range(steps):
            images, classes = sample["waves"](batch)
            for name, trainer in trainers.items():
                losses[name].append(trainer.step(images, classes))
    return losses


def table(losses: dict[str, list[float]]) -> list[str]:
    """A row for every sixth of the steps."""
    names = list(CURVES)
    lines = [
        f"| step | {' | '.join(names)} | largest difference: {names[1]} | winograd |",
        "|" + " --- |" * (len(names) + 3),
    ]
    steps = len(losses["eager"])
    for step in sorted({*range(0, steps, max(1, steps // 6)), steps - 1}):
        cells = [f"{losses[name][step]:.6f}" for name in names]
        cells += [f"{_difference(losses, name, step):.1e}" for name in names[1:]]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    return lines


def _difference(losses: dict[str, list[float]], name: str, last: int) -> float:
    pairs = zip(losses["eager"][: last + 1], losses[name], strict=False)
    return max(abs(ours - theirs) for ours, theirs in pairs)


def loss_figure(losses: dict[str, list[float]]) -> str:
    """An SVG document: losses over steps."""
    highest = max(max(values) for values in losses.values())
    steps = len(losses["eager"])
    right, bottom = _LEFT + _WIDTH, _TOP + _HEIGHT

    def place(step: int, loss: float) -> str:
        return f"{_LEFT + _WIDTH * step / max(1, steps - 1):.1f},{bottom - _HEIGHT * loss / highest:.1f}"

    curves = [
        element(
            "polyline",
            points=" ".join(place(step, loss) for step, loss in enumerate(losses[name])),
            fill="none",
            stroke=color,
            stroke_width=3 - number,
        )
        for number, (name, color) in enumerate(CURVES.items())
    ]
    axes = [
        element("line", x1=_LEFT, y1=bottom, x2=right, y2=bottom, stroke="black"),
        element("line", x1=_LEFT, y1=_TOP, x2=_LEFT, y2=bottom, stroke="black"),
    ]
    labels = [
        text(_LEFT - 6, _TOP + 4, f"{highest:.1f}", "end"),
        text(_LEFT - 6, bottom, "0", "end"),
        text(right, bottom + 16, f"step {steps}", "end"),
    ]
    parts: Sequence[Element] = [*legend(CURVES, _LEFT, 150), *axes, *curves, *labels]
    return figure(right + 20, bottom + 26, *parts)


if __name__ == "__main__":
    main()
