import pytest
from iree.winograd.loading.runtime import LoadedProgram, load
from loaded_programs import HOST_DEVICES, PROGRAM, compile_program


@pytest.fixture(scope="session")
def vmfb() -> bytes:
    return compile_program(PROGRAM)


@pytest.fixture(params=HOST_DEVICES)
def program(request: pytest.FixtureRequest, vmfb: bytes) -> LoadedProgram:
    return load(vmfb, request.param)
