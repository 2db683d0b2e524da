"""Programs for AArch64, run by IREE's runtime for it in an emulator, or as they are on such a machine."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]

_LIBRARIES = Path("/usr/aarch64-linux-gnu")
"""Where Debian has glibc for it."""
_WHEEL_PLATFORM = "manylinux_2_28_aarch64"
_FOLDER = Path(__file__).parents[4] / "build" / "aarch64"
_TOOL = Path("iree", "_runtime_libs", "iree-run-module")
_MAIN = re.compile(r"func\.func @main\((.*)\) -> (tensor<\S+>) {")


@dataclass(frozen=True)
class Emulator:
    """The command line that `iree-run-module` for AArch64 is run by."""

    command: Sequence[str]

    @staticmethod
    def find() -> Emulator:
        """Skips the test where there is no emulator, or no runtime for it to run."""
        if platform.machine() == "aarch64":
            return Emulator([shutil.which("iree-run-module") or "iree-run-module"])
        emulator = shutil.which("qemu-aarch64-static")
        if emulator is None or not _LIBRARIES.exists():
            pytest.skip("needs the packages qemu-user-static, libc6-arm64-cross and libstdc++6-arm64-cross")
        return Emulator([emulator, "-cpu", "max", "-L", str(_LIBRARIES), str(_runtime() / _TOOL)])

    def run(
        self, program: bytes, arguments: Sequence[Array], results: int = 1, flags: Sequence[str] = ()
    ) -> list[Array]:
        """The results, so many, of its function `main`.

        Raises AssertionError with what was said where it isn't run to its end.
        """
        with TemporaryDirectory() as folder:
            module = Path(folder, "program.vmfb")
            module.write_bytes(program)
            inputs, paths = [], [Path(folder, f"result{number}.npy") for number in range(results)]
            outputs = [f"--output=@{path}" for path in paths]
            for number, argument in enumerate(arguments):
                path = Path(folder, f"argument{number}.npy")
                np.save(path, argument)
                inputs.append(f"--input=@{path}")
            run = subprocess.run(
                [*self.command, f"--module={module}", "--function=main", *inputs, *flags, *outputs],
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
            )
            assert run.returncode == 0, run.stderr or run.stdout
            return [np.load(path) for path in paths]


def as_one(programs: Sequence[str]) -> str:
    """MLIR of one function `main` that has the arguments of all programs' `main`, and results, in order."""
    parts, arguments, calls, results, types = [], [], [], [], []
    for number, text in enumerate(programs):
        found = _MAIN.search(text)
        assert found is not None, "a program has one function, main"
        of_part = [each.rpartition(": ")[2] for each in found[1].split(", %")]
        names = [f"%a{number}_{position}" for position in range(len(of_part))]
        parts.append(text.replace("func.func @main(", f"func.func private @part{number}("))
        arguments += [f"{name}: {type_}" for name, type_ in zip(names, of_part, strict=True)]
        signature = f"({', '.join(of_part)}) -> {found[2]}"
        calls.append(f"%r{number} = call @part{number}({', '.join(names)}) : {signature}")
        results.append(f"%r{number}")
        types.append(found[2])
    body = "\n  ".join([*calls, f"return {', '.join(results)} : {', '.join(types)}"])
    main = f"func.func @main({', '.join(arguments)}) -> ({', '.join(types)}) {{\n  {body}\n}}"
    return "\n".join([*parts, main])


def _runtime() -> Path:
    """The folder of IREE's runtime for AArch64, of the version that is installed for this machine."""
    of_version = version("iree-base-runtime")
    folder = _FOLDER / of_version
    if not folder.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=_FOLDER) as target:
            _install(of_version, Path(target, "runtime"))
            try:
                Path(target, "runtime").rename(folder)
            except OSError:
                assert folder.exists(), "another process has installed it meanwhile"
    return folder


def _install(of_version: str, folder: Path) -> None:
    wheel = [
        "--platform",
        _WHEEL_PLATFORM,
        "--only-binary=:all:",
        "--no-deps",
        f"iree-base-runtime=={of_version}",
    ]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *wheel]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"there is no runtime for AArch64: {installed.stderr.strip().splitlines()[-1]}")
    (folder / _TOOL).chmod(0o755)
