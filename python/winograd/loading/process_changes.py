"""What opening a device on the CPU may change in the process, and what a user lets it."""

from __future__ import annotations

import os
from collections.abc import Collection
from enum import Enum

from iree.winograd.errors import InvalidOptionError

UNCHANGED_VARIABLE = "IREE_WINOGRAD_UNCHANGED"
"""Names what stays as it is, separated by commas; `all` stands for all of it."""

_ALL = "all"
_MALLOC_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""By which a user says what glibc keeps of freed memory."""


class ProcessChange(Enum):
    """What may change, on Linux."""

    MALLOC = "malloc"
    """How much freed memory the C library keeps. Not where a variable of its own says so."""
    SCHEDULING = "scheduling"
    """How threads that call programs are scheduled."""
    AFFINITY = "affinity"
    """Which processor each of the workers runs on."""


def allowed_changes() -> Collection[ProcessChange]:
    """What a device that is opened now may change. Raises `InvalidOptionError` for unknown names."""
    named = {name.strip() for name in os.environ.get(UNCHANGED_VARIABLE, "").split(",")} - {""}
    known = {change.value for change in ProcessChange}
    if unknown := sorted(named - known - {_ALL}):
        choices = ", ".join([*sorted(known), _ALL])
        raise InvalidOptionError(f"{UNCHANGED_VARIABLE} names {unknown[0]!r}, none of {choices}")
    unchanged = known if _ALL in named else named
    if any(
        "malloc" in f"{name}={os.environ[name]}".lower() for name in _MALLOC_VARIABLES if name in os.environ
    ):
        unchanged = unchanged | {ProcessChange.MALLOC.value}
    return {change for change in ProcessChange if change.value not in unchanged}
