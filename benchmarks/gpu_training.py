"""Steps of training on a GPU, forward, backward and SGD: this project's backend beside Inductor and eager.

    python -m benchmarks.gpu_training --networks resnet18 --batch 32 --output build/gpu-training.json

A step ends when the device is done. All but `eager-tf32` compute in single precision. `winograd-all` has all
convolutions and gradients that there are programs for computed by them, whatever is predicted to be gained.
`calls` is how many programs run in a step, `in_calls` the milliseconds of the host from the start to the end
of these. Gradients of the first step are compared with eager's in double precision: the median over
parameters of the relative error in the 2-norm.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from iree.winograd.torch_compile import gain
from iree.winograd.torch_compile.loaded_part import LoadedPart

from benchmarks.compile_contenders import EAGER, OURS
from benchmarks.networks.catalog import NETWORKS

_TF32 = f"{EAGER}-tf32"
_ALL = f"{OURS}-all"
_OPTIONS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    OURS: {"backend": OURS, "options": {"fallback": "eager"}},
    _ALL: {"backend": OURS, "options": {"fallback": "eager"}},
}
"""Arguments of `torch.compile`."""
CONTENDERS = (EAGER, _TF32, *_OPTIONS)
LAYOUTS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["resnet18"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for layout, contender in product(options.layouts, options.contenders):
            # Contenders of the same options would share what was compiled for the first.
            torch._dynamo.reset()
            trainer = Trainer(network, options.batch, contender, layout)
            row = trainer.first_step()
            row["milliseconds"] = 1e3 * statistics.median(trainer.step() for _ in range(options.rounds))
            rows.append(row)
            print(row, flush=True)
            if options.output is not None:
                report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": rows}
                options.output.write_text(json.dumps(report, indent=1) + "\n")


class Trainer:
    """A network, as any other from the same seed, with its optimizer and a batch of random images."""

    def __init__(self, network: str, batch: int, contender: str, layout: str) -> None:
        torch.manual_seed(0)
        memory_format = LAYOUTS[layout]
        self.name = {"network": network, "batch": batch, "contender": contender, "layout": layout}
        self.model = _network(network).to("cuda", memory_format=memory_format)  # type: ignore[call-overload]
        images = torch.randn(batch, *NETWORKS[network].input_shape)
        self._images = images.to("cuda", memory_format=memory_format)
        self._classes = torch.zeros(batch, dtype=torch.int64, device="cuda")
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        self._function: Callable[..., Any] = self.model
        if contender in _OPTIONS:
            self._function = torch.compile(self.model, **_OPTIONS[contender])

    def first_step(self) -> dict[str, Any]:
        """The errors of its gradients, and how many programs run in the second one."""
        start = time.perf_counter()
        exact = self._exact_gradients()
        least = -math.inf if self.name["contender"] == _ALL else gain.GPU_CALL_SECONDS
        with patch.object(gain, "GPU_CALL_SECONDS", least):
            self.step()
        gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
        errors = [_error(ours, theirs) for ours, theirs in zip(gradients, exact, strict=True)]
        with _counted_calls() as calls:
            self.step()
        return {
            **self.name,
            "error": statistics.median(errors),
            "calls": calls.number,
            "in_calls": 1e3 * calls.seconds,
            "seconds_to_second_step": time.perf_counter() - start,
        }

    def step(self) -> float:
        """Forward, backward, and the optimizer's step; its seconds."""
        torch.backends.cudnn.allow_tf32 = self.name["contender"] == _TF32
        torch.cuda.synchronize()
        start = time.perf_counter()
        self._optimizer.zero_grad()
        self._loss(self._function, self._images).backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def _loss(self, function: Callable[..., Any], images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(function(images), self._classes)

    def _exact_gradients(self) -> list[torch.Tensor]:
        model = _network(str(self.name["network"]))
        model.load_state_dict(self.model.state_dict())
        exact = model.to("cuda", torch.float64)
        self._loss(exact, self._images.double()).backward()  # type: ignore[no-untyped-call]
        return [value.grad for value in exact.parameters() if value.grad is not None]


def _network(name: str) -> torch.nn.Module:
    """One in training mode, but for dropout, which would drop others in double precision."""
    model = NETWORKS[name].build().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.eval()
    return model


@dataclass
class _Calls:
    number: int = 0
    seconds: float = 0.0


@contextmanager
def _counted_calls() -> Iterator[_Calls]:
    """Counts the calls of programs meanwhile."""
    calls, call = _Calls(), LoadedPart.__call__

    def counted(part: LoadedPart, *arguments: Any) -> Any:
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call(part, *arguments)
        calls.number += 1
        calls.seconds += time.perf_counter() - start
        return result

    with patch.object(LoadedPart, "__call__", counted):
        yield calls


def _error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value - exact).norm() / exact.norm())


if __name__ == "__main__":
    main()
