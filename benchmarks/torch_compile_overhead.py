"""What a call of a part of a model takes beyond its program, by its number of weights: microseconds.

    python -m benchmarks.torch_compile_overhead

Convolutions so small that they take next to nothing, on one thread: the part against its program on buffers
that are there already; beside it the whole call, with what torch's guards take.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from iree.winograd.loading.runtime import LoadedFunction
from iree.winograd.torch_compile.compiled_part import CompiledPart

from benchmarks.timing import Contender, time_interleaved


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", type=int, default=[1, 20, 100])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for layers in options.layers:
        timings = time_interleaved(_contenders(layers), rounds=options.rounds)
        times = {name: 1e6 * timing.median for name, timing in timings.items()}
        overhead = times["part"] - times["program"]
        parts = ", ".join(f"{name} {time:.1f} us" for name, time in times.items())
        print(f"{2 * layers} weights: {overhead:.1f} us of a part beyond its program ({parts})", flush=True)


def _contenders(layers: int) -> list[Contender]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = torch.nn.Sequential(*[torch.nn.Conv2d(4, 4, 1) for _ in range(layers)]).eval()
    image = torch.randn(1, 4, 4, 4)
    compiled = torch.compile(model, backend="winograd", options={"cache": False})
    compiled(image)
    part, arguments = _first_call(CompiledPart, "__call__", lambda: compiled(image))
    function, (views,) = _first_call(LoadedFunction, "invoke", lambda: compiled(image))
    return [
        Contender("torch.compile", lambda: compiled(image)),
        Contender("part", lambda: part(*arguments)),
        Contender("program", lambda: function.invoke(views)),
    ]


def _first_call(owner: type, name: str, run: Callable[[], Any]) -> tuple[Any, Sequence[Any]]:
    """The object and the arguments that `run` calls the method `name` of `owner` with."""
    calls: list[tuple[Any, Sequence[Any]]] = []
    method = getattr(owner, name)

    def record(self: Any, *arguments: Any) -> Any:
        calls.append((self, arguments))
        return method(self, *arguments)

    with mock.patch.object(owner, name, record):
        run()
    return calls[0]


if __name__ == "__main__":
    main()
