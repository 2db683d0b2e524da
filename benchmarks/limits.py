"""What the machine can do at most, measured: the rate of its best single-precision GEMM and of a streaming copy."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.convolutions import ConvolutionLayer
from benchmarks.timing import Contender, time_interleaved


@dataclass(frozen=True)
class Limits:
    """`flops` per second and `bandwidth` in bytes per second."""

    flops: float
    bandwidth: float

    def __post_init__(self) -> None:
        if self.flops <= 0 or self.bandwidth <= 0:
            raise ValueError(f"limits must be positive, got {self}")

    def seconds(self, layer: ConvolutionLayer) -> float:
        """The least time a direct convolution could take."""
        return max(layer.flops / self.flops, layer.bytes_moved / self.bandwidth)


def measure_limits(threads: int) -> Limits:
    """Times a 1536 x 1536 GEMM and a copy of 128 MiB (read and written once each) on `threads` threads."""
    import torch

    torch.set_num_threads(threads)
    size = 1536
    left, right = torch.rand(size, size), torch.rand(size, size)
    product = torch.empty(size, size)
    source = torch.rand(32 << 20)
    target = torch.empty_like(source)
    timings = time_interleaved(
        [
            Contender("gemm", lambda: torch.mm(left, right, out=product)),
            Contender("copy", lambda: target.copy_(source)),
        ],
        rounds=5,
        burst_seconds=0.1,
    )
    return Limits(
        flops=2 * size**3 / min(timings["gemm"].samples),
        bandwidth=2 * source.nbytes / min(timings["copy"].samples),
    )
