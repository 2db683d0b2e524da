"""The devices of IREE's runtime: each computes a sum, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from iree.winograd.targets import TARGET_OF_DRIVER

from .finding import Finding

_SECONDS = 120
_TRIAL = f"from {__name__} import try_device; try_device({{!r}})"
_PROGRAM = """
func.func @main(%values: tensor<8xf32>) -> tensor<8xf32> {
  %sum = arith.addf %values, %values : tensor<8xf32>
  return %sum : tensor<8xf32>
}
"""
_GPU_DRIVERS = {
    "cuda": "for an NVIDIA GPU install its driver: `nvidia-smi` has to list it",
    "vulkan": "install a Vulkan driver: `vulkaninfo --summary` has to list a device",
    "hip": "for an AMD GPU install ROCm: `rocminfo` has to list it",
}


def device_findings() -> Iterator[Finding]:
    """Of each driver whether it computes; that there is no GPU is no problem."""
    for driver in TARGET_OF_DRIVER:
        command = [sys.executable, "-c", _TRIAL.format(driver)]
        try:
            trial = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            code, said = trial.returncode, trial.stdout.strip() or _last_line(trial.stderr)
        except subprocess.TimeoutExpired:
            code, said = 1, f"no answer in {_SECONDS} s"
        if code == 0:
            yield Finding(f"device {driver}", said)
        elif driver in _GPU_DRIVERS:
            yield Finding(f"device {driver}", f"{_GPU_DRIVERS[driver]}. {said}", present=False)
        else:
            yield Finding(
                f"device {driver}",
                f"fails: {said}",
                "pip install --force-reinstall iree-base-runtime iree-base-compiler",
            )


def try_device(driver: str) -> None:
    """Print that a program computes the right sums on the driver, or end the process with the reason."""
    import numpy as np
    from iree.winograd.compiling.program import compile
    from iree.winograd.errors import WinogradError
    from iree.winograd.loading.device import open_device
    from iree.winograd.loading.runtime import load

    try:
        open_device(driver)
        result = load(compile(_PROGRAM, target=TARGET_OF_DRIVER[driver]), driver)(
            np.arange(8, dtype=np.float32)
        )
    except WinogradError as error:
        sys.exit(str(error).splitlines()[0])
    if not np.array_equal(result, 2 * np.arange(8)):
        sys.exit(f"it computed {result}")
    print("computes")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it crashed"])[-1]
