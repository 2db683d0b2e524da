"""What NVIDIA's assembler says of kernels."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from iree.winograd.compiling.assembler import installed_assembler
from iree.winograd.cuda.instruction_version import with_version


def spilled_bytes(folder: Path, architecture: str) -> Mapping[str, int]:
    """Of each kernel, the text of which the compiler wrote to `folder`, the bytes of its stack."""
    assembler = installed_assembler()
    assert assembler is not None
    (text,) = folder.glob("*.ptx")
    text.write_bytes(with_version(text.read_bytes()))
    command = [assembler, "-v", f"-arch={architecture}", str(text), "-o", str(folder / "kernels.cubin")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert "serialized" not in told, "warpgroups wait for each of their products"
    found = re.findall(r"properties for (\w+)\n +(\d+) bytes stack frame", told)
    return {name: int(size) for name, size in found}
