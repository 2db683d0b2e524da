"""The layers and programs of the GPU benchmark."""

from __future__ import annotations

import pytest
from wide import wide_combinations

from benchmarks import gpu_programs
from benchmarks.gpu_programs import (
    FEW_COPIES,
    MANY_COPIES,
    MAZAHERI,
    RESNET,
    Variant,
    compile_layer,
    program,
)
from benchmarks.square_layer import SquareLayer


def test_layers_have_the_operations_that_the_paper_states() -> None:
    # The column FLOPs of Mazaheri et al., Table 4, rounded there to three digits.
    stated = """
        1e8 1e8 1.16e8 1.2e8 1.46e8 1.73e8 1.81e8 2.01e8 2.26e8 2.55e8 2.99e8 2.99e8 3.25e8 3.47e8 3.52e8
        4.43e8 4.49e8 5.78e8 6.02e8 6.94e8 7.32e8 8.67e8 8.96e8 9.03e8 1.27e9 1.5e9 1.5e9 1.73e9 2.24e9
        3.47e9 4.48e9"""
    assert [layer.flops for layer in MAZAHERI] == pytest.approx(list(map(float, stated.split())), rel=5e-3)
    assert len(RESNET) == 20


def test_repeated_layers_run_one_after_the_other() -> None:
    text = program(SquareLayer(1, 8, 8, 12, network="test"), Variant())
    assert text.count("linalg.conv_2d") == 1 + FEW_COPIES + MANY_COPIES
    assert text.count("tensor.extract_slice %result_") == FEW_COPIES + MANY_COPIES - 2


FUSED = {
    "kind": "fused",
    "products": 16,
    "block_tiles": 16,
    "block_columns": 16,
    "block_reduction": 4,
    "thread_products": 2,
}


@pytest.mark.parametrize(
    ("target", "variant"),
    [
        ("cuda:sm_80", Variant((4, 4))),
        *wide_combinations([("cuda:sm_80", Variant()), ("vulkan:ampere", Variant((2, 2), FUSED))]),
    ],
    ids=str,
)
@pytest.mark.wide
def test_programs_compile_with_our_kernels(
    target: str, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_programs, "FEW_COPIES", 1)
    monkeypatch.setattr(gpu_programs, "MANY_COPIES", 2)
    assert len(compile_layer(SquareLayer(2, 14, 32, 32, network="test"), target, variant)) > 0
