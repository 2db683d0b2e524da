"""Times Fourier transforms as convolutions, forward and inverse, beside other tools: one thread, batch 1.

    python -m benchmarks.fourier --tools ours torch onnxruntime openvino

Frames are those of speech recognition, of vocoders and of separation of music. A Markdown table is printed,
in milliseconds; its last column is the seconds that ours took to compile.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.comparison import Comparison
from benchmarks.model_tools import TOOLS
from benchmarks.subject import Subject


@dataclass(frozen=True)
class Transform:
    """Of so many frames of `taps` samples, `stride` samples apart."""

    taps: int
    stride: int
    frames: int
    is_inverse: bool

    def __str__(self) -> str:
        kind = "inverse" if self.is_inverse else "forward"
        return f"{kind}, {self.frames} frames of {self.taps} by {self.stride}"

    def subject(self) -> Subject:
        """The convolution, random filters of real and imaginary parts, and what it takes."""
        torch.manual_seed(0)
        parts = self.taps + 2
        if self.is_inverse:
            inverse = nn.ConvTranspose1d(parts, 1, self.taps, self.stride, bias=False)
            return Subject(inverse.eval(), torch.randn(1, parts, self.frames))
        samples = (self.frames - 1) * self.stride + self.taps
        forward = nn.Conv1d(1, parts, self.taps, self.stride, bias=False)
        return Subject(forward.eval(), torch.randn(1, 1, samples))


TRANSFORMS = [
    Transform(taps, stride, frames, is_inverse)
    for is_inverse in (False, True)
    for taps, stride, frames in ((400, 160, 50), (1024, 256, 64), (4096, 1024, 12))
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5, help="of timing a case, all tools together")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=["ours", "torch"])
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    print(f"| | {' | '.join(options.tools)} | compiled, s |\n|{' --- |' * (len(options.tools) + 2)}")
    for transform in TRANSFORMS:
        comparison = Comparison(transform.subject(), threads=1)
        comparison.prepare(tuple(options.tools))
        comparison.time_within(options.seconds, 0.05)
        records = comparison.records
        times = [
            f"{records[tool]['milliseconds']:.3f}" if "milliseconds" in records[tool] else "failed"
            for tool in options.tools
        ]
        compiled = records.get("ours", {}).get("compile_seconds", 0.0)
        print(f"| {transform} | {' | '.join(times)} | {compiled:.1f} |", flush=True)


if __name__ == "__main__":
    main()
