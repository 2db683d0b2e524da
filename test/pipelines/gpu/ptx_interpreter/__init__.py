"""Kernels for NVIDIA's GPUs on a CPU: what their text (PTX) says, one warp at a time.

Each warp runs until the next barrier before another one does, and what is copied beside the computation
arrives when its warp waits for it: so that what isn't waited for is missing. Matrix units truncate
(`matrix_unit_sums.py`).
"""

from .kernel import Kernel

__all__ = ["Kernel"]
