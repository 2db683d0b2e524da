"""What programs need of a Vulkan device that not all have: drivers crash on kernels that ask for more."""

from __future__ import annotations

import re
from os import PathLike

from iree import runtime
from iree.winograd.loading.device import RUNTIME_ERRORS
from iree.winograd.loading.program_module import mapped_file
from iree.winograd.targets import driver_name

_COOPERATIVE_MATRICES = b"\x11\x00\x02\x00\x86\x17\x00\x00"
"""`OpCapability CooperativeMatrixKHR` of SPIR-V, which programs hold as it is."""
_HAS_NONE = re.compile(r"\bcooperativeMatrix=no\b")
"""In what IREE's driver says of a device."""


def missing_features(program: bytes | str | PathLike[str], device: str) -> list[str]:
    """What kernels of a program use and the Vulkan device of a URI lacks; nothing where it isn't known.

    Raises OSError for a program that can't be read.
    """
    if driver_name(device) != "vulkan" or not _HAS_NONE.search(_description(device)):
        return []
    return ["cooperative matrices"] if _uses_cooperative_matrices(program) else []


def _uses_cooperative_matrices(program: bytes | str | PathLike[str]) -> bool:
    if isinstance(program, bytes):
        return _COOPERATIVE_MATRICES in program
    with mapped_file(program) as mapped:
        return mapped.find(_COOPERATIVE_MATRICES) >= 0


def _description(device: str) -> str:
    """What IREE's driver says of a device; empty where it doesn't tell."""
    wanted = device.partition("://")[2]
    try:
        driver = runtime.get_driver("vulkan")
        for number, each in enumerate(driver.query_available_devices()):
            if wanted in ("", each["path"], str(number)):
                return str(driver.dump_device_info(each["device_id"]))
    except RUNTIME_ERRORS:
        # Whether there is such a device is for whoever opens it to say.
        return ""
    return ""
