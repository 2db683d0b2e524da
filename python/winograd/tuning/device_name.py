"""The name of what a device of IREE's runtime is."""

from __future__ import annotations

from iree import runtime
from iree.winograd.errors import LoadError
from iree.winograd.pipelines.selection.tuning_database import processor_name


def device_name(uri: str) -> str:
    """The processor's for a CPU, that of the driver's device for others, e.g. "NVIDIA H200".

    Raises `LoadError` when there is no such device.
    """
    driver, _, path = uri.partition("://")
    if driver.startswith("local-"):
        return processor_name()
    try:
        devices = runtime.get_driver(driver).query_available_devices()
    except (RuntimeError, ValueError) as error:
        raise LoadError(f"no device {uri!r}: {error}") from error
    chosen = [device for device in devices if path in ("", device["path"])] or devices
    if path.isdigit() and int(path) < len(devices):
        chosen = devices[int(path) :]
    if not chosen:
        raise LoadError(f"no device {uri!r}: its driver finds none")
    return str(chosen[0]["name"])
