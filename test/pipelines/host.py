"""The processor that tests run on: what is compiled for lanes that it lacks would end the process."""

from __future__ import annotations

from iree.winograd.calibration.programs import backend_of
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget


def _host() -> CpuTarget:
    backend = backend_of("cpu")
    assert isinstance(backend, CpuBackend)
    return backend.target


HOST = _host()
HAS_AVX512 = HOST.vector_width == 16
