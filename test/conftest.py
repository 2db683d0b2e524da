"""What holds for all tests: what was calibrated, compiled or opened before changes nothing."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from emulated_cpu import run_emulated
from guest import Guest, NoGuestError
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from iree import runtime
from iree.winograd import compiler_threads
from iree.winograd.loading.device import close_gpus
from iree.winograd.loading.processor_features import missing_features
from iree.winograd.pipelines.machines.user_folders import (
    CACHE_FOLDER_VARIABLE,
    DATA_FOLDER_VARIABLE,
    cache_folder,
)
from own_threads import own_threads
from wide import leave_out_wide, other_parts_of_sweeps

from benchmarks.amd.radv import MESA

_LOW_PRIORITY = 10
"""Of threads that wait for a GPU. A caller spins until the one that woke it has finished, which at the lowest
priority of all gets its turn after tenths of a second."""
_ON_THE_HOST = "local-"
"""What names of devices begin with that are no GPUs."""
_WORKER_VARIABLE = "PYTEST_XDIST_WORKER"
_NAMING_SECONDS = 0.1
"""That threads may take to name themselves, of which there are none elsewhere than on Linux."""
_COMPILED_BY_LAVAPIPE = cache_folder() / "lavapipe"
"""Of the user's, as tests have a folder of their own in its place."""
_QUICKEST = Path(__file__).parent / "algebra"
"""Of tests, each of which takes less than others compile in."""
_WITH_MATRIX_UNITS = ("cuda:sm_8", "cuda:sm_9")
"""Targets whose matrix units kernels use."""

