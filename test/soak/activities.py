"""What a server does for weeks, in small: each activity checks what it computes."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import numpy.typing as npt
import torch
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.torch_compile import backend

CALLERS = 16
"""Threads that call at the same time."""
THREADS = (1, 2, 3)
"""Numbers of threads that programs run on."""
_CHILD_SECONDS = 120
"""After which a forked process hangs, however busy the machine is."""
CALLS = 640
"""Of each thread in a round."""
_LOADS = 16
"""Of each program in a round, as a file and as bytes: a hundred rounds are 10,000 and a million calls."""
_ROUNDS_OF_MODELS = 128
"""In one of which models are compiled: torch keeps 150 KiB each time, and 190 by its backend "eager"."""
_RARE_CALLS = 102
"""Of one size, after which it takes the place of another in a graph for any size."""

PROGRAM = """
func.func @main(%x: tensor<1x18x18x8xf32>) -> tensor<1x16x16x8xf32> {
  %filter = arith.constant dense<0.5> : tensor<3x3x8x8xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x16x16x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %filter : tensor<1x18x18x8xf32>, tensor<3x3x8x8xf32>)
    outs(%zeros : tensor<1x16x16x8xf32>) -> tensor<1x16x16x8xf32>
  %size = arith.constant dense<1.0> : tensor<1x16x16x8xf32>
  %z = arith.addf %y, %size : tensor<1x16x16x8xf32>
  return %z : tensor<1x16x16x8xf32>
}
"""

Array = npt.NDArray[np.float32]


class Server:
    """A process with programs that come and go, which each thread calls `calls` times in a round.

    `folder` is for its files.
    """

    def __init__(self, folder: Path, calls: int = CALLS) -> None:
        self._calls_of_thread = calls
        self._counted = threading.Lock()
        self.loads = 0
        """Programs that this process has loaded so far."""
        self.calls = 0
        """Of these."""
        self._image = np.random.default_rng(0).standard_normal((1, 18, 18, 8), np.float32)
        self._paths: dict[int, Path] = {}
        self._expected: dict[int, Array] = {}
        self._stays: dict[int, LoadedProgram] = {}
        for threads in THREADS:
            self._paths[threads] = folder / f"{threads}.vmfb"
            winograd.compile(PROGRAM, threads=threads, output=self._paths[threads])
            self._stays[threads] = self._load(threads)
            self._expected[threads] = self._stays[threads](self._image).copy()
        self._held: deque[tuple[int, Array]] = deque(maxlen=8)
        """Results of programs that were dropped, and the threads of these."""
        self._models = _Models(folder / "cache")

    @property
    def activities(self) -> Mapping[str, Callable[[], None]]:
        """What it does in a round, by name."""
        return {
            "load and drop": self.load_and_drop,
            "call from many threads": self.call_from_many_threads,
            "fork": self.fork,
            "compile models": self._models.compile_again,
            "evict sizes": self._models.evict_sizes,
        }

    def load_and_drop(self) -> None:
        """Load programs from files and from bytes, call each, and keep only results."""
        for threads, path in self._paths.items():
            for _ in range(_LOADS):
                for source in (path, path.read_bytes()):
                    self._held.append((threads, self._load(threads, source)(self._image)))
        self._count_calls(len(self._paths) * _LOADS * 2)
        for threads, result in self._held:
            self._check(threads, result)

    def call_from_many_threads(self) -> None:
        """Call programs of different numbers of threads, some of them by several callers, some by one."""
        failures: list[BaseException] = []

        def call(number: int) -> None:
            threads = THREADS[number % len(THREADS)]
            try:
                program = self._stays[threads] if number % 2 else self._load(threads)
                for _ in range(self._calls_of_thread):
                    self._check(threads, program(self._image))
                self._count_calls(self._calls_of_thread)
            except BaseException as error:
                failures.append(error)

        callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        if failures:
            raise failures[0]

    def fork(self) -> None:
        """Call programs of this process, and load others, in a child."""
        # Python warns that children of processes with threads may hang: that they don't is the point.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            status = 1
            try:
                for threads, program in self._stays.items():
                    self._check(threads, program(self._image))
                self.load_and_drop()
                status = 0
            finally:
                os._exit(status)
        last = time.monotonic() + _CHILD_SECONDS
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > last:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise AssertionError("a forked process hangs")
            time.sleep(0.002)
        assert ended[1] == 0, f"a forked process ended with status {ended[1]}"

    def _load(self, threads: int, source: Path | bytes | None = None) -> LoadedProgram:
        with self._counted:
            self.loads += 1
        return winograd.load(self._paths[threads] if source is None else source, threads=threads)

    def _count_calls(self, count: int) -> None:
        with self._counted:
            self.calls += count

    def _check(self, threads: int, result: Array) -> None:
        expected = self._expected[threads]
        # What says where arrays differ takes as long as a call.
        if not np.array_equal(result, expected):
            np.testing.assert_array_equal(result, expected)


class _Models:
    """Models that torch compiles again and again, with less room for their programs than they need."""

    def __init__(self, cache: Path) -> None:
        self._options = {"threads": 1, "cache_folder": str(cache), "sizes": 1, "measured": False}
        torch.manual_seed(0)
        self._round = 0
        self._models = [_Model().eval() for _ in range(2)]
        self._image = torch.randn(1, 3, 12, 12)
        self._sized_model = _SizedModel().eval()
        self._any_size = self._compiled(self._sized_model, dynamic=True)

    def compile_again(self) -> None:
        """In some rounds: have torch forget graphs, and compile models whose programs are in the cache."""
        self._round += 1
        if self._round % _ROUNDS_OF_MODELS != 1:
            return
        with torch.no_grad():
            for model in self._models:
                # Not of all code: what torch traces with symbols for sizes it never lets go of, whatever the
                # backend, and so that graph stays.
                torch._dynamo.reset_code(_Model.forward.__code__)
                self._check(model, self._compiled(model), self._image)

    def evict_sizes(self) -> None:
        """Have one size take the place of another in a graph that has a program for a single one."""
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for size in (12, 14):
                image = torch.randn(1, 3, size, size)
                for _ in range(_RARE_CALLS):
                    self._any_size(image)
                self._check(self._sized_model, self._any_size, image)

    def _compiled(self, model: torch.nn.Module, dynamic: bool = False) -> Callable[..., Any]:
        def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            return backend.winograd(graph, inputs, options=self._options)

        return torch.compile(model, backend=compile_graph, dynamic=dynamic)

    def _check(self, model: torch.nn.Module, function: Callable[..., Any], image: torch.Tensor) -> None:
        # Transforms of small tiles enlarge errors of 27 products by less than ten.
        torch.testing.assert_close(function(image), model(image), rtol=0, atol=10 * 27 * 2.0**-24 * 8)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolution(image))


class _SizedModel(_Model):
    """With code of its own, which torch compiles apart."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.convolution(image))
