"""Output files appear complete or not at all, whatever ends the process that writes them."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from iree.winograd import compile
from iree.winograd.atomic_file import atomic_file
from iree.winograd.errors import CompilationError
from small_programs import CONVOLUTION

# Writes half of a file, and says so.
WRITER = """
import sys, time
from pathlib import Path
from iree.winograd.atomic_file import atomic_file
with atomic_file(sys.argv[1]) as path:
    Path(path).write_text("half")
    print("written", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_leaves_nothing(tmp_path: Path, number: int) -> None:
    (tmp_path / "output").write_text("before")
    command = [sys.executable, "-c", WRITER, tmp_path / "output"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"written\n"
        writer.send_signal(number)
    assert [path.name for path in tmp_path.iterdir()] == ["output"]
    assert (tmp_path / "output").read_text() == "before"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_file(str(tmp_path / "output")) as path:
            Path(path).write_text("new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "output").stat().st_mode) == 0o666 & ~mask


def test_the_mask_of_the_process_never_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would make a file that everybody may write."""

    def refuse(mask: int) -> int:
        raise AssertionError

    monkeypatch.setattr(os, "umask", refuse)
    with atomic_file(str(tmp_path / "output")) as path:
        Path(path).write_text("new")
    assert (tmp_path / "output").read_text() == "new"


def test_a_file_where_something_is_mounted_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", refuse)
    (tmp_path / "output").write_text("before")
    with atomic_file(str(tmp_path / "output")) as path:
        Path(path).write_text("after")
    assert (tmp_path / "output").read_text() == "after"
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_an_open_file_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as file:
        (tmp_path / "output").unlink()
        with atomic_file(f"/dev/fd/{file.fileno()}") as path:
            Path(path).write_text("text")
        assert os.fstat(file.fileno()).st_size == 4
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_unnamed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    with atomic_file(str(tmp_path / "output")) as path:
        Path(path).write_text("after")
    with pytest.raises(KeyError), atomic_file(str(tmp_path / "output")) as path:
        raise KeyError
    assert (tmp_path / "output").read_text() == "after"
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_a_full_disk_is_an_error() -> None:
    """LLVM would end the process."""

    with pytest.raises(CompilationError, match="cannot write output file '/dev/full': No space left"):
        compile(CONVOLUTION, output="/dev/full", target="cpu:haswell")
