"""Measures the errors of large and strided kernels and of their gradients, decomposed and not.

    python -m benchmarks.large_kernels --output benchmarks/results/large-kernels.json

As table 1 of Huang et al. (AAAI 2020), which is of forward convolutions: standard normal data, same padding,
errors against float64. They are sums of all absolute errors over sums of all magnitudes. "unsplit" has parts
as long as a phase of the stride has taps, and tiles of 2 outputs; "parts of 3" has tiles of 4; what is
"chosen" keeps the error budget. A Markdown table follows the measurements.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from math import lcm
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import iree.winograd
import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection import prediction

SIZES = ((28, 64), (14, 128))
"""Of images and channels."""
PARTS: Mapping[str, tuple[int, int | None]] = MappingProxyType({"unsplit": (2, None), "parts of 3": (4, 3)})
"""The output tile, and the taps of a part, None for all of a phase."""
CONTENDERS = ("direct", *PARTS, "chosen")
OPERATORS = ("forward", "image gradient", "weight gradient")


def main() -> None:
    options = _parse_arguments()
    torch.set_num_threads(options.threads)
    records = []
    for size, channels in SIZES:
        for taps in options.taps:
            for stride in options.strides:
                records.append(measure(size, channels, taps, stride, options.batch))
                print(_row(records[-1], "forward"), flush=True)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps({"batch": options.batch, "layers": records}, indent=1) + "\n")
    print("\n".join(table(records)))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--taps", nargs="+", type=int, default=[5, 7, 9, 11])
    parser.add_argument("--strides", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/large-kernels.json")
    return parser.parse_args()


def measure(size: int, channels: int, taps: int, stride: int, batch: int) -> dict[str, Any]:
    """The errors of all three operators of a layer by each contender, None where it is left to IREE."""
    torch.manual_seed(11)
    image = torch.randn(batch, channels, size, size)
    weight = torch.randn(channels, channels, taps, taps)
    window = ([stride, stride], [taps // 2, taps // 2], [1, 1], False, [0, 0], 1)
    gradient = torch.randn_like(torch.ops.aten.convolution(image, weight, None, *window))
    errors: dict[str, dict[str, float | None]] = {}
    for name in OPERATORS:
        operands = (image, weight) if name == "forward" else (gradient, image, weight)
        operator = _Operator(name, window)
        exact = operator(*(each.double() for each in operands))
        errors[name] = {"direct": error_of(operator(*operands), exact)}
        for contender in CONTENDERS[1:]:
            errors[name][contender] = _our_error(contender, operator, operands, exact)
    return {"size": size, "channels": channels, "taps": taps, "stride": stride, "errors": errors}


class _Operator(torch.nn.Module):
    """A convolution, or one of its gradients."""

    def __init__(self, name: str, window: tuple[Any, ...]) -> None:
        super().__init__()
        self._name, self._window = name, window

    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        if self._name == "forward":
            result: torch.Tensor = torch.ops.aten.convolution(*operands, None, *self._window)
            return result
        mask = [self._name == name for name in (*OPERATORS[1:], None)]
        gradients = torch.ops.aten.convolution_backward(*operands, None, *self._window, mask)
        (found,) = (each for each, is_wanted in zip(gradients, mask, strict=True) if is_wanted)
        return found


def _our_error(
    contender: str, operator: _Operator, operands: tuple[torch.Tensor, ...], exact: torch.Tensor
) -> float | None:
    chosen = contender == "chosen"
    restricted = (
        nullcontext() if chosen else patch.object(prediction, "candidate_algorithms", _only(contender))
    )
    with restricted:
        model = iree.winograd.import_torch(torch.export.export(operator, operands))
        compiled = iree.winograd.compile(
            model, target="cpu:host", threads=1, max_relative_error=None if chosen else 1.0
        )
    result = iree.winograd.load(compiled, device="local-sync")(*operands)
    return error_of(torch.as_tensor(result), exact)


def _only(contender: str) -> Callable[..., Iterator[Algorithm]]:
    """What gives the algorithm of a contender alone."""
    tile, part = PARTS[contender]

    def algorithms(problem: ConvolutionProblem, output_tile: int | None = None) -> Iterator[Algorithm]:
        phases = [lcm(s, d) // d for s, d in zip(problem.strides, problem.dilations, strict=True)]
        taps = [ceil_div(r, phase) for r, phase in zip(problem.kernel_size, phases, strict=True)]
        parts = tuple(min(part or each, each) for each in taps)
        yield Algorithm(tuple(1 if each == 1 else tile for each in parts), parts)

    return algorithms


def error_of(result: torch.Tensor, exact: torch.Tensor) -> float:
    """|error|_1 / |exact|_1."""
    return float((result.double() - exact).abs().sum() / exact.abs().sum())


def table(records: list[dict[str, Any]]) -> list[str]:
    """A row per layer and operator."""
    head = ["image", "kernel", "stride", "operator", *CONTENDERS]
    rows = [_row(record, operator) for record in records for operator in OPERATORS]
    return [f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *rows]


def _row(record: dict[str, Any], operator: str) -> str:
    found = record["errors"][operator]
    cells = [
        f"{record['size']} x {record['size']} x {record['channels']}",
        f"{record['taps']} x {record['taps']}",
        str(record["stride"]),
        operator,
        *("" if found[name] is None else f"{found[name]:.1e}" for name in CONTENDERS),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
