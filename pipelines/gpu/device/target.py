"""What a GPU kernel needs to know of its target, read from IREE's executable target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType

from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.machines.amd import amd_family
from iree.winograd.pipelines.machines.units import KIBIBYTE
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.iree_code import IreeCode

from .cluster import PORTABLE_CLUSTER
from .matrix_unit import COOPERATIVE, MFMA, MMA, WMMA, WMMA_RDNA4, MatrixUnit
from .memory import OCTET, PAIR, QUAD

EXECUTABLE_BACKENDS = ("vulkan-spirv", "cuda", "rocm")
"""Those of IREE that compile kernels of these."""
RESIDENT_THREADS = 512
"""Threads per multiprocessor that hide each other's latency."""

# What every implementation of Vulkan has.
_MIN_THREADS = 128
_MIN_SHARED_MEMORY = 16 * KIBIBYTE
_MIN_WORKGROUPS = 65535
_MATRIX_UNITS_FROM = 80
"""NVIDIA's architecture that copies beside the computation, and multiplies 16 x 8 x 16 at once.

IREE says the latter of older ones, too."""
_CLUSTERS_FROM = 90
_LISTED_MATRIX_UNITS = (
    ("vulkan-spirv", "(NV_WMMA|WMMAR3|WMMAR4)", COOPERATIVE),
    ("rocm", "MFMA", MFMA),
    ("rocm", "WMMAR3", WMMA),
    ("rocm", "WMMAR4", WMMA_RDNA4),
)
"""By backend and the names of the products in IREE's targets."""
_WARPGROUP_PRODUCTS = "sm_90a"
"""The only architecture that has them; later ones multiply otherwise."""
# What drivers for Vulkan commonly admit, whatever the multiprocessor has and IREE's targets say.
_MAX_VULKAN_SHARED_MEMORY = 48 * KIBIBYTE
_MAX_SHARED_MEMORY: Mapping[str, int] = MappingProxyType({"sm_86": 99 * KIBIBYTE})
"""By the names of architectures that have less than IREE's targets say."""


@dataclass(frozen=True)
class TileLimits:
    """Elements of the largest tiles of four channels that a compiler has registers for in transforms, and on
    CDNA for two warps a SIMD."""

    whole: int
    """Of those that are transformed as they are loaded. Of larger ones a thread takes two channels."""
    kept: int
    """Of those that a thread keeps until it knows their scale, to split them."""
    fastest: int | None = None
    """Of those of four channels that take less time than as many threads with two; None for all."""

    def least(self, other: TileLimits) -> TileLimits:
        """What both have registers for."""
        fastest = [each.fastest for each in (self, other) if each.fastest is not None]
        return TileLimits(
            min(self.whole, other.whole), min(self.kept, other.kept), min(fastest, default=None)
        )


_OF_RADV, _OF_LLVM_FOR_CDNA, _OF_LLVM_FOR_RDNA = TileLimits(48, 42), TileLimits(36, 42), TileLimits(36, 48)
_OF_PTXAS = TileLimits(72, 64, fastest=35)
"""F(4x2x3, 3x3x3) of four channels spilled 1.2 KB, and took an H200 87 us where two take 8. Two channels took
0.70 to 0.97 of the time of four for 36 to 64 elements, which are the fewest that were measured."""


