"""Times resizing, alone and between two 1x1 convolutions, with every tool: one thread, batch 1.

    python -m benchmarks.resizing --seconds 5

Sizes are of the networks of `benchmarks/networks/zoo.py`, and of decoders that double them.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from benchmarks.comparison import Comparison
from benchmarks.model_tools import TOOLS
from benchmarks.subject import Subject

# Channels, input and output size, and whether corners are aligned.
_SIZES = (
    (19, (32, 64), (256, 512), True),
    (64, (16, 32), (64, 128), True),
    (128, (8, 16), (32, 64), True),
    (64, (56, 56), (112, 112), False),
    (256, (28, 28), (56, 56), False),
)


class _Resizing(nn.Module):
    def __init__(self, channels: int, size: tuple[int, int], align_corners: bool, convolutions: bool) -> None:
        super().__init__()
        self.before = nn.Conv2d(channels, channels, 1) if convolutions else nn.Identity()
        self.after = nn.Conv2d(channels, channels, 1) if convolutions else nn.Identity()
        self._size, self._align_corners = size, align_corners

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        resized = nn.functional.interpolate(
            self.before(image), size=self._size, mode="bilinear", align_corners=self._align_corners
        )
        result: torch.Tensor = self.after(resized)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5, help="of timing a case, all tools together")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    for channels, source, size, align_corners in _SIZES:
        for convolutions in (False, True):
            torch.manual_seed(0)
            model = _Resizing(channels, size, align_corners, convolutions).eval()
            comparison = Comparison(Subject(model, torch.randn(1, channels, *source)), threads=1)
            comparison.prepare(tuple(options.tools))
            comparison.time_within(options.seconds, 0.05)
            times = ", ".join(
                f"{tool} {record['milliseconds']:.3f}" if "milliseconds" in record else f"{tool} failed"
                for tool, record in comparison.records.items()
            )
            where = "between convolutions" if convolutions else "alone"
            print(f"{channels} x {source} to {size}, {where}, ms: {times}", flush=True)


if __name__ == "__main__":
    main()
