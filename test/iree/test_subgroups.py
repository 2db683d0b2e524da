"""How many threads a subgroup has: what a kernel asks for is what it gets, or the program isn't loaded."""

from __future__ import annotations

import re

import numpy as np
import pytest
from iree import runtime
from stock import called, compiled, kernel, text_after

X = np.arange(64, dtype=np.float32)


def exchange(subgroup_size: int | None) -> str:
    """Has each of 64 threads give what the one has whose number differs by 16."""
    asked = "" if subgroup_size is None else f" subgroup_size = {subgroup_size}"
    executable = kernel(
        "k",
        "%a: !stream.binding, %b: !stream.binding",
        """
          %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
          %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<64xf32>
          %t = gpu.thread_id x
          %v = memref.load %x[%t] : memref<64xf32>
          %distance = arith.constant 16 : i32
          %width = arith.constant 32 : i32
          %other, %valid = gpu.shuffle xor %v, %distance, %width : f32
          memref.store %other, %y[%t] : memref<64xf32>
        """,
        translation=f" workgroup_size = [64, 1, 1]{asked}",
    )
    return f"""{executable}
    func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
      %r = flow.dispatch @k::@k(%x) : (tensor<64xf32>) -> tensor<64xf32>
      return %r : tensor<64xf32>
    }}"""


def test_a_kernel_for_vulkan_says_its_subgroup_size_to_the_runtime() -> None:
    (export,) = re.findall(
        r"<workgroup_size = .*>", text_after("executable-targets", exchange(32), "vulkan:rdna3")
    )
    assert export == "<workgroup_size = [64 : index, 1 : index, 1 : index], subgroup_size = 32>"


def test_a_vulkan_device_with_other_subgroups_refuses_the_program() -> None:
    """Mesa's lavapipe has subgroups of 4 or 8 threads."""
    with pytest.raises(RuntimeError, match="requires subgroup size 32 outside device range"):
        called(compiled(exchange(32), "vulkan:rdna3"), X, device=runtime.get_device("vulkan", cache=False))


@pytest.mark.parametrize(
    ("chip", "asked", "threads"),
    [("gfx1100", 32, 32), ("gfx1100", 64, 64), ("gfx942", 64, 64), ("gfx942", 32, 64)],
)
def test_the_subgroup_size_is_that_of_waves_where_amds_gpus_have_several(
    chip: str, asked: int, threads: int
) -> None:
    """IREE accepts what the GPU doesn't have, and says nothing."""
    # The number follows its name in the code object's metadata, MessagePack.
    assert re.findall(rb"\.wavefront_size(.)", compiled(exchange(asked), f"hip:{chip}")) == [bytes([threads])]
