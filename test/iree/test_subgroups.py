"""How many threads a subgroup has: what a kernel asks for is what it gets, or the program isn't loaded."""

from __future__ import annotations

import re

import numpy as np
import pytest
from iree import runtime
from stock import called, compiled, kernel, text_after

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide

X = np.arange(64, dtype=np.float32)


BODY = """
  %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
  %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<64xf32>
  %t = gpu.thread_id x
  %v = memref.load %x[%t] : memref<64xf32>
  memref.store %v, %y[%t] : memref<64xf32>
"""


def copying(subgroup_size: int) -> str:
    """Has 64 threads, in subgroups of this size, copy an element each."""
    translation = f" workgroup_size = [64, 1, 1] subgroup_size = {subgroup_size}"
    executable = kernel("k", "%a: !stream.binding, %b: !stream.binding", BODY, translation=translation)
    return f"""{executable}
    func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
      %r = flow.dispatch @k::@k(%x) : (tensor<64xf32>) -> tensor<64xf32>
      return %r : tensor<64xf32>
    }}"""


def test_a_kernel_for_vulkan_says_its_subgroup_size_to_the_runtime() -> None:
    (export,) = re.findall(
        r"<workgroup_size = .*>", text_after("executable-targets", copying(32), "vulkan:rdna3")
    )
    assert export == "<workgroup_size = [64 : index, 1 : index, 1 : index], subgroup_size = 32>"


def test_a_vulkan_device_with_other_subgroups_refuses_the_program() -> None:
    """No device has subgroups of so many threads."""
    program = compiled(copying(256), "vulkan:rdna3")
    with pytest.raises(RuntimeError, match="requires subgroup size 256 outside device range"):
        called(program, X, device=runtime.get_device("vulkan", cache=False))


@pytest.mark.parametrize(
    ("chip", "asked", "threads"),
    [("gfx1100", 32, 32), ("gfx1100", 64, 64), ("gfx942", 64, 64), ("gfx942", 32, 64)],
)
def test_the_subgroup_size_is_that_of_waves_where_amds_gpus_have_several(
    chip: str, asked: int, threads: int
) -> None:
    """IREE accepts what the GPU doesn't have, and says nothing."""
    # The number follows its name in the code object's metadata, MessagePack.
    assert re.findall(rb"\.wavefront_size(.)", compiled(copying(asked), f"hip:{chip}")) == [bytes([threads])]
