"""A Linux for AArch64 in a folder, whose Python an emulator runs: Debian's, with wheels for it.

    python test/fuzz/guest.py FOLDER

makes one that can be copied to machines without a network, emulator included, and be named there by the
environment variable IREE_WINOGRAD_AARCH64.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

FOLDER_VARIABLE = "IREE_WINOGRAD_AARCH64"
ROOT = Path(__file__).parents[2]
EMULATOR = "qemu-aarch64-static"

EMULATED: Mapping[str, str] = MappingProxyType(
    {
        "cortex-a72": "cortex-a72",
        "cortex-a76": "cortex-a76",
        "apple-m1": "max,sve=off",
        "neoverse-v1": "max",
    }
)
"""By what programs are compiled for, the processor that the emulator is.

NEON alone, with fp16 and atomic additions, with more but without SVE, and with SVE and bf16. What a processor
lacks ends a program by SIGILL.
"""

_PACKAGES = (
    "libbz2-1.0",
    "libc6",
    "libcrypt1",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3.11-minimal",
    "zlib1g",
)
"""Of Debian 12: its Python, and what that and the wheels need."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_DEBIAN = f"deb [signed-by={_KEYRING}] http://deb.debian.org/debian bookworm main\n"
_PYTHON = ("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--only-binary=:all:", "--no-deps")
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64")
_WHEELS = ("iree-base-runtime", "ml_dtypes", "numpy")
_NEEDLESS = ("iree/_runtime_libs_tracy", "numpy/tests", "numpy/*/tests", "bin")
"""Parts of the wheels that take more than half of their memory."""


class NoGuestError(Exception):
    """There is none, and none can be made here; the text says why."""


@dataclass(frozen=True)
class Guest:
    """How a Python for AArch64 is started."""

    command: Sequence[str]
    packages: Path | None
    """Its wheels; None where they are this machine's."""

    @staticmethod
    def find(processor: str) -> Guest:
        """That which runs programs for `processor`, a name in `EMULATED`; it is made where there is none.

        Raises NoGuestError.
        """
        if platform.machine() == "aarch64":
            return Guest([sys.executable], None)
        folder = Path(os.environ.get(FOLDER_VARIABLE) or ROOT / "build" / "guest-aarch64")
        if not (folder / "made").exists():
            make(folder)
        system = folder / "system"
        emulator = [str(folder / EMULATOR), "-cpu", EMULATED[processor], "-L", str(system)]
        return Guest([*emulator, str(system / "usr/bin/python3.11")], folder / "packages")


def make(folder: Path) -> None:
    """Make a guest in `folder`, all of it or nothing. Raises NoGuestError."""
    emulator = shutil.which(EMULATOR)
    if emulator is None:
        raise NoGuestError("needs the package qemu-user-static")
    if not _KEYRING.exists():
        raise NoGuestError("needs the package debian-archive-keyring")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        made = Path(temporary, "guest").resolve()
        made.mkdir()
        shutil.copy2(emulator, made)
        _install_system(made / "system", made.parent)
        _install_wheels(made / "packages")
        (made / "made").touch()
        try:
            made.rename(folder)
        except OSError:
            assert (folder / "made").exists(), "another process has made it meanwhile"


def _install_system(system: Path, temporary: Path) -> None:
    """Debian's packages, unpacked; what the system knows of packages stays as it is."""
    for name in ("state/lists/partial", "cache/archives/partial", "downloaded"):
        (temporary / name).mkdir(parents=True)
    sources = temporary / "sources.list"
    sources.write_text(_DEBIAN)
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": temporary / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": temporary / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    _run([*apt, "update"], temporary)
    _run([*apt, "download", *_PACKAGES], temporary / "downloaded")
    for package in sorted((temporary / "downloaded").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(system)], temporary)


def _install_wheels(packages: Path) -> None:
    wheels = [f"{name}=={version(name)}" for name in _WHEELS]
    platforms = [f"--platform={name}" for name in _PLATFORMS]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
    _run([*pip, *platforms, *_PYTHON, *wheels], packages.parent)
    for pattern in _NEEDLESS:
        for found in packages.glob(pattern):
            shutil.rmtree(found)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NoGuestError(f"needs {error.filename}") from None
    if run.returncode:
        said = (run.stderr or run.stdout).strip().splitlines()[-1:]
        raise NoGuestError(f"there is no Python for AArch64: {command[0]}: {' '.join(said)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="guest", description=__doc__)
    parser.add_argument("folder", type=Path)
    make(parser.parse_args().folder)