@dataclass(frozen=True)
class GpuTarget:
    """The limits of one workgroup: threads, and bytes of the memory that they share.

    `residency_attribute` names the attribute by which a kernel asks for registers few enough that so many
    workgroups are resident on a multiprocessor; None where the target's compiler knows no such thing.
    `architecture` is the target's own name, e.g. "sm_90" or "gfx942", empty where code is for several.

    Raises ValueError for limits below those of every GPU.
    """

    max_threads: int
    shared_memory_bytes: int
    residency_attribute: str | None = None
    architecture: str = ""
    max_workgroups: tuple[int, int, int] = (_MIN_WORKGROUPS,) * 3
    """Workgroups of one launch, along each dimension of its grid."""
    matrix_unit: MatrixUnit | None = None
    """What multiplies 16 x 16 by 16 x 16 fp16 numbers for a warp and sums in fp32, if there is such."""
    has_warpgroup_products: bool = False
    """Whether four warps multiply 64 x 16 by 16 x n fp16 numbers in shared memory, as sm_90a does."""
    iree_code: IreeCode = field(default_factory=IreeCode)
    """What is known of IREE's own code for it."""
    orders_steps: bool = False
    """Whether its compiler would spill registers unless kernels say where it may not move instructions to."""
    float_register: str | None = None
    """LLVM's name of registers of floats, where kernels say that sums are there before they are stored."""
    tile_limits: TileLimits | None = None
    """What its compiler has registers for, where that is known."""
    cluster_workgroups: int = 1
    """Workgroups that run at once and read each other's shared memory, at most."""

    def __post_init__(self) -> None:
        if self.max_threads < _MIN_THREADS or self.shared_memory_bytes < _MIN_SHARED_MEMORY:
            raise ValueError(
                f"a GPU has workgroups of at least {_MIN_THREADS} threads and "
                f"{_MIN_SHARED_MEMORY} bytes, not {self.max_threads} and {self.shared_memory_bytes}"
            )

    @staticmethod
    def of(target: ExecutableTarget) -> GpuTarget:
        """Reads the limits from `#iree_gpu.target`; where it says nothing, those of the least GPU hold."""

        def limit(name: str, least: int) -> int:
            match = re.search(rf"\b{name} = (\d+)", target.configuration)
            return least if match is None else int(match[1])

        counts = re.search(r"\bmax_workgroup_counts = \[(\d+), (\d+), (\d+)\]", target.configuration)
        architecture = re.search(r'\barch = "([^"]+)"', target.configuration)
        name = "" if architecture is None else architecture[1]
        shared = limit("max_workgroup_memory_bytes", _MIN_SHARED_MEMORY)
        if target.backend == "vulkan-spirv":
            shared = min(shared, _MAX_VULKAN_SHARED_MEMORY)
        return GpuTarget(
            max_threads=limit("max_thread_count_per_workgroup", _MIN_THREADS),
            shared_memory_bytes=min(shared, _MAX_SHARED_MEMORY.get(name, shared)),
            residency_attribute="nvvm.minctasm" if target.backend == "cuda" else None,
            architecture=name,
            max_workgroups=(
                (_MIN_WORKGROUPS,) * 3 if counts is None else (int(counts[1]), int(counts[2]), int(counts[3]))
            ),
            matrix_unit=_matrix_unit(target, name),
            has_warpgroup_products=target.backend == "cuda" and name == _WARPGROUP_PRODUCTS,
            iree_code=IreeCode(
                # IREE reads no number in the name, and takes the GPU for one without such instructions.
                extrema_lose_nan=target.backend == "cuda" and name == _WARPGROUP_PRODUCTS,
                reads_slices=True,
                writes_slices=True,
                reductions_race=target.backend == "vulkan-spirv",
                converts_half=target.backend == "cuda",
                fails_on_uniform_filters=target.backend != "vulkan-spirv",
            ),
            orders_steps=_orders_steps(target, name),
            float_register=_float_register(target, name),
            tile_limits=_tile_limits(target, name),
            cluster_workgroups=_cluster_workgroups(target, name),
        )

    @property
    def takes_ptx(self) -> bool:
        """Whether kernels may have instructions of PTX in them: through CUDA."""
        return self.residency_attribute is not None

    @property
    def has_maxima(self) -> bool:
        """Whether it has instructions for maxima that keep NaN: through CUDA, from sm_80 on."""
        return self.takes_ptx and self.matrix_unit is not None

    def together(self, channels: int, *elements: str) -> int:
        """Of rows of so many channels, how many a thread reads and writes at once of tensors of these types.

        Octets of half precision are 16 bytes, as quads of f32 are. SPIR-V has no vectors of eight.
        """
        is_half = any(element_bytes(each) < F32.bytes for each in elements)
        return OCTET if is_half and self.takes_ptx and channels % OCTET == 0 else QUAD

    def transform_channels(self, tile_elements: int, parts: int = 1) -> int:
        """Channels of a tile of so many elements that a thread takes.

        An element that is a sum of several parts takes registers for one more.
        """
        held = tile_elements + (parts > 1)
        fastest = self.tile_limits.fastest if self.tile_limits is not None else None
        is_fast = fastest is None or held <= fastest
        return QUAD if is_fast and self.transforms_quads(held) else PAIR

    def transforms_quads(self, tile_elements: int) -> bool:
        """Whether a thread has registers for so many elements of four channels."""
        return self.tile_limits is None or tile_elements <= self.tile_limits.whole

    def transforms_tile(self, tile_elements: int) -> bool:
        """Whether a thread has registers for so many elements of two channels."""
        return self.tile_limits is None or PAIR * tile_elements <= QUAD * self.tile_limits.whole

    def keeps_tile(self, tile_elements: int) -> bool:
        """Whether a thread has registers for so many elements of four channels that it is to split."""
        return self.tile_limits is None or tile_elements <= self.tile_limits.kept

    def least(self, other: GpuTarget) -> GpuTarget:
        """The limits that both targets keep."""
        limits = [each.tile_limits for each in (self, other) if each.tile_limits is not None]
        return GpuTarget(
            min(self.max_threads, other.max_threads),
            min(self.shared_memory_bytes, other.shared_memory_bytes),
            self.residency_attribute if self.residency_attribute == other.residency_attribute else None,
            self.architecture if self.architecture == other.architecture else "",
            (
                min(self.max_workgroups[0], other.max_workgroups[0]),
                min(self.max_workgroups[1], other.max_workgroups[1]),
                min(self.max_workgroups[2], other.max_workgroups[2]),
            ),
            self.matrix_unit if self.matrix_unit == other.matrix_unit else None,
            self.has_warpgroup_products and other.has_warpgroup_products,
            IreeCode(
                extrema_lose_nan=self.iree_code.extrema_lose_nan or other.iree_code.extrema_lose_nan,
                reads_slices=True,
                writes_slices=True,
                reductions_race=self.iree_code.reductions_race or other.iree_code.reductions_race,
                converts_half=self.iree_code.converts_half and other.iree_code.converts_half,
                fails_on_uniform_filters=(
                    self.iree_code.fails_on_uniform_filters or other.iree_code.fails_on_uniform_filters
                ),
            ),
            self.orders_steps and other.orders_steps,
            self.float_register if self.float_register == other.float_register else None,
            reduce(TileLimits.least, limits) if limits else None,
            min(self.cluster_workgroups, other.cluster_workgroups),
        )


