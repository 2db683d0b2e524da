"""The check that a change leaves kernels as they were has to notice where one doesn't."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kernel_layers import PROGRAMS, TARGETS, KernelTarget
from benchmarks.kernel_text import compare, kernel_text


@pytest.mark.parametrize("target", ["avx512", "cuda"])
def test_a_program_has_the_same_kernels_each_time(target: str) -> None:
    text = kernel_text(PROGRAMS["f4"], TARGETS[target])
    assert "// convolution 0: F(4x4, 3x3)" in text
    assert "stream.executable" in text
    assert text == kernel_text(PROGRAMS["f4"], TARGETS[target])


def test_kernels_of_another_schedule_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAMS["few-tiles"]
    one, two = (kernel_text(program, KernelTarget("cpu:znver5", threads)) for threads in (1, 2))
    (tmp_path / "layer.mlir").write_text(one)
    assert compare({"layer.mlir": one}, tmp_path) == 0
    assert compare({"layer.mlir": two}, tmp_path) == 1
    assert "layer.mlir" in capsys.readouterr().out


def test_a_layer_that_is_gone_or_new_differs(tmp_path: Path) -> None:
    (tmp_path / "gone.mlir").write_text("module {}")
    assert compare({"new.mlir": "module {}"}, tmp_path) == 2
