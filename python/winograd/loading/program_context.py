"""A program and what it keeps between calls, on a device, also where the process was forked since."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from iree import runtime
from iree.winograd.errors import CallError
from iree.winograd.loading.calls_at_exit import CALLS
from iree.winograd.loading.device import Device
from iree.winograd.loading.kept_objects import keep_for_good

INSTANCE = runtime.VmInstance()
"""The runtime's virtual machine, of which a process has one."""


class ProgramContext:
    """A `module` of the runtime's on a device. Raises one of `RUNTIME_ERRORS` when it can't run there.

    A process that was forked since has none of the threads of the device, not even of one for programs on
    the calling thread. It is opened anew there, and the program starts from its beginning.
    """

    def __init__(self, module: Any, device: Device) -> None:
        self._module = module
        self._open(device)

    def _open(self, device: Device) -> None:
        self._device, self._context = device.open_context(self, INSTANCE, self._module)
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def device(self) -> Device:
        """That it runs on. Raises `CallError` in a forked process, which GPUs can't be used in."""
        if self._process != os.getpid():
            self._take_to_fork()
        return self._device

    def invoke(self, function: Any, views: Sequence[Any]) -> Any:
        """Call one of the module's functions on buffer views; returns the runtime's list of such views.

        Raises one of `RUNTIME_ERRORS` when the program fails.
        """
        inputs = runtime.VmVariantList(len(views))
        for view in views:
            inputs.push_ref(view)
        return self.call(self.device, function, inputs)

    def call(self, device: Device, function: Any, inputs: Any) -> Any:
        """As `invoke`, on the device of this process, of a list of the runtime's."""
        # A context may run one call at a time, and the runtime lets go of Python's own lock.
        with self._lock:
            return device.invoke(self._context, function, inputs)

    def _take_to_fork(self) -> None:
        if self._device.reopen is None:
            raise CallError(
                f"{self._device.uri} can't be used in a process that was forked after it was opened: load "
                "the program in that process"
            )
        keep_for_good(self._context)
        with CALLS.one():
            self._open(self._device.reopen())
