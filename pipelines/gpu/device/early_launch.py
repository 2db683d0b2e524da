"""Where kernels for CUDA wait for those ahead, before whose end they may be launched.

`cuda/early_launch.py` of the loader has all kernels wait, before they read or write memory unless they say
where. What a kernel of constants asks for first is on its way then while others end: none writes these.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import llvm
from iree.winograd.pipelines.problems.wait_place import WAIT_PLACE


def wait_for_kernels_ahead() -> None:
    """Behind this a kernel reads what they wrote, and writes. All threads have to come here."""
    llvm.inline_asm(None, [], WAIT_PLACE, "~{memory}", has_side_effects=True)
