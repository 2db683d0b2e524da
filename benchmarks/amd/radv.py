"""What Mesa's driver RADV tells of kernels for Vulkan, on a GPU that isn't there.

Mesa's stand-in of the kernel's driver pretends to be a GPU. IREE's own runtime loads the program, for which
it creates all pipelines, and the driver prints what its compiler made of them. Nothing runs: no GPU signals
the end of anything, so the runtime is ended once all pipelines are there.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from benchmarks.amd.bounds import Bound, architecture_of, waves_by_sharing
from benchmarks.amd.kernel import CompiledKernel, loop_of

MESA = Path(__file__).parents[2] / "build" / "amd-mesa"
"""Where `make amd` has Mesa put."""
STAND_INS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "navi21": ("rdna2", "gfx1030"),
        "navi31": ("rdna3", "gfx1100"),
        "navi33": ("rdna3", "gfx1102"),
        "phoenix": ("rdna3", "gfx1103"),
        "strix1": ("rdna3", "gfx1150"),
        "gfx1201": ("rdna4", "gfx1201"),
    }
)
"""By Mesa's names: IREE's target for them, and LLVM's name of the chip."""
_LIBRARIES = Path("usr", "lib", "x86_64-linux-gnu")
_SECONDS = 480
"""For all kernels of a program: Mesa's compiler takes minutes for a loop that it unrolls."""
_PARTS = re.compile(r"^(?:SPIR-V assembly:|disasm:|\*\*\* SHADER STATS \*\*\*)$", re.MULTILINE)


class NoMesaError(Exception):
    """Mesa isn't installed where it should be."""


def is_installed(mesa: Path = MESA) -> bool:
    """Whether Mesa is in a folder."""
    return _loader(mesa).exists()


def radv_kernels(program: Path, stand_in: str, expected: int, mesa: Path = MESA) -> list[CompiledKernel]:
    """The `expected` kernels of a compiled program, as they are on a GPU of Mesa's stand-in.

    Raises `NoMesaError`, and RuntimeError, with what the runtime says, where it doesn't load the program.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as output:
            process = subprocess.Popen(
                _command(program, mesa),
                env={**os.environ, **_environment(stand_in, mesa, folder)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                return _await_kernels(process, log, stand_in, expected)
            finally:
                process.kill()
                process.wait()


def _await_kernels(
    process: subprocess.Popen[bytes], log: Path, stand_in: str, expected: int
) -> list[CompiledKernel]:
    end = time.monotonic() + _SECONDS
    while True:
        ended = process.poll() is not None
        text = log.read_text(errors="replace")
        # Ours are not called "main", as the two of IREE's runtime are.
        if text.count("\n********************") >= expected:
            kernels = [each for each in kernels_of_log(text, stand_in) if each.name != "main"]
            if len(kernels) >= expected:
                return kernels
        if ended or time.monotonic() > end:
            said = "\n".join(line for line in text.splitlines()[-8:] if line.strip())
            state = f"exits with {process.returncode}" if ended else "doesn't end"
            raise RuntimeError(f"IREE's runtime {state} before it has all {expected} kernels:\n{said}")
        time.sleep(0.1)


def kernels_of_log(log: str, stand_in: str) -> Iterator[CompiledKernel]:
    """Those that RADV printed: SPIR-V, machine code and numbers of each."""
    _, chip = STAND_INS[stand_in]
    architecture = architecture_of(chip)
    # What follows each heading; numbers end with a line of stars.
    spirv = code = ""
    headings = list(_PARTS.finditer(log))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        part = log[heading.end() : following.start() if following else None]
        if heading[0].startswith("SPIR-V"):
            spirv = part
        elif heading[0] == "disasm:":
            code = part
        elif "\n********************" in part:
            numbers = {name: int(value) for name, value in re.findall(r"^([\w -]+): (\d+)$", part, re.M)}
            entry = re.search(r'OpEntryPoint GLCompute %\S+ "([^"]+)"', spirv)
            size = re.search(r"LocalSize (\d+) (\d+) (\d+)", spirv)
            assert entry is not None and size is not None, "kernels have a name and a size"
            threads = int(size[1]) * int(size[2]) * int(size[3])
            wave = int(re.findall(r"^max_subgroup_size: (\d+)", spirv, re.M)[-1])
            loop = loop_of(entry[1], code)
            # RADV counts waves of 32 threads, by registers alone for workgroups that don't share memory.
            waves = numbers["Subgroups per SIMD"] * 32 // wave
            shared = numbers["LDS size"]
            yield CompiledKernel(
                f"radv:{stand_in}",
                entry[1],
                threads,
                wave,
                numbers["VGPRs"],
                numbers["Spilled VGPRs"] + numbers["Spilled SGPRs"],
                shared,
                min(waves, waves_by_sharing(shared, threads, wave, architecture)),
                loop,
                loop and Bound.of(loop, architecture, wave),
            )


def _loader(mesa: Path) -> Path:
    return mesa / _LIBRARIES / "ld-linux-x86-64.so.2"


def _command(program: Path, mesa: Path) -> list[str]:
    if not is_installed(mesa):
        raise NoMesaError(f"Mesa isn't in {mesa}: `make amd` puts it there")
    # Not needed where there is no Mesa.
    from iree import _runtime_libs as runtime_programs

    runner = Path(next(iter(runtime_programs.__path__)), "iree-run-module")
    # Mesa's newest wants a newer C library than most systems have, and so its own loader.
    return [
        str(_loader(mesa)),
        "--library-path",
        str(mesa / _LIBRARIES),
        "--preload",
        str(mesa / _LIBRARIES / "libamdgpu_noop_drm_shim.so"),
        str(runner),
        "--device=vulkan",
        f"--module={program}",
        "--function=none",
    ]


def _environment(stand_in: str, mesa: Path, folder: str) -> dict[str, str]:
    return {
        "AMDGPU_GPU_ID": stand_in,
        "MESA_SHADER_CACHE_DISABLE": "true",
        # Another layer of Mesa's would look for a screen.
        "NODEVICE_SELECT": "1",
        "RADV_DEBUG": "cs,spirv,nir,asm,shaderstats,nocache",
        "VK_DRIVER_FILES": str(mesa / "radeon.json"),
        "VK_ICD_FILENAMES": str(mesa / "radeon.json"),
        "XDG_RUNTIME_DIR": folder,
    }
