"""The figure of the README: networks by each tool, on a core of a CPU and on a GPU.

    python -m benchmarks.speed_figure docs/speed.svg

Bars are speeds relative to the fastest other tool of fp32, so that ours is the speed-up.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from iree.winograd.report.figure import figure, legend, text
from iree.winograd.report.markup import element

from benchmarks.tables.gpu import fastest_graph
from benchmarks.tables.networks import NAMES, TOOLS

RESULTS = Path(__file__).parent / "results"
CPU_FILE, GPU_FILE = "models-zen5-1-thread.json", "gpu-models-h200-128-sums.json"
GPU_BATCH = 32

COLORS = {
    "iree-winograd": "#1f4e8c",
    "OpenVINO": "#8a5fb0",
    "ONNX Runtime": "#4f9a5b",
    "torch": "#d98c3f",
    "torch, TF32": "#e8c08f",
}
_WIDTH, _LEFT, _TOP, _BAR, _PANEL_HEIGHT, _PANEL_GAP = 760, 40, 62, 13, 170, 64

Speeds = Mapping[str, Mapping[str, float]]
"""By network and tool."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="the SVG file to write")
    parser.parse_args().output.write_text(speed_figure(*map(_results, (CPU_FILE, GPU_FILE))))


def speed_figure(cpu: Sequence[Mapping[str, Any]], gpu: Mapping[str, Any]) -> str:
    """An SVG document with a panel for the CPU's networks, and one for the GPU's."""
    panels = {
        "One core of Zen 5 (AMD EPYC, AVX-512), fp32, batch 1": cpu_speeds(cpu),
        f"NVIDIA H200, fp32, batch {GPU_BATCH}, torch as CUDA graphs": gpu_speeds(gpu["networks"]),
    }
    elements = list(legend(COLORS, _LEFT, 140))
    for number, (title, speeds) in enumerate(panels.items()):
        elements += _panel(_TOP + number * (_PANEL_HEIGHT + _PANEL_GAP), title, speeds)
    return figure(_WIDTH, _TOP + len(panels) * (_PANEL_HEIGHT + _PANEL_GAP) - 20, *elements)


def cpu_speeds(records: Sequence[Mapping[str, Any]]) -> Speeds:
    """Speeds of each tool; torch is the faster of eager and frozen."""
    speeds = {}
    for record in records:
        times: dict[str, float] = {}
        for tool, name in {"ours": "iree-winograd", **TOOLS}.items():
            milliseconds = record["times"].get(tool, {}).get("milliseconds")
            name = "torch" if name.startswith("torch") else name
            if milliseconds is not None:
                times[name] = min(milliseconds, times.get(name, milliseconds))
        speeds[NAMES[record["network"]]] = _relative(times)
    return _fastest_first(speeds)


def gpu_speeds(records: Sequence[Mapping[str, Any]]) -> Speeds:
    """Speeds of ours and of torch's CUDA graphs, of which only those in fp32 are compared with."""
    speeds = {}
    for record in records:
        if record["batch"] == GPU_BATCH:
            (ours,) = record["ours"].values()
            fp32, tf32 = (fastest_graph(record["cudnn"][precision]) for precision in ("fp32", "tf32"))
            times = {"iree-winograd": ours["call"], "torch": fp32, "torch, TF32": tf32}
            speeds[NAMES[record["network"]]] = _relative(times)
    return _fastest_first(speeds)


def _relative(times: Mapping[str, float]) -> dict[str, float]:
    best = min(time for name, time in times.items() if name not in ("iree-winograd", "torch, TF32"))
    return {name: best / times[name] for name in COLORS if name in times}


def _fastest_first(speeds: Speeds) -> Speeds:
    return dict(sorted(speeds.items(), key=lambda item: -item[1]["iree-winograd"]))


def _panel(top: float, title: str, speeds: Speeds) -> Iterator[Element]:
    highest = ceil(max(speed for each in speeds.values() for speed in each.values()))
    bottom = top + _PANEL_HEIGHT
    yield text(_LEFT, top - 14, title, size=12)
    for level in range(highest + 1):
        y = bottom - level / highest * _PANEL_HEIGHT
        yield element("path", d=f"M{_LEFT} {y:.1f}H{_WIDTH - 10}", stroke="#888" if level == 1 else "#ddd")
        yield text(_LEFT - 6, y + 4, f"{level}x", "end", size=9)
    bars = sum(len(each) for each in speeds.values())
    gap = (_WIDTH - _LEFT - 20 - bars * _BAR) / len(speeds)
    x = _LEFT + gap / 2
    for network, each in speeds.items():
        middle = x + len(each) * _BAR / 2
        for name, speed in each.items():
            height = speed / highest * _PANEL_HEIGHT
            caption = element("title", f"{network}, {name}: {speed:.2f}")
            yield element("rect", caption, x=f"{x:.1f}", y=f"{bottom - height:.1f}", width=_BAR - 1,
                          height=f"{height:.1f}", fill=COLORS[name])  # fmt: skip
            if name == "iree-winograd":
                yield text(x + _BAR / 2, bottom - height - 4, f"{speed:.2f}", "middle", size=9)
            x += _BAR
        yield text(middle, bottom + 14, network, "middle", size=10)
        x += gap


def _results(file: str) -> Any:
    return json.loads((RESULTS / file).read_text())


if __name__ == "__main__":
    main()