def _orders_steps(target: ExecutableTarget, architecture: str) -> bool:
    """LLVM's for RDNA, where a thread has 256 registers; CDNA has as many again for sums."""
    family = amd_family(architecture)
    return target.backend == "rocm" and family is not None and not family.is_cdna


def _float_register(target: ExecutableTarget, architecture: str) -> str | None:
    """LLVM moves products behind the branch of a result that may not exist, and keeps what they are of."""
    if target.backend == "cuda":
        return "f"
    return "v" if _orders_steps(target, architecture) else None


def _cluster_workgroups(target: ExecutableTarget, architecture: str) -> int:
    has_clusters = target.backend == "cuda" and _nvidia_architecture(architecture) >= _CLUSTERS_FROM
    return PORTABLE_CLUSTER if has_clusters else 1


def _tile_limits(target: ExecutableTarget, architecture: str) -> TileLimits | None:
    """Of AMD's GPUs as their compilers have it (`python -m benchmarks.amd`), and of NVIDIA's through CUDA."""
    if target.backend == "cuda":
        return _OF_PTXAS
    family = amd_family(architecture)
    if family is None:
        return None
    if target.backend == "vulkan-spirv":
        return _OF_RADV
    return _OF_LLVM_FOR_CDNA if family.is_cdna else _OF_LLVM_FOR_RDNA


def _matrix_unit(target: ExecutableTarget, architecture: str) -> MatrixUnit | None:
    """Those that kernels here use, where the target has warps of as many threads.

    IREE doesn't compare what a kernel asks for with what the target has.
    """
    unit = _listed_matrix_unit(target, architecture)
    sizes = re.search(r"\bsubgroup_size_choices = \[([\d, ]+)\]", target.configuration)
    if unit is None or sizes is None:
        return unit
    return unit if unit.threads in map(int, sizes[1].split(",")) else None


def _listed_matrix_unit(target: ExecutableTarget, architecture: str) -> MatrixUnit | None:
    """By the architecture for CUDA, or by what IREE's target lists."""
    if target.backend == "cuda":
        return MMA if _nvidia_architecture(architecture) >= _MATRIX_UNITS_FROM else None
    for backend, listed, unit in _LISTED_MATRIX_UNITS:
        if target.backend == backend and re.search(rf"<{listed}_F32_16x16x16_F16>", target.configuration):
            return unit
    return None


def _nvidia_architecture(name: str) -> int:
    """The number of "sm_80" or "sm_90a"; 0 for another name."""
    match = re.fullmatch(r"sm_(\d+)a?", name)
    return 0 if match is None else int(match[1])
