"""The context of CUDA's that threads call IREE's runtime in."""

from __future__ import annotations

from collections.abc import Callable

from iree.winograd.cuda.driver import CudaDriver


def context_of_this_thread(driver: CudaDriver) -> Callable[[], None]:
    """What makes this thread's context that of another one that calls it, unless that has one.

    IREE's runtime takes memory in the context of its caller, and makes its own current in the thread alone
    that opens a device. Both raise `CudaError`.
    """
    context = driver.context()

    def enter() -> None:
        if driver.context().value is None:
            driver.enter(context)

    return enter
