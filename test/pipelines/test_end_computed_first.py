"""What is computed first ends no submission to the device."""

from __future__ import annotations

import subprocess
from pathlib import Path

import iree.winograd
import pytest
import torch
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.targets import target_flags
from warm_python import driver_environment
from wide import wide


class Normalized(torch.nn.Module):
    """Group normalization, and attention of pixels to each other, behind convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(8, 32, 3, padding=1)
        self.norm = torch.nn.GroupNorm(4, 32)
        self.last = torch.nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pixels = self.last(torch.nn.functional.silu(self.norm(self.first(image)))).flatten(2)
        return (pixels.transpose(1, 2) @ pixels).softmax(-1)


@pytest.mark.parametrize("target", ["cpu:haswell", *wide(["vulkan"])])
def test_all_dispatches_are_submitted_at_once(tmp_path: Path, target: str) -> None:
    source = tmp_path / "normalized.mlirbc"
    iree.winograd.import_torch(Normalized().eval(), torch.randn(1, 8, 15, 15)).save(source)

    def compile_to(phase: str) -> str:
        command = [TOOL_DIRECTORY / "iree-compile", source, *target_flags(target), "--iree-enable-winograd"]
        command += ["--iree-winograd-threads=1", f"--compile-to={phase}"]
        return subprocess.run(
            command, env=driver_environment(), capture_output=True, text=True, check=True
        ).stdout

    assert "util.optimization_barrier" in compile_to("preprocessing")
    program = compile_to("stream")
    assert "util.optimization_barrier" not in program
    assert program.count("stream.cmd.execute") == 1
