"""A program on a GPU, against the same one on the CPU.

python samples/gpu.py vulkan          # or cuda, hip
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from iree.winograd import WinogradError, compile, load

PROGRAM = Path(__file__).with_name("convolution.mlir")


def main(device: str) -> int:
    image = np.random.default_rng(0).standard_normal((1, 28, 28, 32), np.float32)
    try:
        on_gpu = load(compile(PROGRAM, target=device), device)(image)
    except WinogradError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    on_cpu = load(compile(PROGRAM), "local-sync")(image)
    error = np.abs(on_gpu - on_cpu).max() / np.abs(on_cpu).max()
    print(f"{device}: largest difference from the CPU {error:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or ["vulkan"]))
