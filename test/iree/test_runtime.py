"""Devices of IREE's runtime: whose memory they use, and when they let go of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iree import runtime
from iree.runtime import _binding as binding
from iree.winograd.pipelines.on_program.own_results import POOL_BYTES
from stock import compiled

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide

MEMORY = int(runtime.MemoryType.DEVICE_LOCAL) | int(runtime.MemoryType.HOST_VISIBLE)
USAGE = int(runtime.BufferUsage.DEFAULT)


def address(buffer: object) -> int:
    mapped = np.frombuffer(buffer.map(), np.uint8)
    return int(mapped.ctypes.data)


def test_memory_of_the_host_is_used_where_it_is() -> None:
    """At whatever address: who says that it is aligned is to see to that."""
    device = binding.create_hal_driver("local-sync").create_default_device()
    memory = np.zeros(1024, np.uint8)
    first = -memory.ctypes.data % 64 + 4
    array = memory[first : first + 256]
    buffer = device.allocator.import_host_allocation(array, memory_type=MEMORY, allowed_usage=USAGE)
    assert address(buffer) == array.ctypes.data


def test_a_cache_gives_memory_of_the_same_size_again() -> None:
    device = binding.create_hal_driver("local-sync").create_default_device(allocators=["caching"])

    def allocated() -> int:
        buffer = device.allocator.allocate_buffer(
            memory_type=MEMORY, allowed_usage=USAGE, allocation_size=1 << 20
        )
        return address(buffer)

    assert allocated() == allocated()


ROW = 1 << 14
"""Bytes of a row of what lives between two kernels."""


def sums_of(rows: int) -> str:
    """Has one kernel fill rows with a number, and another add them up."""
    total, filled = f"tensor<{ROW // 4}xf32>", f"tensor<{rows}x{ROW // 4}xf32>"
    return f"""
    func.func @main(%x: tensor<f32>) -> {total} {{
      %zero = arith.constant 0.0 : f32
      %value = tensor.extract %x[] : tensor<f32>
      %empty = tensor.empty() : {filled}
      %filled = linalg.fill ins(%value : f32) outs(%empty : {filled}) -> {filled}
      %stored = util.optimization_barrier %filled : {filled}
      %sums = tensor.empty() : {total}
      %zeros = linalg.fill ins(%zero : f32) outs(%sums : {total}) -> {total}
      %r = linalg.reduce {{ arith.addf }} ins(%stored : {filled}) outs(%zeros : {total}) dimensions = [0]
      return %r : {total}
    }}"""


# The share of the memory between kernels that a second call faults in, in a process that has changed nothing
# of the C library's.
FAULTS = """
import ctypes, resource, sys
from pathlib import Path
import numpy as np
sys.path.insert(0, sys.argv[1])
from stock import called, workers
# PR_SET_THP_DISABLE: a page is faulted in at a time.
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)
program, x = Path(sys.argv[2]).read_bytes(), np.ones((), np.float32)
called(program, x, device=workers(2))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
called(program, x, device=workers(2))
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(faults * resource.getpagesize() / int(sys.argv[3]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults")
@pytest.mark.parametrize(("more_rows", "least", "most"), [(0, 0.0, 0.1), (64, 0.9, 1.1)])
def test_a_pool_has_64_mebibytes_for_what_lives_between_kernels(
    more_rows: int, least: float, most: float, tmp_path: Path
) -> None:
    """And what is larger comes from the C library in every call, which has the system clear it."""
    rows = POOL_BYTES // ROW + more_rows
    program = tmp_path / "sums.vmfb"
    program.write_bytes(compiled(sums_of(rows)))
    command = [sys.executable, "-c", FAULTS, Path(__file__).parent, program, str(rows * ROW)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert least <= float(printed) <= most
