"""No test shares the cores with what another one left open."""

import threading
from pathlib import Path

from iree import runtime

TASKS = Path("/proc/self/task")


_OF_CUDA = "cuda"
"""What names of threads begin with that CUDA's driver keeps until the process ends: they sleep."""


def threads() -> dict[str, str]:
    """The names of those of this process, the driver's and IREE's among them; where the system doesn't tell,
    Python's."""
    if not TASKS.is_dir():
        return {str(thread.ident): thread.name for thread in threading.enumerate()}
    return {task.name: (task / "comm").read_text().strip() for task in TASKS.iterdir()}


def test_a_gpu_that_iree_would_keep_open_is_closed_with_its_last_user(gpu_device: str) -> None:
    """Threads that wait for it poll where the driver is lavapipe, through all tests that follow."""
    before = threads()
    device = runtime.get_device(gpu_device)
    assert device.allocator is not None
    assert threads().keys() > before.keys()
    del device
    left = {name for thread, name in threads().items() if thread not in before}
    assert all(name.startswith(_OF_CUDA) for name in left), left
