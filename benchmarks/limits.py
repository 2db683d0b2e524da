"""What the machine can do at most, measured: the rates of multiply-adds in registers, of a long copy and of
reading."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod
from pathlib import Path

import numpy as np
from iree.winograd.calibration.cpu import aligned_ones
from iree.winograd.calibration.cpu_programs import (
    block_bytes,
    build_cpu_programs,
    build_multiply_add,
    multiply_adds,
    passes_over,
)
from iree.winograd.calibration.programs import backend_of, compile_module
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
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
        from iree.winograd.loading.runtime import load

        torch.set_num_threads(threads)
        source = torch.rand(16 << 20)
        copied = torch.empty_like(source)
        self._bytes = 2 * source.nbytes
        target = _target()
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


@dataclass(frozen=True)
class LayerWork:
    """What a layer takes by its algorithm, whatever computes it."""

    operations: int
    """Of products, which transforms aren't among."""
    filter_bytes: int
    """Of transformed filters, each read once."""


@dataclass(frozen=True)
class ThreadLimits:
    """`operations_per_second` and `bytes_per_second`, that all threads read together."""

    operations_per_second: float
    bytes_per_second: float

    def seconds(self, layers: Iterable[LayerWork]) -> float:
        """The least that layers take, one after the other: multiplying, or reading filters meanwhile."""
        return sum(
            max(layer.operations / self.operations_per_second, layer.filter_bytes / self.bytes_per_second)
            for layer in layers
        )


def filters_of(layers: Iterable[LayerWork]) -> int:
    """Bytes of all of them."""
    return sum(layer.filter_bytes for layer in layers)


def layers_of(report: Path, batch: int) -> list[LayerWork]:
    """The work of the layers of a program compiled for `batch` images, by its report.

    Layers of fewer images are in a loop over all of them, which reads filters once at least.
    """
    layers = []
    for layer in json.loads(report.read_text())["layers"]:
        problem, chosen = layer["problem"], layer["candidates"][layer["chosen"]]
        decomposition = decompose(
            problem["kernel_size"],
            chosen["output_tile"],
            strides=problem["strides"],
            dilations=problem["dilations"],
            part_size=chosen["part_size"],
        )
        tiles = problem["batch"] * prod(decomposition.tiles(problem["output_size"]))
        # Each filter is multiplied, and added, once for a tile.
        filter_bytes = 4 * chosen["operations"] // (2 * tiles)
        layers.append(LayerWork(chosen["operations"] * (batch // problem["batch"]), filter_bytes))
    return layers


def compile_thread_probes(threads: int) -> bytes:
    """The program of `ThreadProbes`."""
    return compile_module(build_cpu_programs(_target(), threads), "cpu")


@dataclass(frozen=True)
class ThreadProbes:
    """What shows the limits of so many threads together: multiplying in registers, and reading `size` bytes.

    That should be the filters that layers read: they come again and again from wherever so many stay.
    """

    threads: int
    size: int

    names = ("limit-multiply-add", "limit-read")

    def contenders(self, program: Path) -> list[Contender]:
        """By a program of `compile_thread_probes`."""
        from iree.winograd.loading.runtime import load

        loaded = load(program, threads=self.threads)
        factors = np.full((self.threads, _target().vector_width), 0.5, np.float32)
        buffer = aligned_ones(self._blocks, block_bytes(_target()) // 4)
        runs = partial(loaded.multiply_add, factors), partial(loaded.read_together, buffer)
        return [Contender(name, run) for name, run in zip(self.names, runs, strict=True)]

    def limits(self, seconds: Mapping[str, float]) -> ThreadLimits:
        """What these times of the contenders show."""
        multiplying, reading = (seconds[name] for name in self.names)
        read = passes_over(self._blocks, _target()) * self._blocks * block_bytes(_target())
        return ThreadLimits(self.threads * multiply_adds(_target()) / multiplying, read / reading)

    @property
    def _blocks(self) -> int:
        """That are read, at least one for each thread."""
        return max(self.threads, self.size // block_bytes(_target()))


@cache
def _target() -> CpuTarget:
    """This processor, which the compiler is asked for."""
    backend = backend_of("cpu")
    assert isinstance(backend, CpuBackend)
    return backend.target
