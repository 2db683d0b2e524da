"""A convolution that is computed by a given schedule, and the code that it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from checked_programs import compile_rewritten
from convolution_program import Program
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule

AMPERE = GpuTarget(1024, 166912, "nvvm.minctasm", "sm_80", matrix_unit=MMA)
HOPPER = GpuTarget(1024, 232448, "nvvm.minctasm", "sm_90a", matrix_unit=MMA, has_warpgroup_products=True)
F2X2 = FusedSchedule(16, 8, 8, 4, thread_products=1, thread_tiles=4, thread_columns=4)


@dataclass(frozen=True)
class ScheduledProgram(Program):
    """A program whose convolution is computed by the kernels of this schedule."""

    schedule: GpuSchedule = F2X2

    def kernels(self, architecture: str, folder: Path) -> list[str]:
        """The PTX of each kernel, for which `folder` has to be empty."""
        return [
            kernel for text in self.ptx(architecture, folder) for kernel in text.split(".visible .entry")[1:]
        ]

    def ptx(self, architecture: str, folder: Path) -> list[str]:
        """The PTX of the program, for which `folder` has to be empty."""
        files = self._files(f"cuda:{architecture}", "--iree-hal-dump-executable-binaries-to", folder, "*.ptx")
        assert all(f".target {architecture}" in text for text in files)
        return files

    def spirv(self, architecture: str, folder: Path) -> list[str]:
        """The SPIR-V of each kernel as MLIR, for which `folder` has to be empty."""
        flag = "--iree-hal-dump-executable-intermediates-to"
        return self._files(f"vulkan:{architecture}", flag, folder, "*.spirv.mlir")

    def assembly(self, architecture: str, folder: Path) -> str:
        """The instructions of all kernels on a GPU of AMD, for which `folder` has to be empty."""
        flag = "--iree-hal-dump-executable-intermediates-to"
        (text,) = self._files(f"hip:{architecture}", flag, folder, "*.rocmasm")
        return text

    def sources(self, target: str, folder: Path) -> list[str]:
        """Each kernel as MLIR, as IREE gets it, for which `folder` has to be empty."""
        return self._files(target, "--iree-hal-dump-executable-sources-to", folder, "*.mlir")

    def _files(self, target: str, flag: str, folder: Path, names: str) -> list[str]:
        """What the compiler writes to `folder` by a flag."""
        generator = np.random.default_rng(0)
        filters = generator.standard_normal(self.filter_shape).astype(np.float32)
        source = self.text(filters if self.constant_filter else None)
        compile_rewritten(source, target, [f"{flag}={folder}"])
        files = [path.read_text() for path in folder.glob(names)]
        assert files
        return files
