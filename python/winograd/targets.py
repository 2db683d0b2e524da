"""Names for the machines to compile for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.errors import InvalidOptionError

_DEVICE_NAME = "iree-hal-target-device"
_CUDA_CHIP_NAME = "iree-cuda-target"
_SPELLED_OUT = {
    # As IREE describes sm_89, with Hopper's shared memory. IREE accepts the name without knowing these.
    "sm_90a": '#hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb", {'
    'iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", '
    "wgp = <compute = fp64|fp32|fp16|int64|int32|int16|int8, storage = b64|b32|b16|b8, "
    "subgroup = shuffle|arithmetic, dot = dp4xi8toi32, mma = [<NV_MMA_SYNC_F32_16x8x16_F16>, "
    "<NV_MMA_SYNC_F16_16x8x16_F16>, <NV_MMA_SYNC_F32_16x8x16_BF16>, <NV_WMMA_F32_16x16x16_F16>, "
    "<NV_WMMA_F16_16x16x16_F16>], subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], "
    "max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, "
    "max_workgroup_counts = [2147483647, 65535, 65535]>>}>]>",
}
"""Targets of IREE's for CUDA that it doesn't know by their chip, by that."""


_ARM_PROCESSORS = ("cortex-a", "cortex-x", "neoverse-", "ampere1", "a64fx", "carmel", "grace")
"""What LLVM's names of AArch64 processors that run Linux begin with."""
_ARM_TRIPLES = {
    **dict.fromkeys(_ARM_PROCESSORS, "aarch64-unknown-linux-gnu"),
    "apple-": "arm64-apple-macosx",
}
"""For what a processor's name begins with, the target triple of its programs."""


@dataclass(frozen=True)
class _Target:
    flags: tuple[str, ...]
    chip_flag: str
    default_chip: str | None


_TARGETS = {
    "cpu": _Target(
        ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"),
        "--iree-llvmcpu-target-cpu",
        "host",
    ),
    "vulkan": _Target(("--iree-hal-target-device=vulkan",), "--iree-vulkan-target", None),
    "cuda": _Target((f"--{_DEVICE_NAME}=cuda",), f"--{_CUDA_CHIP_NAME}", None),
    "hip": _Target(("--iree-hal-target-device=hip",), "--iree-rocm-target", None),
}

KNOWN_TARGET_FLAGS = {
    flag.lstrip("-")
    for target in _TARGETS.values()
    for flag in (*target.flags, f"{target.chip_flag}={target.default_chip}")
}
"""Flags, without their dashes, whose targets IREE knows."""

TARGET_OF_DRIVER = {
    "local-task": "cpu",
    "local-sync": "cpu",
    "cuda": "cuda",
    "vulkan": "vulkan",
    "hip": "hip",
}
"""For each driver of IREE's runtime, the target that its programs are compiled for unless one is given."""
DEFAULT_DRIVERS = {target: driver for driver, target in reversed(TARGET_OF_DRIVER.items())}
"""For each target, the driver that runs its programs unless one is given: the first above."""


def driver_name(device: str) -> str:
    """The part of a URI that names the driver."""
    return device.split("://", 1)[0]


def target_flags(target: str) -> tuple[str, ...]:
    """The flags of `iree-compile` for `target`: `cpu`, `vulkan`, `cuda` or `hip`, or one of them and a chip.

    A chip follows a colon, as in `cpu:znver4`, `vulkan:rdna3`, `cuda:sm_80` or `hip:gfx942`, in the names
    that the flags of IREE know, or sm_90a, which `spelled_out` describes to it. Without one `cpu` is the
    machine that compiles, and the others are IREE's default. Arm's processors, as `cpu:neoverse-v1` or
    `cpu:apple-m1`, come with the triple of what their programs run on, whatever compiles.

    Raises `InvalidOptionError` for another target.
    """
    name, _, chip = target.partition(":") if isinstance(target, str) else ("", "", "")
    if name not in _TARGETS:
        raise InvalidOptionError(f"target {target!r} is not known; known are {', '.join(_TARGETS)}")
    known = _TARGETS[name]
    chip = chip or known.default_chip or ""
    flags = (*known.flags, f"{known.chip_flag}={chip}") if chip else known.flags
    return (*flags, *_triple_flags(chip)) if name == "cpu" else flags


def _triple_flags(processor: str) -> tuple[str, ...]:
    triples = (triple for prefix, triple in _ARM_TRIPLES.items() if processor.startswith(prefix))
    return tuple(f"--iree-llvmcpu-target-triple={triple}" for triple in triples)


def spelled_out(flags: Sequence[str]) -> tuple[str, ...]:
    """`flags` of `iree-compile` with a chip for CUDA that IREE doesn't know, sm_90a, described in full."""
    chips = [flag.partition("=")[2] for flag in flags if flag.lstrip("-").startswith(f"{_CUDA_CHIP_NAME}=")]
    if not chips or chips[-1] not in _SPELLED_OUT:
        return tuple(flags)
    device = f"--{_DEVICE_NAME}={_SPELLED_OUT[chips[-1]]}"
    return tuple(device if flag.lstrip("-") == f"{_DEVICE_NAME}=cuda" else flag for flag in flags)
