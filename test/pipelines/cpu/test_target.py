"""What kernels take a target to be."""

from __future__ import annotations

import pytest
from iree.winograd.pipelines.cpu.processor.target import CpuTarget

AVX512 = "+avx2,+fma,+avx512f"


@pytest.mark.parametrize(
    ("name", "features", "processor"),
    [
        ("icelake-server", "", "icelake-server"),
        ("rocketlake", "", "rocketlake"),
        # As virtual machines show the processors that they run on.
        ("rocketlake", "+amx-tile,-prefetchi", "sapphirerapids"),
        ("rocketlake", "+amx-tile,+prefetchi", "graniterapids"),
        ("emeraldrapids", "+amx-tile", "emeraldrapids"),
        ("", "+amx-tile,-amx-tile", ""),
    ],
)
def test_features_tell_more_than_an_older_name(name: str, features: str, processor: str) -> None:
    target = CpuTarget.of(name, f"{AVX512},{features}")
    assert target.cpu == processor
    assert target.l2_bytes == CpuTarget.of(processor, AVX512).l2_bytes
