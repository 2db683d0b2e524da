"""Targets that the driver has no kernels for, or that aren't there."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver_run import TARGET, run
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from small_programs import ADD, CONVOLUTION, ENABLE, STRICT
from wide import wide_combinations


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        ("--iree-hal-local-target-device-backends=vmvx", '"vmvx" (vmvx-bytecode-fb)'),
        *wide_combinations(
            [
                (
                    "--iree-llvmcpu-target-triple=riscv64-linux-gnu --iree-llvmcpu-target-cpu=generic-rv64",
                    '"llvm-cpu" (embedded-elf-riscv_64)',
                ),
                ("--iree-hal-target-device=metal", '"metal-spirv" (metal-msl-fb)'),
            ]
        ),
    ],
)
def test_targets_without_kernels(tmp_path: Path, flags: str, target: str) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    arguments = [ENABLE, STRICT, *TARGET, *flags.split(), "--iree-winograd-remarks", "convolution.mlir"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*arguments, "-o", "out.vmfb"], tmp_path)
    message = f"convolution.mlir:0:0: error: iree-winograd has no kernels for target {target}\n"
    assert (outcome.code, outcome.stderr) == (1, message)
    assert list(outcome.files) == ["convolution.mlir"]


def test_without_a_target(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    stock = run(stock_tool("iree-compile"), ["convolution.mlir"], tmp_path)
    assert stock.code == 1
    assert run(TOOL_DIRECTORY / "iree-compile", [ENABLE, "convolution.mlir"], tmp_path) == stock


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--iree-hal-local-target-device-backends=no-such",
            "Default target backend not registered: no-such",
        ),
        *wide_combinations(
            [
                (
                    "--iree-llvmcpu-target-triple=abacus",
                    "createTargetMachine(abacus-unknown-unknown-eabi-elf) failed; "
                    "machine may not be enabled in LLVM",
                ),
                (
                    "--iree-llvmcpu-target-cpu=abacus",
                    "'abacus' is not a recognized processor for this target",
                ),
            ]
        ),
    ],
)
def test_targets_that_crash_the_stock_tool(tmp_path: Path, flag: str, message: str) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    arguments = [ENABLE, STRICT, *TARGET, flag, "add.mlir", "-o", "out.vmfb"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert (outcome.code, outcome.stderr) == (1, f"<unknown>:0: error: {message}\n")
    assert list(outcome.files) == ["add.mlir"]
