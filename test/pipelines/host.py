"""The processor that tests run on: what is compiled for lanes that it lacks would end the process."""

from __future__ import annotations

from iree.winograd.calibration.programs import backend_of
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.targets import target_flags
from iree.winograd.tuning.schedulers.measuring_machine import resolve_flags


def _host() -> CpuTarget:
    backend = backend_of("cpu")
    assert isinstance(backend, CpuBackend)
    return backend.target


HOST = _host()


def flags_of_host_with(features: str) -> list[str]:
    """Flags that compile for this processor as if it had `features`, too: `host` takes no others."""
    *_, processor, known = resolve_flags(target_flags("cpu"))
    return [processor, f"{known},{features}"]


HAS_AVX512 = HOST.vector_width == 16