# How long an example takes says more of the machine than of what is tested. What fails once always fails.
settings.register_profile("the same in each run", deadline=None, derandomize=True)
settings.load_profile("the same in each run")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--gpu",
        default="vulkan",
        metavar="TARGET",
        help="what tests that run kernels for GPUs compile for and run on: vulkan, cuda:sm_90a, hip:gfx942",
    )
    parser.addoption(
        "--cpu",
        metavar="PROCESSOR",
        help="what programs of tests are compiled for in place of any other CPU, with an emulator to run "
        "them: cortex-a72, cortex-a76, apple-m1, neoverse-v1",
    )
    parser.addoption(
        "--part-of-sweeps",
        metavar="COMMIT",
        help="leave out five sixths of each test's wide parameters, and of all those of a file's tests with "
        "fewer than six, by this text: as commits follow each other, all get their turn",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Before tests are imported, which may take functions of the package by name."""
    leave_out_wide(config.getoption("markexpr"))
    # Hypothesis draws numbers that it finds in modules, which are others in each worker by then.
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setattr(providers, "is_local_module_file", lambda path: False)
    processor = config.getoption("--cpu")
    if processor is None:
        return
    try:
        Guest.find(processor)
    except NoGuestError as error:
        pytest.exit(f"no tests for {processor}: {error}", returncode=0)
    run_emulated(processor)


@pytest.fixture(scope="session")
def gpu_target(request: pytest.FixtureRequest) -> str:
    """What kernels for GPUs that a test runs are compiled for."""
    target: str = request.config.getoption("--gpu")
    return target


@pytest.fixture(scope="session")
def gpu_device(gpu_target: str) -> str:
    """The device of the runtime that they run on."""
    return gpu_target.partition(":")[0]


@pytest.fixture(autouse=True, scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        patch.setenv(CACHE_FOLDER_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def compiled_on_one_thread() -> Iterator[None]:
    """Workers fill the cores already: threads of a compilation's own would take turns with theirs."""
    with pytest.MonkeyPatch.context() as patch:
        if _WORKER_VARIABLE in os.environ:
            # As in forks of the process whose threads these are.
            patch.setattr(compiler_threads, "_first_process", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def compiled_once_by_lavapipe() -> Iterator[None]:
    """Mesa's lavapipe compiles kernels when they are called first, which takes longer than to run most.

    It needn't optimize them, and keeps them for the next tests, of other checkouts, too, by all that it
    compiles them of.
    """
    # Mesa makes one folder, but none that it is to be in.
    _COMPILED_BY_LAVAPIPE.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GALLIVM_PERF", "nopt")
        patch.setenv("MESA_SHADER_CACHE_DIR", str(_COMPILED_BY_LAVAPIPE))
        yield


@pytest.fixture(autouse=True, scope="session")
def working_threads_first() -> Iterator[None]:
    """Threads that wait for a GPU leave the cores to those that compute what they wait for.

    IREE's wait for several semaphores each. Mesa's lavapipe polls these, also where there is nothing to do.
    """
    opened = runtime.get_device

    def open_patiently(device_uri: str, **options: Any) -> Any:
        if device_uri.startswith(_ON_THE_HOST):
            return opened(device_uri, **options)
        before = own_threads()
        # IREE's own cache would keep it, and threads that wait or poll, for all tests that follow.
        device = opened(device_uri, **{**options, "cache": False})
        if not device_uri.startswith("vulkan"):
            return device
        # IREE starts them after the one that handles events, and the driver its own, which compute, before.
        # A thread has its name a moment after it was started.
        end = time.monotonic() + _NAMING_SECONDS
        events: list[int] = []
        while not events and time.monotonic() < end:
            time.sleep(0.001)
            started = {thread: name for thread, name in own_threads().items() if thread not in before}
            events = [thread for thread, name in started.items() if name.startswith("iree-pro")]
        if events:
            for thread in started:
                if thread > min(events):
                    os.setpriority(os.PRIO_PROCESS, thread, _LOW_PRIORITY)
        return device

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "get_device", open_patiently)
        yield


@pytest.fixture(autouse=True, scope="session")
def operators_found_once() -> Iterator[None]:
    """Torch looks through all of its operators for each model that is imported, a quarter of what importing a
    small one takes: what it finds is the same as long as no others are registered."""
    exporting = sys.modules.get("torch.export.exported_program")
    find = getattr(exporting, "_collect_all_valid_cia_ops", None)
    if find is None:
        yield
        return
    import torch

    known: tuple[object, Any] = None, None

    def registered() -> tuple[object, ...]:
        implicit = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
        return (*torch.ops._dir, *implicit)

    def find_new() -> Any:
        nonlocal known
        if known[0] != registered():
            found = find()
            # Namespaces are among them when they were looked into.
            known = registered(), found
        return known[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "_collect_all_valid_cia_ops", find_new)
        patch.setattr(torch._ops, "Callable", _Untyped)
        yield


class _Untyped:
    """What a module has in place of `Callable`, in annotations that Python evaluates in each call.

    Torch registers a function with each of its operators to import a model, a third of what importing takes.
    """

    def __class_getitem__(cls, parameters: object) -> type[_Untyped]:
        return cls


@pytest.fixture(autouse=True)
def closed_gpus() -> Iterator[None]:
    """No test shares the cores with threads that wait for a GPU of another: lavapipe's never sleep."""
    yield
    close_gpus()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: there is no garbage to look for."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests whose marker says that they need what isn't there."""
    lacking = {
        "this_machine": config.getoption("--cpu") is not None,
        "matrix_units": not config.getoption("--gpu").startswith(_WITH_MATRIX_UNITS),
        "mesa": not MESA.exists(),
        "avx512": bool(missing_features(["avx512f"])),
    }
    markers = [marker for marker, lacks in lacking.items() if lacks]
    left_out = {item for item in items if any(map(item.get_closest_marker, markers))}
    commit = config.getoption("--part-of-sweeps")
    if commit is not None:
        left_out |= other_parts_of_sweeps([item for item in items if item not in left_out], commit)
    config.hook.pytest_deselected(items=list(left_out))
    # The quickest run last: workers end at the same time.
    items[:] = sorted(
        (item for item in items if item not in left_out), key=lambda item: item.path.is_relative_to(_QUICKEST)
    )


def pytest_collection_finish() -> None:
    _keep_for_good()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Tests of a file import more, as `torch.compile` does what it is made of."""
    if nextitem is not None and nextitem.path != item.path:
        _keep_for_good()


def _keep_for_good() -> None:
    """What was imported for tests stays: looking for garbage among it, as each compilation does, takes longer
    than many of them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What MLIR's bindings made is freed with the interpreter."""
    gc.unfreeze()
