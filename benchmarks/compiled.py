"""Compiled programs as contenders: a .vmfb called through the runtime's own objects, on ready arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.loading.device import open_device
from iree.winograd.tuning.measuring.bound_program import BoundProgram

from benchmarks.convolutions import Array
from benchmarks.peers import Peer

PLAIN_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-opt-level=O3",
)


DATA_TILED_FLAGS = (
    *PLAIN_FLAGS,
    "--iree-dispatch-creation-experimental-set-data-tiling-ops=convolution",
    "--iree-llvmcpu-enable-ukernels=all",
)
"""Those with which IREE lays out the operands of convolutions in tiles, for kernels written by hand."""


def compile_plain(program: str, threads: int = 1) -> bytes:
    """The program compiled by IREE alone, for this machine at its highest optimization level.

    It is the same for any number of threads.
    """
    import iree.compiler

    return bytes(iree.compiler.compile_str(program, extra_args=list(PLAIN_FLAGS)))


def compile_data_tiled(program: str, threads: int = 1) -> bytes:
    """The same with `DATA_TILED_FLAGS`."""
    import iree.compiler

    return bytes(iree.compiler.compile_str(program, extra_args=list(DATA_TILED_FLAGS)))


def compile_ours(program: str, threads: int = 1, report: Path | None = None, target: str = "cpu") -> bytes:
    """The program compiled by IREE with our passes, for so many threads, by default of this machine."""
    import iree.winograd

    return bytes(
        iree.winograd.compile(
            program, target=target, flags=["--iree-opt-level=O3"], threads=threads, strict=True, report=report
        )
    )


def compile_ours_for_avx2(program: str, threads: int = 1) -> bytes:
    """The same for Zen 3: what runs on machines without AVX-512."""
    return compile_ours(program, threads, target="cpu:znver3")


COMPILERS: dict[str, Callable[[str, int], bytes]] = {
    "ours": compile_ours,
    "ours-avx2": compile_ours_for_avx2,
    "iree": compile_plain,
    "iree-tiled": compile_data_tiled,
}


def compiled_peer(name: str, vmfb: bytes, image: Array, layout: str, threads: int) -> Peer:
    """Calls function `main` of `vmfb` on `image`, on this thread or on `threads` workers if more than one."""
    run, results = bind_program(vmfb, image, threads)

    def channels_last_output() -> Array:
        (values,) = results()
        return values if layout == "nhwc" else np.ascontiguousarray(values.transpose(0, 2, 3, 1))

    return Peer(f"{name}-{layout}", run, channels_last_output)


def bind_program(
    program: bytes | Path, image: Array, threads: int
) -> tuple[Callable[[], Any], Callable[[], tuple[npt.NDArray[Any], ...]]]:
    """Function `main` of a compiled program as a call on `image`, and as one that also gives its results."""
    device = open_device("local-task", threads)
    bound = BoundProgram(program, [device.copy_from_host(image)], device)
    return bound.run, bound.results
