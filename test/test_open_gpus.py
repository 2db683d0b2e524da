"""No test shares the cores with what another one left open."""

import time

from iree import runtime
from own_threads import own_threads

_OF_CUDA = "cuda"
"""What names of threads begin with that CUDA's driver keeps until the process ends: they sleep."""
_ENDING_SECONDS = 5.0


def test_a_gpu_that_iree_would_keep_open_is_closed_with_its_last_user(gpu_device: str) -> None:
    """Threads that wait for it poll where the driver is lavapipe, through all tests that follow."""
    before = own_threads()
    device = runtime.get_device(gpu_device)
    assert device.allocator is not None
    assert own_threads().keys() - before.keys()
    del device
    # Those that CUDA's driver doesn't keep end a moment later.
    end = time.monotonic() + (0 if gpu_device == "vulkan" else _ENDING_SECONDS)
    while (left := _since(before)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left


def _since(before: dict[int, str]) -> set[str]:
    """The names of threads that there weren't, but for those of CUDA's driver."""
    names = {name for thread, name in own_threads().items() if thread not in before}
    return {name for name in names if not name.startswith(_OF_CUDA)}
