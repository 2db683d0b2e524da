"""What the machine can do at most, measured: the rates of multiply-adds in registers and of a long copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from iree.winograd.tuning.measuring.outcome import Timing

from benchmarks.convolutions import ConvolutionLayer
from benchmarks.timing import Contender


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
        return max(layer.necessary_flops / self.flops, layer.bytes_moved / self.bandwidth)


class LimitProbes:
    """Contenders that show the limits on `threads` threads.

    They belong among the contenders that are judged by them, since clocks differ from minute to minute. The
    copy reads and writes 64 MiB, and counts both.
    """

    def __init__(self, threads: int) -> None:
        import torch
        from iree.winograd.calibration.cpu_programs import build_multiply_add, multiply_adds
        from iree.winograd.calibration.programs import backend_of, compile_module
        from iree.winograd.pipelines.cpu.backend import CpuBackend
        from iree.winograd.runtime import load

        torch.set_num_threads(threads)
        source = torch.rand(16 << 20)
        copied = torch.empty_like(source)
        self._bytes = 2 * source.nbytes
        backend = backend_of("cpu")
        assert isinstance(backend, CpuBackend)
        target = backend.target
        self._flops = threads * multiply_adds(target)
        vmfb = compile_module(build_multiply_add(target), "cpu")
        multiply_add = load(vmfb, "local-sync") if threads == 1 else load(vmfb, "local-task", threads=threads)
        factors = np.full((threads, target.vector_width), 0.5, np.float32)
        self.contenders = (
            Contender("multiply-add", lambda: multiply_add(factors)),
            Contender("copy", lambda: copied.copy_(source)),
        )

    def limits(self, timings: Mapping[str, Timing]) -> Limits:
        """The limits that the timings of `contenders` show."""
        return Limits(
            flops=self._flops / timings["multiply-add"].median, bandwidth=self._bytes / timings["copy"].median
        )
