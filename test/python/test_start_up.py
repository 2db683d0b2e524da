"""What is imported when: the compiler, the runtime and numpy take long, and not all need them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("statement", "unneeded"),
    [
        ("import iree.winograd", ("iree.compiler", "iree.runtime", "numpy")),
        ("import iree.winograd.cli", ("iree.compiler", "iree.runtime", "numpy")),
        ("from iree.winograd import WinogradOptions", ("iree.compiler", "iree.runtime", "numpy")),
        ("from iree.winograd import load", ("iree.compiler",)),
        ("from iree.winograd import compile", ("iree.runtime", "torch")),
        ("from iree.winograd import tune", ("torch", "optuna", "distributed")),
        (
            "import iree.winograd.command_line.driver",
            (
                "iree.winograd.pipelines.gpu.backend",
                "iree.winograd.pipelines.cpu.kernels.depthwise",
                "iree.winograd.pipelines.cpu.kernels.direct",
                "iree.winograd.pipelines.cpu.kernels.weight_gradient",
                "iree.winograd.report.decisions",
                "iree.compiler.dialects.nvvm",
                "sqlite3",
                "tempfile",
                "xml.etree.ElementTree",
            ),
        ),
    ],
)
def test_what_takes_long_is_imported_where_it_is_needed(statement: str, unneeded: tuple[str, ...]) -> None:
    check = f"{statement}; import sys; print(*sys.modules.keys() & set({unneeded}))"
    outcome = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == []


def test_compiling_imports_no_dialect_that_nothing_is_written_in(tmp_path: Path) -> None:
    """Those of IREE and of LLVM, which programs and kernels have operations of, take long to import."""
    program = tmp_path / "program.mlir"
    program.write_text(
        """func.func @f(%x: tensor<1x14x14x16xf32>, %y: tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32> {
  %w = arith.constant dense<0.5> : tensor<3x3x16x16xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x14x14x16xf32>, tensor<3x3x16x16xf32>)
    outs(%y : tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
  return %r : tensor<1x12x12x16xf32>
}"""
    )
    flags = [
        "--iree-enable-winograd",
        "--iree-winograd-strict",
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
    ]
    arguments = [*flags, str(program), "-o", str(tmp_path / "program.vmfb")]
    main = f"from iree.winograd.command_line.driver import main; main({arguments})"
    outcome = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", main], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in outcome.stderr.splitlines()}
    assert "iree.compiler.dialects.vector" in imported
    unneeded = ("cf", "flow", "hal", "llvm", "stream")
    assert not imported & {f"iree.compiler.dialects.{name}" for name in unneeded}
