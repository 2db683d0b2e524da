"""Lines on what `benchmarks.gpu_split` has measured, as soon as it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.square_layer import SquareLayer

Record = Mapping[str, Any]


def print_case(case: Record) -> None:
    """Whether a case is right, and its errors."""
    verdict = "right" if case["right"] else "WRONG"
    print(verdict, case["case"]["problem"], case["errors"], case["of_zeros"], case["not_finite"], flush=True)


def print_products(layer: SquareLayer, products: Record) -> None:
    """The rates of the batched products of a layer, ours and cuBLAS'."""
    rates = products["flops_per_second"].items()
    terms = ", ".join(f"{name} {rate / 1e12:.0f}" for name, rate in rates)
    errors = f"error {products['error']:.1e}, cuDNN's {products['cudnn']['fp32']['error']:.1e}"
    print(f"{layer.name} {products['target']} {products['schedule']} TFLOP/s: {terms}; {errors}", flush=True)


def print_layer(layer: SquareLayer, result: Record) -> None:
    """The times and errors of a layer's variants, beside cuDNN's."""
    for name, measured in result["cudnn"].items():
        print(
            f"{layer.name}  cuDNN {name}: {measured['seconds'] * 1e6:.1f} us, error {measured['error']:.1e}"
        )
    for measured in result["ours"]:
        if "failure" in measured:
            print(f"  {measured['variant']:36} {measured['failure']}")
            continue
        stages = {name: round(seconds * 1e6, 1) for name, seconds in measured["stages"].items()}
        ratios = [result["cudnn"][name]["seconds"] / measured["seconds"] for name in ("fp32", "tf32")]
        print(
            f"  {measured['variant']:36} {measured['seconds'] * 1e6:8.1f} us  error {measured['error']:.1e}"
            f"  of cuDNN's speed {ratios[0]:.2f} (fp32) {ratios[1]:.2f} (TF32)  {stages}",
            flush=True,
        )
