"""Steps of training on a GPU, forward, backward and SGD: this project's backend beside Inductor and eager.

    python -m benchmarks.gpu_training --networks resnet18 --batch 32 --output build/gpu-training.json
    python -m benchmarks.gpu_training --types f16 bf16 autocast-f16 autocast-bf16 --contenders eager winograd

A step ends when the device is done. All but `eager-tf32` compute in single precision where the type is f32;
f16 and bf16 are models of that type, `autocast-` has weights in f32. `winograd-all` has all convolutions and
gradients that there are programs for computed by them, whatever is predicted or measured. `calls` is how
many programs run in a step. Gradients of the first step are compared with eager's in double precision: the
median over parameters of the relative error in the 2-norm. `losses` are those of the first steps.
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
from iree.winograd.torch_compile.compiled_part import CompiledPart

from benchmarks.compile_contenders import EAGER, OURS
from benchmarks.networks.catalog import NETWORKS

_TF32 = f"{EAGER}-tf32"
_ALL = f"{OURS}-all"
_OPTIONS: dict[str, dict[str, Any]] = {
    "inductor": {"backend": "inductor"},
    OURS: {"backend": OURS, "options": {"fallback": "eager"}},
    _ALL: {"backend": OURS, "options": {"fallback": "eager", "measured": False}},
}
"""Arguments of `torch.compile`."""
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
_AUTOCAST = "autocast-"
_LOSSES = 4
"""Steps after the first whose losses are told."""
_SCALE = 1024
"""That losses are multiplied by, and gradients divided by: f16 has no smaller ones than 6e-8."""
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
    parser.add_argument(
        "--types",
        nargs="+",
        choices=[*TYPES, *(_AUTOCAST + each for each in TYPES if each != "f32")],
        default=["f32"],
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for type_, layout, contender in product(options.types, options.layouts, options.contenders):
            # Contenders of the same options would share what was compiled for the first.
            torch._dynamo.reset()
            trainer = Trainer(network, options.batch, contender, layout, type_)
            row = trainer.first_step()
            row["milliseconds"] = 1e3 * statistics.median(trainer.step() for _ in range(options.rounds))
            rows.append(row)
            print(row, flush=True)
            if options.output is not None:
                report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "steps": rows}
                options.output.write_text(json.dumps(report, indent=1) + "\n")


class Trainer:
    """A network, as any other from the same seed, with its optimizer and a batch of random images."""

    def __init__(self, network: str, batch: int, contender: str, layout: str, type_: str) -> None:
        torch.manual_seed(0)
        memory_format = LAYOUTS[layout]
        names = {"network": network, "batch": batch, "contender": contender, "layout": layout}
        self.name = {**names, "type": type_}
        own = torch.float32 if type_.startswith(_AUTOCAST) else TYPES[type_]
        self._autocast = TYPES[type_.removeprefix(_AUTOCAST)] if type_.startswith(_AUTOCAST) else None
        self.model = _network(network).to("cuda", own, memory_format=memory_format)  # type: ignore[call-overload]
        images = torch.randn(batch, *NETWORKS[network].input_shape)
        self._images = images.to("cuda", own, memory_format=memory_format)
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
        gradients = [value.grad.double() for value in self.model.parameters() if value.grad is not None]
        errors = [_error(ours, theirs) for ours, theirs in zip(gradients, exact, strict=True)]
        with _counted_calls() as calls:
            self.step()
        self.loss = float(self._last)
        return {
            **self.name,
            "error": statistics.median(errors),
            "calls": calls.number,
            "losses": [self.loss, *(self._next_loss() for _ in range(_LOSSES))],
            "seconds_to_second_step": time.perf_counter() - start,
        }

    def _next_loss(self) -> float:
        self.step()
        return float(self._last)

    def step(self) -> float:
        """Forward, backward, and the optimizer's step; its seconds."""
        torch.backends.cudnn.allow_tf32 = self.name["contender"] == _TF32
        torch.cuda.synchronize()
        start = time.perf_counter()
        self._optimizer.zero_grad()
        with torch.autocast("cuda", self._autocast or torch.float16, enabled=self._autocast is not None):
            loss = self._loss(self._function, self._images)
        (_SCALE * loss).backward()
        torch._foreach_div_([each.grad for each in self.model.parameters() if each.grad is not None], _SCALE)
        self._last = loss.detach()
        self._optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    def _loss(self, function: Callable[..., Any], images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(_unrounded(function(images)), self._classes)

    def _exact_gradients(self) -> list[torch.Tensor]:
        model = _network(str(self.name["network"]))
        model.load_state_dict(self.model.state_dict())
        exact = model.to("cuda", torch.float64)
        self._loss(exact, self._images.double()).backward()  # type: ignore[no-untyped-call]
        return [value.grad for value in exact.parameters() if value.grad is not None]


def _unrounded(scores: torch.Tensor) -> torch.Tensor:
    return scores if scores.dtype == torch.float64 else scores.float()


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


@contextmanager
def _counted_calls() -> Iterator[_Calls]:
    """Counts the calls of programs meanwhile."""
    calls, call = _Calls(), CompiledPart.__call__

    def counted(part: CompiledPart, *arguments: Any) -> Any:
        calls.number += 1
        return call(part, *arguments)

    with patch.object(CompiledPart, "__call__", counted):
        yield calls


def _error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value - exact).norm() / exact.norm())


if __name__ == "__main__":
    main()
